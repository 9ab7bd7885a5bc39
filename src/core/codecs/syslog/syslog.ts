import { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
import type { WantedNames } from '../../../lib/formats/json-scan.js'
import { exactJson } from '../../../lib/formats/normal-json.js'
import { behindMark, defineCodec, NO_OPTIONS, putSlot } from '../../codec.js'
import type { Fields } from '../../event/event-fields.js'
import { FieldsCodec } from '../fields-codec.js'
import { structuredData } from './syslog-data.js'
import {
  APP,
  DATA,
  FACILITIES,
  fieldOfPriority,
  HOST,
  isClassicTime,
  MESSAGE,
  MSGID,
  PID,
  PRIORITY,
  partEnds,
  partStarts,
  priority,
  SEVERITIES,
  scanSyslog,
  TIME,
} from './syslog-header.js'
import { classicTime, isoTimeEnd } from './syslog-time.js'

const PARTS = new Map([
  ['message', MESSAGE],
  ['timestamp', TIME],
  ['host', HOST],
  ['app', APP],
  ['pid', PID],
  ['msgid', MSGID],
  ['structured_data', DATA],
  ['facility', PRIORITY],
  ['severity', PRIORITY],
  ['severity_code', PRIORITY],
])
const NAMES = new Map([...PARTS.keys()].map(name => [name, new FieldName(name)]))
const names = (...all: string[]) => all.map(name => NAMES.get(name)!)
/** The fields that are copied from parts of the line, in the order of the parts. */
const TEXTS = names('timestamp', 'host', 'app', 'pid', 'msgid')
const [MESSAGE_NAME, DATA_NAME] = names('message', 'structured_data') as [FieldName, FieldName]
const [FACILITY, SEVERITY, CODE] = names('facility', 'severity', 'severity_code') as [FieldName, FieldName, FieldName]
const FACILITY_TEXTS = FACILITIES.map(text => Buffer.from(text))
const SEVERITY_TEXTS = SEVERITIES.map(text => Buffer.from(text))
const DIGITS = Buffer.from('01234567')

/** Whether the value of `part` differs from the bytes of this part in the line that was scanned last. */
function isSpecial(part: number): boolean {
  return part === PRIORITY || part === DATA || (part === TIME && isClassicTime())
}

class Syslog extends FieldsCodec {
  /** For each wanted name, the part of the line that has its value. Valid for the version `#version` of `#wanted`. */
  readonly #parts: (number | undefined)[] = []
  #wanted: WantedNames | undefined
  #version = -1

  constructor() {
    super(syslog, { names: [...PARTS.keys()] })
  }

  override scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean {
    if (!scanSyslog(b, behindMark(b, start, end), end)) return false
    if (this.#wanted !== wanted || this.#version !== wanted.version) this.#want(wanted)
    for (let slot = 0; slot < this.#parts.length; slot++) {
      const part = this.#parts[slot]
      if (part === undefined || partStarts[part]! < 0) continue
      putSlot(out, at, slot, partStarts[part]!, partEnds[part]!, isSpecial(part))
    }
    return true
  }

  #want(wanted: WantedNames): void {
    this.#wanted = wanted
    this.#version = wanted.version
    this.#parts.length = 0
    for (const name of wanted.names) this.#parts.push(PARTS.get(name))
  }

  read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    if (!scanSyslog(b, behindMark(b, start, end), end)) return false
    to.text(MESSAGE_NAME, b, partStarts[MESSAGE]!, partEnds[MESSAGE]!)
    for (let part = TIME; part <= MSGID; part++) {
      const from = partStarts[part]!
      if (from < 0) continue
      if (part !== TIME || !isClassicTime()) to.text(TEXTS[part]!, b, from, partEnds[part]!)
      else {
        const time = classicTime(b, from, partEnds[part]!, receivedAt)
        if (time) to.text(TEXTS[part]!, time, 0, time.length)
      }
    }
    if (priority >= 0) {
      const code = priority & 7
      const facility = FACILITY_TEXTS[priority >> 3]!
      to.text(FACILITY, facility, 0, facility.length)
      to.text(SEVERITY, SEVERITY_TEXTS[code]!, 0, SEVERITY_TEXTS[code]!.length)
      to.json(CODE, DIGITS, code, code + 1)
    }
    if (partStarts[DATA]! >= 0) to.made(DATA_NAME, this, b, partStarts[DATA]!, partEnds[DATA]!)
    return true
  }

  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    if (name === 'timestamp') return classicTime(b, start, end, receivedAt)?.toString()
    const text = b.toString('utf8', start, end)
    return name === 'structured_data' ? structuredData(text) : fieldOfPriority(Number(text), name)
  }

  /** Encodes as in RFC 5424. */
  override encode(fields: Fields): string {
    const { timestamp, host, app, pid, msgid, structured_data: data } = fields
    const words = [word(host, 255), word(app, 48), word(pid, 128), word(msgid, 32)].join(' ')
    const message = messageOf(fields)
      .replace(/^\ufeff+/, '')
      .replace(/\r\n|[\r\n]/g, ' ')
    return `<${priorityOf(fields)}>1 ${timeOf(timestamp)} ${words} ${dataOf(data)}${message === '' ? '' : ` ${message}`}`
  }
}

const USER = 1
const INFO = 6
const ALIASES: Readonly<Record<string, number>> = {
  emergency: 0,
  panic: 0,
  fatal: 2,
  critical: 2,
  error: 3,
  warn: 4,
  informational: 6,
  trace: 7,
}

function priorityOf({ facility, severity, severity_code: code, level }: Fields): number {
  const known = typeof facility === 'string' ? FACILITIES.indexOf(facility) : -1
  const isCode = Number.isInteger(code) && (code as number) >= 0 && (code as number) <= 7
  const severityCode = severityOf(severity) ?? (isCode ? (code as number) : undefined) ?? severityOf(level) ?? INFO
  return (known < 0 ? USER : known) * 8 + severityCode
}

function severityOf(value: unknown): number | undefined {
  if (typeof value !== 'string') return undefined
  const name = value.toLowerCase()
  const code = SEVERITIES.indexOf(name)
  return code < 0 && Object.hasOwn(ALIASES, name) ? ALIASES[name] : code < 0 ? undefined : code
}

/** Returns a timestamp of RFC 3339 unchanged. For any other value, returns the nil value. */
function timeOf(value: unknown): string {
  if (typeof value !== 'string' || value.length > MOST_TIME) return NIL
  const bytes = Buffer.from(value)
  return isoTimeEnd(bytes, 0, bytes.length) === bytes.length ? value : NIL
}

const NIL = '-'
const MOST_TIME = 64

const textOf = (value: unknown): string => (typeof value === 'string' ? value : exactJson(value))

/** Converts a value to printable ASCII without spaces. Replaces each other character by an underscore. */
function word(value: unknown, most: number): string {
  if (value === undefined || value === null || value === '') return NIL
  return textOf(value)
    .replace(/[^\x21-\x7e]/gu, '_')
    .slice(0, most)
}

/** Converts a text to a valid name in structured data. */
const nameOf = (name: string): string => word(name, 32).replace(/[=\]"]/g, '_')

/** Encodes structured data. Elements whose names become equal are merged. */
function dataOf(data: unknown): string {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return NIL
  const elements = new Map<string, Map<string, string[]>>()
  for (const [id, parameters] of Object.entries(data)) {
    const element = elements.get(nameOf(id)) ?? new Map<string, string[]>()
    elements.set(nameOf(id), element)
    if (typeof parameters !== 'object' || parameters === null) continue
    for (const [name, value] of Object.entries(parameters)) {
      const written = nameOf(name)
      const values = element.get(written) ?? []
      for (const one of Array.isArray(value) ? value : [value]) values.push(textOf(one))
      element.set(written, values)
    }
  }
  const parameters = ([name, values]: [string, string[]]) => values.map(value => ` ${name}="${escaped(value)}"`)
  const written = Array.from(elements, ([id, element]) => `[${id}${[...element].flatMap(parameters).join('')}]`)
  return written.join('') || NIL
}

const escaped = (value: string): string => value.replace(/\r\n|[\r\n]/g, ' ').replace(/["\\\]]/g, '\\$&')

/** Returns the message. If no message exists, returns the JSON of all fields that are not elsewhere in the line. */
function messageOf(fields: Fields): string {
  if (fields.message !== undefined && fields.message !== null) return textOf(fields.message)
  const others = Object.entries(fields).filter(([name, value]) => !PARTS.has(name) && value !== undefined)
  return others.length === 0 ? '' : exactJson(Object.fromEntries(others))
}

export const syslog = defineCodec({
  name: 'syslog',
  summary: 'Each line is a syslog message: RFC 5424, RFC 3164, or the file format of a syslog daemon.',
  notes:
    'A line is a syslog message if it begins with a priority or a timestamp. Events have `.message`, `.timestamp`, `.host`, `.app`, ' +
    '`.pid`, `.msgid`, `.facility` and `.severity` (both by name), `.severity_code` (0 to 7) and `.structured_data`, if the ' +
    'message has them. A timestamp without a year is read as local time, in the year that makes it nearest to the present.\n\n' +
    'In a message of RFC 3164, a word is the `.app` only if a colon or `[PID]:` follows, because a limit by `.app` would otherwise have a key for each first word of a text. ' +
    'A word is the `.host` only if more text follows, because it may be the whole text. Malformed structured data stays in `.message`, to lose no text.\n\n' +
    'As an encoding: each event becomes an RFC 5424 message with these fields. A missing or unknown `.severity` (or `.severity_code`, or `.level`) becomes `info`, ' +
    'and a missing or unknown `.facility` becomes `user`. A `.timestamp` that is not in RFC 3339 is left out. Line ends become spaces. ' +
    'An event without `.message` has the JSON of its other fields in its place.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a syslog message',
  undecodedHelp: 'Lines that are not syslog messages. They are kept as text.',
  joinsLines: true,
  decodesFirstPiece: true,
  mayBeCounted: true,
  hostIsSender: true,
  contentType: 'text/plain; charset=utf-8',
  examples: [
    {
      title: 'A message in the format of RFC 5424',
      yaml: '',
      line: '<165>1 2026-01-31T12:00:00Z web-07 nginx 812 - [meta@1 zone="eu"] upstream timed out',
      event: {
        message: 'upstream timed out',
        timestamp: '2026-01-31T12:00:00Z',
        host: 'web-07',
        app: 'nginx',
        pid: '812',
        facility: 'local4',
        severity: 'notice',
        severity_code: 5,
        structured_data: { 'meta@1': { zone: 'eu' } },
      },
    },
    {
      title: 'A word without a colon is not an app',
      yaml: '',
      line: '<13>2026-02-18T16:01:59Z srv -- MARK --',
      event: {
        message: '-- MARK --',
        timestamp: '2026-02-18T16:01:59Z',
        host: 'srv',
        facility: 'user',
        severity: 'notice',
        severity_code: 5,
      },
    },
    {
      title: 'A single word is the text',
      yaml: '',
      line: '2026-08-30T23:00:05Z X4711',
      event: { message: 'X4711', timestamp: '2026-08-30T23:00:05Z' },
    },
  ],
  create: () => new Syslog(),
})
