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
 * The fields that the values of options name: as paths, in templates and in conditions, also in lists and mappings.
 * `without`: as in UsedField, by the name of the option. It does not hold for a field of a template with a default.
 */
export function fieldsIn(
  options: Readonly<Record<string, unknown>>,
  without: Readonly<Record<string, string>> = {},
): UsedField[] {
  const fields: UsedField[] = []
  const find = (value: unknown, option: string, text: string | undefined): void => {
    if (Array.isArray(value)) for (const item of value) find(item, option, text)
    if (typeof value !== 'object' || Object.getPrototypeOf(value ?? []) !== Object.prototype) return
    const of = value as Partial<FieldPath> & { readonly fallback?: string }
    if (of.segments) fields.push({ option, path: of as FieldPath, ...(text !== undefined && { without: text }) })
    else
      for (const [name, inner] of Object.entries(of))
        find(inner, option, of.fallback ? undefined : (without[name] ?? text))
  }
  for (const [option, value] of Object.entries(options)) find(value, option, without[option])
  return fields
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
