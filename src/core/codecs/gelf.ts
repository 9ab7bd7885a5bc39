import { CLOSE_OBJECT, COLON, COMMA, QUOTE, SPACE, ZERO } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { parseIsoTime } from '../../lib/formats/iso-time.js'
import { addUnique } from '../../lib/formats/json-members.js'
import { slotOf, WantedNames } from '../../lib/formats/json-scan.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { MemberPlaces, NAME, VALUE } from '../../lib/formats/member-places.js'
import { TimeZone } from '../../lib/formats/time-zone.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { isoText, TIME_FORMATS } from '../time-formats.js'
import { type EventMembers, MembersEncoder } from './event-members.js'
import { FieldsCodec } from './fields-codec.js'

const UNDERSCORE = 0x5f
const LONGEST_NUMBER = 40
const UTC = new TimeZone('UTC')
/** The time that was read last, as ISO 8601. It can have a sign, a year of six digits and a fraction of nine digits. */
const time = Buffer.alloc(40)

/** The standard members of a message. FIELDS: the names of their event fields, in the same order without `version`. */
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

/** The syslog severities by the names that programs use. */
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
  /** For each name of `OWN`: the index of its member, or -1 if missing. */
  readonly #own = new Int32Array(OWN.names.length)
  readonly #name = new FieldName()

  constructor() {
    super(gelf, undefined)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    if (end === b.length || b[end]! >= SPACE) {
      // The scan needs a control character after the text.
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
    const iso = isTime ? isoAt(b, start, end) : undefined
    if (iso !== undefined) to.text(name, time, 0, time.write(iso, 'latin1'))
    else if (b[start] === QUOTE) to.string(name, b, start + 1, end - 1, (this.#places.escapes[n]! & VALUE) !== 0)
    else to.json(name, b, start, end)
  }

  /** Writes an additional field. Removes its underscore, unless the message has a standard field with the new name. */
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

  /**
   * If the range begins with a quote, `read` passed the range to the sink with `string`. It lacks the closing quote.
   */
  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    return b[start] === QUOTE
      ? JSON.parse(`${b.toString('utf8', start, end)}"`)
      : super.value(b, start, end, name, receivedAt)
  }

  override encode(fields: Fields): string {
    return encoder.line(fields)
  }

  override write(batch: EventBatch, to: ByteSink): void {
    encoder.write(batch, to)
  }
}

/** Converts seconds since the epoch, as a number or as text, to ISO 8601. Returns undefined if invalid. */
function isoAt(b: Buffer, start: number, end: number): string | undefined {
  if (end - start > LONGEST_NUMBER) return undefined
  const inside = b[start] === QUOTE ? 1 : 0
  const text = b.toString('latin1', start + inside, end - inside)
  const read = TIME_FORMATS.unix!(/e/i.test(text) ? String(Number(text)) : text, UTC, 0)
  return read && isoText(read)
}

const line = new GrowingBytes()
const VERSION = Buffer.from('{"version":"1.1","host":"')
const SHORT_MESSAGE = Buffer.from('","short_message":"')
const UNKNOWN = Buffer.from('unknown')
const NONE = Buffer.from('-')
const NAMED_ID = Buffer.from('__id')
/** The fields that become standard members. */
const PLACED = wanted('message', 'host', 'level', 'timestamp', 'full_message')
const [PLACED_MESSAGE, PLACED_HOST, LEVEL, TIMESTAMP_PLACE] = [0, 1, 2, 3]
const SEVERITIES = [...'01234567']
/** 1 for each byte that a name may contain. */
const IN_NAME = new Uint8Array(256)
for (let byte = 0; byte < 0x80; byte++) if (/[\w.-]/.test(String.fromCharCode(byte))) IN_NAME[byte] = 1

const encoder = new MembersEncoder((members, out) => {
  let [message, host] = [-1, -1]
  for (let n = 0; n < members.count; n++) {
    const placed = placeOf(members.name(n))
    if (placed === PLACED_MESSAGE) message = n
    else if (placed === PLACED_HOST) host = n
  }
  line.clear()
  line.add(VERSION, 0, VERSION.length)
  addTextOr(UNKNOWN, members, host)
  line.add(SHORT_MESSAGE, 0, SHORT_MESSAGE.length)
  addTextOr(NONE, members, message)
  line.addByte(QUOTE)
  let mayRepeat = false
  for (let n = 0; n < members.count; n++) {
    if (n === message || n === host) continue
    line.addByte(COMMA)
    line.addByte(QUOTE)
    const placed = placeOf(members.name(n))
    const own = placed < 0 ? undefined : ownValue(placed, members, n)
    if (own !== undefined) {
      line.addText(`${PLACED.names[placed]}":${own}`)
      continue
    }
    if (addName(members.name(n))) mayRepeat = true
    line.addByte(QUOTE)
    line.addByte(COLON)
    if (members.isNumber(n)) {
      const { bytes, start, end } = members.text(n)
      line.add(bytes, start, end)
      continue
    }
    line.addByte(QUOTE)
    addText(members, n)
    line.addByte(QUOTE)
  }
  line.addByte(CLOSE_OBJECT)
  if (!mayRepeat) out.add(line.bytes, 0, line.length)
  else addUnique(out, line.bytes, 0, line.length)
})

function placeOf({ bytes, start, end }: EventMembers): number {
  return slotOf(bytes, start, end, PLACED)
}

/** Writes the text of member `n`, escaped as in a JSON string. */
function addText(members: EventMembers, n: number): void {
  const isString = members.isString(n)
  const { bytes, start, end } = isString ? members.inside(n) : members.text(n)
  if (isString) line.add(bytes, start, end)
  else line.addEscaped(bytes, start, end)
}

/** Like `addText`, but writes `other` if the text is missing or empty. */
function addTextOr(other: Buffer, members: EventMembers, n: number): void {
  const before = line.length
  if (n >= 0 && !members.isNull(n)) addText(members, n)
  if (line.length === before) line.add(other, 0, other.length)
}

/** Returns the value of field `n` as JSON for the standard member `placed`; undefined if the member cannot hold it. */
function ownValue(placed: number, members: EventMembers, n: number): string | undefined {
  const { bytes, start, end, string } = members.text(n)
  if (placed === LEVEL && members.isNumber(n)) return end === start + 1 ? SEVERITIES[bytes[start]! - ZERO] : undefined
  if (!members.isString(n)) return undefined
  if (placed === TIMESTAMP_PLACE) {
    const ms = parseIsoTime(bytes, start, end)
    if (Number.isNaN(ms)) return undefined
    return String(Number.isInteger(ms) ? ms / 1000 : Number((ms / 1000).toFixed(6)))
  }
  const text = string ?? bytes.toString('utf8', start, end)
  return placed === LEVEL ? LEVELS.get(text.toLowerCase())?.toString() : JSON.stringify(text)
}

/** Writes the name of an additional field. Returns whether another field may have the same name. */
function addName({ bytes, start, end }: EventMembers): boolean {
  if (end - start === 2 && bytes[start] === 0x69 && bytes[start + 1] === 0x64) {
    // Receivers reject `_id`.
    line.add(NAMED_ID, 0, NAMED_ID.length)
    return true
  }
  line.addByte(UNDERSCORE)
  let p = start
  while (p < end && IN_NAME[bytes[p]!] === 1) p++
  if (p === end) line.add(bytes, start, end)
  else line.addText(bytes.toString('utf8', start, end).replace(/[^\w.-]/g, '_'))
  return p < end || bytes[start] === UNDERSCORE
}

export const gelf = defineCodec({
  name: 'gelf',
  summary: 'Each line is a message in the Graylog Extended Log Format (GELF 1.1), a JSON object.',
  notes:
    'Events have `.message` (`short_message`), `.host`, `.timestamp` (ISO 8601), `.level` (0 to 7), `.full_message`, and the additional fields without their underscore. ' +
    'If a standard field has the same name, the additional field keeps its underscore: of `level` and `_level`, the second becomes `._level`. A message ends with a line end or, in the source `tcp`, with a null byte. ' +
    'The codec does not read compressed or chunked messages, which are usual over UDP.\n\n' +
    'As an encoding: `.message` becomes `short_message`, or `-` if it is empty. A missing `.host` becomes `unknown`. A `.timestamp` in ISO 8601 becomes seconds, with microseconds. ' +
    '`.level` becomes a number if it is a number from 0 to 7 or a name such as `error`. All other fields become additional fields: numbers and text unchanged, ' +
    'other values as JSON text. In names, characters other than letters, digits, `_`, `.` and `-` become `_`; `id`, which GELF does not allow, becomes `__id`.',
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
