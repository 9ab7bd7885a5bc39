import { behindMark, defineCodec, NO_OPTIONS } from '../core/codec.js'
import type { Fields } from '../core/event/event.js'
import { EpochTime } from '../lib/formats/epoch-time.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { parseIsoTime } from '../lib/formats/iso-time.js'
import { slotOf, WantedNames } from '../lib/formats/json-scan.js'
import { jsonText } from '../lib/formats/json-text.js'
import { MemberPlaces, NAME, VALUE } from '../lib/formats/member-places.js'
import { FieldsCodec } from './fields-codec.js'

const SPACE = 0x20
const QUOTE = 0x22
const UNDERSCORE = 0x5f
const LONGEST_NUMBER = 40
const seconds = new EpochTime()

/** The members of a message that are not additional ones, and the names of their fields. */
const OWN = wanted('short_message', 'host', 'timestamp', 'level', 'full_message', 'version')
const MESSAGE = 0
const TIMESTAMP = 2
const FIELDS = wanted('message', 'host', 'timestamp', 'level', 'full_message')
const FIELD_NAMES = FIELDS.names.map(name => new FieldName(name))

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

class Gelf extends FieldsCodec {
  readonly #places = new MemberPlaces()
  /** The number of the member for each name of `OWN`, or -1. */
  readonly #own = new Int32Array(OWN.names.length)
  readonly #name = new FieldName()

  constructor() {
    super(gelf, undefined)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    if (end === b.length || b[end]! >= SPACE) {
      // A scan needs a byte to stop at.
      const copy = Buffer.alloc(end - start + 1)
      b.copy(copy, 0, start, end)
      return this.read(copy, 0, end - start, to)
    }
    const places = this.#places
    if (!places.read(b, behindMark(b, start, end), end)) return false
    const own = this.#own.fill(-1)
    for (let n = 0; n < places.count; n++) {
      const { bytes, start: from, end: until } = this.#nameOf(b, n)
      const which = bytes[from] === UNDERSCORE ? -1 : slotOf(bytes, from, until, OWN)
      if (which >= 0) own[which] = n
    }
    if (own[MESSAGE]! < 0 || b[places.valueStarts[own[MESSAGE]!]!] !== QUOTE) return false
    for (let which = 0; which < FIELD_NAMES.length; which++) {
      if (own[which]! >= 0) this.#put(FIELD_NAMES[which]!, b, own[which]!, to, which === TIMESTAMP)
    }
    for (let n = 0; n < places.count; n++) this.#putAdditional(b, n, to)
    return true
  }

  #nameOf(b: Buffer, n: number): FieldName {
    const { nameStarts, nameEnds, escapes } = this.#places
    if ((escapes[n]! & NAME) === 0) return this.#name.at(b, nameStarts[n]!, nameEnds[n]!)
    const decoded = Buffer.from(JSON.parse(b.toString('utf8', nameStarts[n]! - 1, nameEnds[n]! + 1)) as string)
    return this.#name.at(decoded, 0, decoded.length)
  }

  #put(name: FieldName, b: Buffer, n: number, to: FieldSink, isTime: boolean): void {
    const start = this.#places.valueStarts[n]!
    const end = this.#places.valueEnds[n]!
    if (isTime && isTimeAt(b, start, end)) to.text(name, seconds.bytes, 0, seconds.length)
    else if (b[start] === QUOTE) to.string(name, b, start + 1, end - 1, (this.#places.escapes[n]! & VALUE) !== 0)
    else to.json(name, b, start, end)
  }

  /** Gives what is none of `OWN`, without its underscore where no other field has the name. */
  #putAdditional(b: Buffer, n: number, to: FieldSink): void {
    const name = this.#nameOf(b, n)
    const { bytes, start, end } = name
    if (bytes[start] !== UNDERSCORE) {
      if (slotOf(bytes, start, end, OWN) >= 0) return
    } else {
      const which = slotOf(bytes, start + 1, end, FIELDS)
      if (which < 0 || this.#own[which]! < 0) name.at(bytes, start + 1, end)
    }
    this.#put(name, b, n, to, false)
  }

  /** What is given as a string has a place that begins with its opening quote. */
  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    return b[start] === QUOTE
      ? JSON.parse(`${b.toString('utf8', start, end)}"`)
      : super.value(b, start, end, name, receivedAt)
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

/** Converts seconds since the epoch, a number or its text. */
function isTimeAt(b: Buffer, start: number, end: number): boolean {
  const inside = b[start] === QUOTE ? 1 : 0
  return end - start <= LONGEST_NUMBER && seconds.convert(b, start + inside, end - inside)
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
