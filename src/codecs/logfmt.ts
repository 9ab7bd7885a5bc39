import { behindMark, Codec, defineCodec, NO_OPTIONS, putSlot } from '../core/codec.js'
import type { EventBatch } from '../core/event/batch.js'
import { type Fields, ORIGIN_FIELDS } from '../core/event/event.js'
import { DECODED, INVALID, MODIFIED } from '../core/event/flags.js'
import { OriginTail, originBit } from '../core/event/origin-tail.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { slotOf, WantedNames } from '../lib/formats/json-scan.js'
import { addEscaped, type ByteSink } from '../lib/formats/json-string.js'
import { jsonText } from '../lib/formats/json-text.js'

const SPACE = 0x20
const QUOTE = 0x22
const EQUALS = 0x3d
const BACKSLASH = 0x5c
const OPEN = Buffer.from('{"')
const NEXT = Buffer.from(',"')
const COLON = Buffer.from('":"')
const TRUE = Buffer.from('":true')
const TRUE_TEXT = Buffer.from('true')
const ORIGIN_NAMES = new WantedNames()
for (const name of ORIGIN_FIELDS) ORIGIN_NAMES.slot(name)

/** The last pair found: its key, and its value without quotes. Without a value, `valueStart` is -1. */
let keyStart = 0
let keyEnd = 0
let valueStart = 0
let valueEnd = 0
/** Whether the value contains a backslash, and thus possibly escapes. */
let escaped = false

/** Finds the pair that begins at `p`, which is not a space. Returns its end, or -1 if it is malformed. */
function pairEnd(b: Uint8Array, p: number, end: number): number {
  keyStart = p
  while (p < end && b[p]! > SPACE && b[p] !== EQUALS && b[p] !== QUOTE) p++
  keyEnd = p
  valueStart = -1
  escaped = false
  if (p === keyStart || (p < end && b[p] === QUOTE)) return -1
  if (p === end || b[p] !== EQUALS) return p
  p++
  if (p === end || b[p] !== QUOTE) {
    valueStart = p
    while (p < end && b[p]! > SPACE) p++
    valueEnd = p
    return p
  }
  valueStart = ++p
  while (p < end && b[p] !== QUOTE) {
    if (b[p] === BACKSLASH) {
      escaped = true
      p++
    }
    p++
  }
  if (p >= end) return -1
  valueEnd = p++
  return p === end || b[p]! <= SPACE ? p : -1
}

const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|([^u]))/g
const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** Resolves the escapes of a quoted value. Other backslashes stay. */
function unescaped(text: string): string {
  return text.replace(ESCAPE, (whole, hex: string | undefined, character: string | undefined) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
    return ESCAPED[character!] ?? (/["'\\/]/.test(character!) ? character! : whole)
  })
}

/** Numbers per pair in `pairs`: the places of its key and value, and whether the value has a backslash. */
const PAIR = 5
/** Lines with more pairs are decoded to an object first. */
const MOST_PAIRS = 64
const pairs = new Int32Array(MOST_PAIRS * PAIR)

class Logfmt extends Codec {
  readonly #name = new FieldName()
  readonly #tail = new OriginTail()

  constructor() {
    super(logfmt)
  }

  override get eventFields(): undefined {
    return undefined
  }

  scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean {
    let hasPair = false
    for (let p = behindMark(b, start, end); p < end; ) {
      if (b[p]! <= SPACE) {
        p++
        continue
      }
      p = pairEnd(b, p, end)
      if (p < 0) return false
      hasPair ||= valueStart >= 0
      const slot = slotOf(b, keyStart, keyEnd, wanted)
      if (slot < 0) continue
      if (valueStart < 0) putSlot(out, at, slot, keyEnd, keyEnd, true)
      else putSlot(out, at, slot, valueStart, valueEnd, escaped)
    }
    return hasPair
  }

  override read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    let hasPair = false
    for (let p = behindMark(b, start, end); p < end; ) {
      if (b[p]! <= SPACE) {
        p++
        continue
      }
      p = pairEnd(b, p, end)
      if (p < 0) return false
      this.#name.at(b, keyStart, keyEnd)
      if (valueStart < 0) {
        to.json(this.#name, TRUE_TEXT, 0, TRUE_TEXT.length)
        continue
      }
      hasPair = true
      if (escaped) to.value(this.#name, unescaped(b.toString('utf8', valueStart, valueEnd)))
      else to.text(this.#name, b, valueStart, valueEnd)
    }
    return hasPair
  }

  override problem(b: Buffer, start: number, end: number): string {
    for (let p = behindMark(b, start, end); p < end; ) {
      if (b[p]! <= SPACE) {
        p++
        continue
      }
      const next = pairEnd(b, p, end)
      if (next < 0) return `expected key=value at column ${p - start + 1}`
      p = next
    }
    return 'there is no key with a value'
  }

  /** An empty range represents a key without a value. */
  override value(b: Buffer, start: number, end: number): unknown {
    return start === end ? true : unescaped(b.toString('utf8', start, end))
  }

  fields(b: Buffer, start: number, end: number): Fields {
    const pairs: [string, unknown][] = []
    for (let p = behindMark(b, start, end); p < end; ) {
      if (b[p]! <= SPACE) {
        p++
        continue
      }
      p = pairEnd(b, p, end)
      const key = b.toString('utf8', keyStart, keyEnd)
      const text = valueStart < 0 ? '' : b.toString('utf8', valueStart, valueEnd)
      pairs.push([key, valueStart < 0 ? true : escaped ? unescaped(text) : text])
    }
    // fromEntries creates own properties for all names, including `__proto__`, and keeps the last of several values.
    return Object.fromEntries(pairs)
  }

  override writeEvent(batch: EventBatch, i: number, to: ByteSink): void {
    const flags = batch.look(i)
    const { chunk, starts, ends } = batch
    const isRead = (flags & (DECODED | INVALID | MODIFIED)) === DECODED
    const count = isRead ? differentPairs(chunk, behindMark(chunk, starts[i]!, ends[i]!), ends[i]!) : 0
    if (count === 0) {
      super.writeEvent(batch, i, to)
      return
    }
    let own = 0
    for (let at = 0; at < count * PAIR; at += PAIR) {
      to.add(at === 0 ? OPEN : NEXT, 0, 2)
      addEscaped(to, chunk, pairs[at]!, pairs[at + 1]!)
      own |= originBits(chunk, pairs[at]!, pairs[at + 1]!)
      addValue(to, chunk, pairs[at + 2]!, pairs[at + 3]!, pairs[at + 4] === 1)
    }
    const tail = this.#tail.of(batch, flags, own)
    to.add(tail, 0, tail.length)
  }

  override encode(fields: Fields): string {
    const pairs = Object.entries(fields).filter(([, value]) => value !== undefined)
    return pairs.map(([key, value]) => `${keyText(key)}=${valueText(value)}`).join(' ')
  }
}

/** Fills `pairs`. Returns their number; 0 if a key occurs twice, or if the fields of an object have another order. */
function differentPairs(b: Buffer, start: number, end: number): number {
  let used = 0
  for (let p = start; p < end; ) {
    if (b[p]! <= SPACE) {
      p++
      continue
    }
    p = pairEnd(b, p, end)
    // An object has members with a number as their name before all others.
    const isFirst = (b[keyStart]! >= 0x30 && b[keyStart]! <= 0x39) || used === pairs.length
    if (isFirst || isKnown(b, used)) return 0
    pairs[used++] = keyStart
    pairs[used++] = keyEnd
    pairs[used++] = valueStart
    pairs[used++] = valueEnd
    pairs[used++] = escaped ? 1 : 0
  }
  return used / PAIR
}

/** Whether one of the first pairs has the key of the last pair found. */
function isKnown(b: Buffer, used: number): boolean {
  next: for (let at = 0; at < used; at += PAIR) {
    const start = pairs[at]!
    if (pairs[at + 1]! - start !== keyEnd - keyStart) continue
    for (let n = keyEnd - keyStart - 1; n >= 0; n--) if (b[start + n] !== b[keyStart + n]) continue next
    return true
  }
  return false
}

/** The bit of a key that is the name of a field of the origin. */
function originBits(b: Buffer, start: number, end: number): number {
  const slot = slotOf(b, start, end, ORIGIN_NAMES)
  return slot < 0 ? 0 : originBit(ORIGIN_NAMES.names[slot]!)
}

/** The colon and a value in JSON. */
function addValue(to: ByteSink, b: Buffer, start: number, end: number, hasBackslash: boolean): void {
  if (start < 0) to.add(TRUE, 0, TRUE.length)
  else if (hasBackslash) {
    const text = Buffer.from(`":${JSON.stringify(unescaped(b.toString('utf8', start, end)))}`)
    to.add(text, 0, text.length)
  } else {
    to.add(COLON, 0, COLON.length)
    addEscaped(to, b, start, end)
    to.add(COLON, 0, 1)
  }
}

/** Replaces the characters that cannot be part of a key by `_`. */
function keyText(key: string): string {
  return key === '' ? '_' : key.replace(/[\x00-\x20="]/g, '_')
}

function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : jsonText(value)
  // Some readers end an unquoted value at an equals sign.
  return /[\x00-\x20="\x7f]/.test(text) ? JSON.stringify(text) : text
}

export const logfmt = defineCodec({
  name: 'logfmt',
  summary:
    'Each line consists of pairs such as `level=info msg="user logged in"`, as written by many Go programs and by Heroku.',
  notes:
    'A line is logfmt if it has at least one pair `key=value` and all of its parts are well-formed. Parts are separated by spaces. A key ' +
    'without `=` has the value true, as in Vector. All other values are text. A value with spaces is enclosed in double quotes, in which `\\"`, ' +
    "`\\\\`, `\\/`, `\\'`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` and `\\u0041` are escapes; any other backslash is kept. Without quotes a value " +
    'ends at the next space. If a key occurs several times, the last value counts. A dot in a key is part of its name: `."a.b"` is the ' +
    'field of `a.b=1`.\n\n' +
    'As an encoding: every field of the event is a pair, in order. Objects, lists, numbers and null are written as JSON. In keys, spaces, `=`, ' +
    'double quotes and control characters become `_`.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'logfmt',
  undecodedHelp: 'Lines that are not logfmt. They are kept as text.',
  joinsLines: false,
  contentType: 'text/plain; charset=utf-8',
  examples: [
    {
      title: 'A request as a router logs it',
      yaml: '',
      line: 'at=info method=GET path="/a b" status=200 secure',
      event: { at: 'info', method: 'GET', path: '/a b', status: '200', secure: true },
    },
    {
      title: 'Escapes, an empty value, and a key that occurs twice',
      yaml: '',
      line: String.raw`msg="say \"hi\"\n" user= n=1 n=2`,
      event: { msg: 'say "hi"\n', user: '', n: '2' },
    },
  ],
  create: () => new Logfmt(),
})
