import type { FieldPath } from './field-path.js'

export type Fields = Record<string, unknown>

export interface EventFields {
  /** Top-level fields. */
  readonly names: readonly string[]
  /** Other fields, whose names are not known in advance. `test` recognizes their names, `text` describes them. */
  readonly others?: { readonly test: (name: string) => boolean; readonly text: string }
}

export interface UsedField {
  readonly option: string
  readonly path: FieldPath
  /** What happens if no event has the field, such as "all events share one bucket". */
  readonly without?: string
}

/**
 * A processor takes the time of an event from the first field in `names` that contains a time. `option`: the option
 * that sets these fields.
 */
export interface TimeSearch {
  readonly option: string
  readonly names: readonly string[]
}

/** Fields that lines of every codec can have, because a line may be kept as text or divided (core/event/event.ts). */
const OF_A_LINE = ['message', 'host', 'timestamp', 'partial', 'raw']

/**
 * Returns the fields that lines of this codec can have, plus the fields `own` that their source adds. Undefined: the
 * lines can have any field.
 */
export function fieldsOfLines(
  { eventFields }: { readonly eventFields: EventFields | undefined },
  own: readonly string[] = [],
): EventFields | undefined {
  return eventFields && { ...eventFields, names: [...new Set([...OF_A_LINE, ...eventFields.names, ...own])] }
}
