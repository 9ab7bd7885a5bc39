import { defineCodec, NO_OPTIONS } from '../core/codec.js'
import type { Fields } from '../core/event/event.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { parseIsoTime } from '../lib/formats/iso-time.js'
import { slotOf, WantedNames } from '../lib/formats/json-scan.js'
import { jsonText } from '../lib/formats/json-text.js'
import { isoText, TIME_FORMATS } from '../lib/formats/time-formats.js'
import { TimeZone } from '../lib/formats/time-zone.js'
import { FieldsCodec } from './fields-codec.js'
import { JSON_OBJECTS } from './json.js'

const QUOTE = 0x22
const UNDERSCORE = 0x5f
const LONGEST_NUMBER = 40
const UTC = new TimeZone('UTC')

/** The members of a message that are not additional ones, and the names of their fields. */
const OWN = wanted('short_message', 'host', 'timestamp', 'level', 'full_message', 'version')
const MESSAGE = 0
const TIMESTAMP = 2
const FIELDS = wanted('message', 'host', 'timestamp', 'level', 'full_message')

function wanted(...names: string[]): WantedNames {
  const all = new WantedNames()
  for (const name of names) all.slot(name)
  return all
}

/** The severities of syslog by the names that programs use. */
const LEVELS = new Map(
  [
    ['emerg', 'emergency', 'panic'],
    ['alert'],
    ['crit', 'critical', 'fatal'],
    ['err', 'error'],
    ['warning', 'warn'],
    ['notice'],
    ['info', 'informational'],
    ['debug', 'trace'],
  ].flatMap((names, level) => names.map((name): [string, number] => [name, level])),
)

/** Finds the members in `OWN`. */
class OwnMembers implements FieldSink {
  b: Buffer = Buffer.alloc(0)
  readonly starts = new Int32Array(OWN.names.length)
  readonly ends = new Int32Array(OWN.names.length)

  readonly text = unused
  readonly string = unused
  readonly made = unused
  readonly value = unused

  json({ bytes, start: nameStart, end: nameEnd }: FieldName, b: Buffer, start: number, end: number): void {
    const which = bytes[nameStart] === UNDERSCORE ? -1 : slotOf(bytes, nameStart, nameEnd, OWN)
    if (which < 0) return
    this.b = b
    this.starts[which] = start
    this.ends[which] = end
  }

  has(which: number): boolean {
    return this.starts[which]! >= 0
  }
}

/** Passes all other members on, without their underscore where no other field has the name. */
class Additional implements FieldSink {
  readonly #own: OwnMembers
  to: FieldSink | undefined

  readonly text = unused
  readonly string = unused
  readonly made = unused
  readonly value = unused

  constructor(own: OwnMembers) {
    this.#own = own
  }

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    const { bytes, start: nameStart, end: nameEnd } = name
    if (bytes[nameStart] !== UNDERSCORE) {
      if (slotOf(bytes, nameStart, nameEnd, OWN) < 0) this.to!.json(name, b, start, end)
      return
    }
    const which = slotOf(bytes, nameStart + 1, nameEnd, FIELDS)
    this.to!.json(which >= 0 && this.#own.has(which) ? name : name.at(bytes, nameStart + 1, nameEnd), b, start, end)
  }
}

/** A JSON object is given as JSON alone. */
function unused(): void {}

class Gelf extends FieldsCodec {
  readonly #own = new OwnMembers()
  readonly #additional = new Additional(this.#own)
  readonly #name = new FieldName()

  constructor() {
    super(gelf, undefined)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const own = this.#own
    own.starts.fill(-1)
    if (!JSON_OBJECTS.read(b, start, end, own, 0)) return false
    if (!own.has(MESSAGE) || own.b[own.starts[MESSAGE]!] !== QUOTE) return false
    for (let n = 0; n < FIELDS.bytes.length; n++) {
      if (!own.has(n)) continue
      const [from, until] = [own.starts[n]!, own.ends[n]!]
      const name = this.#name.at(FIELDS.bytes[n]!, 0, FIELDS.bytes[n]!.length)
      const time = n === TIMESTAMP ? timeOf(own.b, from, until) : undefined
      if (time !== undefined) to.value(name, time)
      else to.json(name, own.b, from, until)
    }
    this.#additional.to = to
    return JSON_OBJECTS.read(b, start, end, this.#additional, 0)
  }

  override encode({ message, host, ...rest }: Fields): string {
    const line: [string, unknown][] = [
      ['version', '1.1'],
      ['host', textOf(host ?? '') || 'unknown'],
      ['short_message', textOf(message ?? '') || '-'],
    ]
    for (const [name, value] of Object.entries(rest)) {
      const own = ownValue(name, value)
      if (own !== undefined) line.push([name, own])
      else if (value !== undefined) line.push([additionalName(name), typeof value === 'number' ? value : textOf(value)])
    }
    return jsonText(Object.fromEntries(line))
  }
}

/** Seconds since the epoch, a number or its text, as ISO 8601. */
function timeOf(b: Buffer, start: number, end: number): string | undefined {
  if (end - start > LONGEST_NUMBER) return undefined
  const inside = b[start] === QUOTE ? 1 : 0
  const text = b.toString('latin1', start + inside, end - inside)
  const time = TIME_FORMATS.unix!(text.includes('e') || text.includes('E') ? String(Number(text)) : text, UTC, 0)
  return time && isoText(time)
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : jsonText(value)
}

/** The value of a field that GELF has a member for; undefined if it cannot have this value. */
function ownValue(name: string, value: unknown): unknown {
  if (name === 'full_message') return typeof value === 'string' ? value : undefined
  if (name === 'level') {
    if (typeof value === 'string') return LEVELS.get(value.toLowerCase())
    return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 7 ? value : undefined
  }
  if (name !== 'timestamp' || typeof value !== 'string') return undefined
  const bytes = Buffer.from(value)
  const ms = parseIsoTime(bytes, 0, bytes.length)
  return Number.isNaN(ms) ? undefined : Number((ms / 1000).toFixed(6))
}

/** Receivers refuse `_id`. */
function additionalName(name: string): string {
  return name === 'id' ? '__id' : `_${name.replace(/[^\w.-]/g, '_')}`
}

export const gelf = defineCodec({
  name: 'gelf',
  summary: 'Each line is a message in the Graylog Extended Log Format (GELF 1.1), a JSON object.',
  notes:
    'Events have `.message` (`short_message`), `.host`, `.timestamp` (ISO 8601), `.level` (0 to 7), `.full_message` and the additional fields without their underscore, ' +
    'which one keeps where the message has a field of that name anyway: of `level` and `_level`, the latter is `._level`. A message ends with a line end or, at the source `tcp`, with a null byte. ' +
    'Messages that are compressed or in chunks, as over UDP, are not read.\n\n' +
    'As an encoding: `.message` becomes `short_message`, and is `-` if it is empty; `.host` is `unknown` if there is none. `.timestamp` becomes seconds if it is an ISO 8601 time, with microseconds, ' +
    'and `.level` a number if it is one from 0 to 7 or a name such as `error`. All other fields become additional fields: numbers and text as they are, ' +
    'all else as JSON text. Characters in names besides letters, digits, `_`, `.` and `-` become `_`; `id`, which GELF does not allow, becomes `__id`.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a GELF message',
  undecodedHelp: 'Lines that are not GELF messages. They are kept as text.',
  joinsLines: false,
  endsWithNull: true,
  contentType: 'application/x-ndjson',
  examples: [
    {
      title: 'A message with additional fields',
      yaml: '',
      line: '{"version":"1.1","host":"web-07","short_message":"out of memory","timestamp":1385053862.3072,"level":1,"_user_id":9001,"_app":"shop"}',
      event: {
        message: 'out of memory',
        host: 'web-07',
        timestamp: '2013-11-21T17:11:02.3072Z',
        level: 1,
        user_id: 9001,
        app: 'shop',
      },
    },
  ],
  create: () => new Gelf(),
})
