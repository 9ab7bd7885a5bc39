import { isUtf8 } from 'node:buffer'
import { SEVERITIES } from '../../core/codecs/syslog/syslog-header.js'
import type { EventFields } from '../../core/event/event-fields.js'

/**
 * An entry from `journalctl -o json`. A value is a string, an array of numbers (bytes), null, or an array of several of
 * these values.
 */
export type JournalEntry = Readonly<Record<string, unknown>>

/** Journal fields that an event also has under another name. */
export const RENAMED = ['MESSAGE', 'PRIORITY', '_HOSTNAME', 'SYSLOG_IDENTIFIER', '_PID', '_SYSTEMD_UNIT'] as const

const OWN = ['message', 'timestamp', 'host', 'severity', 'severity_code', 'app', 'pid', 'unit', 'raw', 'truncated']

/** Returns the fields that events can have. `included`: the journal fields to keep; undefined: all. */
export function fieldsOfEntries(included: readonly string[] | undefined): EventFields {
  if (included) return { names: [...OWN, ...included] }
  return {
    names: OWN,
    others: { test: name => /^[A-Z0-9_]+$/.test(name), text: "the journal's own fields, in capitals" },
  }
}

export interface EventOptions {
  /** The host of events whose entry does not name a host. */
  readonly host: string
  /** Fields of the journal to keep; undefined: all. */
  readonly included: ReadonlySet<string> | undefined
}

export function eventOptions(
  { include_fields: included }: { include_fields?: readonly string[] | undefined },
  host: string,
): EventOptions {
  return { host, included: included && new Set(included) }
}

/** Returns the event as JSON without line end: common fields, then journal fields. `cut`: names of the cut fields. */
export function lineOf(entry: JournalEntry, { host, included }: EventOptions, cut: readonly string[] = []): string {
  let line = ''
  const put = (name: string, value: unknown) => {
    if (value !== undefined) line += `,"${name}":${JSON.stringify(value)}`
  }
  put('timestamp', timeOf(entry.__REALTIME_TIMESTAMP))
  put('host', oneText(entry._HOSTNAME) ?? host)
  const code = oneText(entry.PRIORITY)
  if (code !== undefined && /^[0-7]$/.test(code)) {
    put('severity', SEVERITIES[Number(code)])
    put('severity_code', Number(code))
  }
  put('app', oneText(entry.SYSLOG_IDENTIFIER))
  put('pid', oneText(entry._PID))
  put('unit', oneText(entry._SYSTEMD_UNIT))
  putMessage(entry.MESSAGE, put)
  if (cut.length > 0) put('truncated', cut)
  for (const name in entry) {
    // If a name begins with two underscores, the field is journalctl's own data about an entry, such as the cursor.
    if (name === 'MESSAGE' || name.startsWith('__') || (included && !included.has(name))) continue
    line += `,${JSON.stringify(name)}:${JSON.stringify(plain(entry[name]))}`
  }
  return `{${line.slice(1)}}`
}

/** Whether the object is a journal entry. An event made from an entry does not have any of these three fields. */
export function isEntry(value: object): boolean {
  return ['__CURSOR', '__REALTIME_TIMESTAMP', 'MESSAGE'].some(name => Object.hasOwn(value, name))
}

export function cursorOf(entry: JournalEntry): string | undefined {
  const { __CURSOR: cursor } = entry
  return typeof cursor === 'string' && cursor !== '' ? cursor : undefined
}

/** When journald received the entry, in milliseconds since the epoch. */
export function takenAt({ __REALTIME_TIMESTAMP: micros }: JournalEntry): number | undefined {
  return typeof micros === 'string' && /^\d{1,16}$/.test(micros) ? Number(micros) / 1000 : undefined
}

/** Converts microseconds since the epoch to RFC 3339. */
function timeOf(value: unknown): string | undefined {
  const [, ms, micros] = (typeof value === 'string' && /^(\d{1,13})(\d{3})$/.exec(value)) || []
  return ms === undefined ? undefined : new Date(Number(ms)).toISOString().replace('Z', `${micros}Z`)
}

function putMessage(value: unknown, put: (name: string, value: unknown) => void): void {
  if (value === undefined || value === null) return
  const message = plain(value)
  put('message', Array.isArray(message) ? message.join('\n') : message)
  const bytes = bytesOf(value)
  if (bytes && !isUtf8(bytes)) put('raw', bytes.toString('base64'))
}

function oneText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const found = plain(value)
  const first = Array.isArray(found) ? found[0] : found
  return typeof first === 'string' ? first : undefined
}

/** Returns text, or an array of texts for a field that occurs several times. Replaces invalid UTF-8. */
function plain(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return bytesOf(value)?.toString() ?? value.map(plain)
}

function bytesOf(value: unknown): Buffer | undefined {
  return Array.isArray(value) && typeof value[0] === 'number' ? Buffer.from(value as number[]) : undefined
}
