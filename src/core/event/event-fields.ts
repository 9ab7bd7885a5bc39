import type { Codec } from '../codec.js'
import type { FieldPath } from './field-path.js'

export interface EventFields {
  /** Top-level fields. */
  readonly names: readonly string[]
  /** Further fields, whose names are not known in advance: a test and a description. */
  readonly others?: { readonly test: (name: string) => boolean; readonly text: string }
}

export interface UsedField {
  readonly option: string
  readonly path: FieldPath
  /** What happens if no event has the field, such as "all events share one bucket". */
  readonly without?: string
}

/**
 * Where a processor finds the time of an event: in the first field of `names` that contains a time. `option`: the
 * option that sets these fields.
 */
export interface TimeSearch {
  readonly option: string
  readonly names: readonly string[]
}

/** Fields that every line can have, since a line may be kept as text or divided (core/event/event.ts). */
const OF_A_LINE = ['message', 'host', 'timestamp', 'partial', 'raw']

/**
 * Returns the fields that lines of this codec can have, plus the fields `own` that their source adds. Undefined: any
 * field.
 */
export function fieldsOfLines({ eventFields }: Codec, own: readonly string[] = []): EventFields | undefined {
  return eventFields && { ...eventFields, names: [...new Set([...OF_A_LINE, ...eventFields.names, ...own])] }
}
