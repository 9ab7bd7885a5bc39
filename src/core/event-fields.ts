import type { FieldPath } from './field-path.js'
import type { Decode } from './origin.js'

/** The fields that the events of a source can have. */
export interface EventFields {
  /** At the top of the event. */
  readonly names: readonly string[]
  /** More that are not known by name: a test of one, and what they are, in words. */
  readonly others?: { readonly test: (name: string) => boolean; readonly text: string }
}

/** An option of a processor that names a field. */
export interface UsedField {
  readonly option: string
  readonly path: FieldPath
  /** What happens where no event has the field, as in "all events share one bucket". */
  readonly without?: string
}

/** Fields of every line that is not a JSON object (core/event.ts). */
const OF_A_LINE = ['message', 'host', 'timestamp', 'partial', 'raw']
const OF_SYSLOG = ['app', 'pid', 'msgid', 'facility', 'severity', 'severity_code', 'structured_data']

/** The fields of lines; `own` are those that their source adds. Undefined: any, since lines are JSON objects. */
export function fieldsOfLines(decode: Decode, own: readonly string[] = []): EventFields | undefined {
  if (decode === 'json') return undefined
  return { names: [...OF_A_LINE, ...(decode === 'syslog' ? OF_SYSLOG : []), ...own] }
}
