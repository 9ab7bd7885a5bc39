import { BACKSLASH, EQUALS, QUOTE, SPACE } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { type EventMembers, MembersEncoder } from './event-members.js'
import { FieldsCodec } from './fields-codec.js'

const UNDERSCORE = 0x5f

/** The pair found last: its key, and its value without quotes. If it has no value, `valueStart` is -1. */
let keyStart = 0
let keyEnd = 0
let valueStart = 0
let valueEnd = 0
/** Whether the value contains a backslash, and thus perhaps escapes. */
let escaped = false

/** Finds the pair at `p`, where the byte is not a space. Returns the end of the pair, or -1 if it is malformed. */
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

/** Resolves the escapes of a quoted value. Backslashes without an escape stay. */
function unescaped(text: string): string {
  return text.replace(ESCAPE, (whole, hex: string | undefined, character: string | undefined) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
    return ESCAPED[character!] ?? (/["'\\/]/.test(character!) ? character! : whole)
  })
}

class Logfmt extends FieldsCodec {
  readonly #name = new FieldName()

  constructor() {
    super(logfmt, undefined)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    let hasPair = false
    for (let p = behindMark(b, start, end); p < end; ) {
      if (b[p]! <= SPACE) {
        p++
        continue
      }
      p = pairEnd(b, p, end)
      if (p < 0) return false
      this.#name.at(b, keyStart, keyEnd)
      if (valueStart < 0) to.made(this.#name, this, b, keyEnd, keyEnd)
      else {
        hasPair = true
        if (escaped) to.made(this.#name, this, b, valueStart, valueEnd)
        else to.text(this.#name, b, valueStart, valueEnd)
      }
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

  override encode(fields: Fields): string {
    return encoder.line(fields)
  }

  override write(batch: EventBatch, to: ByteSink): void {
    encoder.write(batch, to)
  }
}

/** Bytes that cannot be part of a key, and bytes that require quotes around a value. */
const NO_KEY = 1
const NEEDS_QUOTES = 2
const KINDS = new Uint8Array(256)
for (let byte = 0; byte <= SPACE; byte++) KINDS[byte] = NO_KEY | NEEDS_QUOTES
for (const byte of [QUOTE, EQUALS]) KINDS[byte] = NO_KEY | NEEDS_QUOTES
KINDS[0x7f] = NEEDS_QUOTES

const encoder = new MembersEncoder((members, out) => {
  for (let n = 0; n < members.count; n++) {
    if (n > 0) out.addByte(SPACE)
    addKey(members.name(n), out)
    out.addByte(EQUALS)
    addValue(members.text(n), out)
  }
})

function addKey({ bytes, start, end }: EventMembers, out: GrowingBytes): void {
  const from = out.length
  out.add(bytes, start, end)
  for (let p = from; p < out.length; p++) if (KINDS[out.bytes[p]!]! & NO_KEY) out.bytes[p] = UNDERSCORE
  if (start === end) out.addByte(UNDERSCORE)
}

/** Also quotes values with an equals sign, because some readers end an unquoted value at this sign. */
function addValue({ bytes, start, end, string }: EventMembers, out: GrowingBytes): void {
  let p = start
  while (p < end && (KINDS[bytes[p]!]! & NEEDS_QUOTES) === 0) p++
  if (p === end) out.add(bytes, start, end)
  else if (string !== undefined) out.addText(JSON.stringify(string))
  else {
    out.addByte(QUOTE)
    out.addEscaped(bytes, start, end)
    out.addByte(QUOTE)
  }
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
