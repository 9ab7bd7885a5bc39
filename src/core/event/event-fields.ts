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
  /** The consequence if no event has the field, such as "all events share one bucket". */
  readonly without?: string
}

/**
 * The option by which a processor finds the time of events, and the fields that it searches. The first field that has a
 * time counts.
 */
export interface TimeSearch {
  readonly option: string
  readonly names: readonly string[]
}

/** Fields that every line can have, since a line may be kept as text or divided (core/event/event.ts). */
const OF_A_LINE = ['message', 'host', 'timestamp', 'partial', 'raw']

/** Returns the fields of lines that `codec` reads, plus the fields `own` of their source. Undefined: any. */
export function fieldsOfLines({ eventFields }: Codec, own: readonly string[] = []): EventFields | undefined {
  return eventFields && { ...eventFields, names: [...new Set([...OF_A_LINE, ...eventFields.names, ...own])] }
}
