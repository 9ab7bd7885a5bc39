import { COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.js'
import type { FieldName, FieldSink, ValueMaker } from './field-sink.js'
import { GrowingBytes } from './growing-bytes.js'
import { escapeInto, MOST_ESCAPED, writeBytes } from './json-string.js'
import { joinLines, jsonText } from './json-text.js'

/** Maximum members whose place is recorded. More would be slow, because each name is compared with all names. */
const MOST_KNOWN = 64

/** Shorter texts are escaped at once, with room for the maximum size. */
const SHORT = 2048

/** Writes the fields of a line as members of a JSON object, and remembers where they are. */
export class FieldMembers implements FieldSink {
  readonly out = new GrowingBytes()
  /** Number of members with a known place. */
  count = 0
  /** Whether there may be members without a known place, members with the same name, or names with escapes. */
  isUnclear = false
  /** Bit n is set if the length of a known name, modulo 32, is n. */
  lengths = 0
  /** The range of each name in `out`, without its quotes. */
  readonly nameStarts = new Int32Array(MOST_KNOWN)
  readonly nameEnds = new Int32Array(MOST_KNOWN)
  readonly valueStarts = new Int32Array(MOST_KNOWN)
  readonly valueEnds = new Int32Array(MOST_KNOWN)
  /** 1 if the value is a string with escapes. */
  readonly escaped = new Uint8Array(MOST_KNOWN)

  clear(): void {
    this.out.clear()
    this.count = 0
    this.isUnclear = false
    this.lengths = 0
  }

  text(name: FieldName, b: Buffer, start: number, end: number): void {
    const { out } = this
    const size = end - start
    const valueStart = this.#addName(name, size < SHORT ? size * MOST_ESCAPED + 2 : 1)
    out.bytes[out.length++] = QUOTE
    if (size < SHORT) out.length = escapeInto(out.bytes, out.length, b, start, end)
    else out.addEscaped(b, start, end)
    out.addByte(QUOTE)
    this.#end(valueStart, out.length - valueStart - 2 === size ? 0 : 1)
  }

  string(name: FieldName, b: Buffer, start: number, end: number, hasEscapes: boolean): void {
    const { out } = this
    const valueStart = this.#addName(name, end - start + 2)
    out.bytes[out.length++] = QUOTE
    out.length = writeBytes(b, start, end, out.bytes, out.length)
    out.bytes[out.length++] = QUOTE
    this.#end(valueStart, hasEscapes ? 1 : 0)
  }

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    const { out } = this
    const valueStart = this.#addName(name)
    out.add(b, start, end)
    if (b[start] === OPEN_OBJECT || b[start] === OPEN_ARRAY) joinLines(out.bytes, valueStart, out.length)
    this.#end(valueStart, out.hasEscape(valueStart) ? 1 : 0)
  }

  made(name: FieldName, maker: ValueMaker, b: Buffer, start: number, end: number): void {
    this.value(name, maker.value(b, start, end, name.toString(), 0))
  }

  value(name: FieldName, value: unknown): void {
    const json: string | undefined = jsonText(value)
    if (json === undefined) return
    const valueStart = this.#addName(name)
    this.out.addText(json)
    this.#end(valueStart, this.out.hasEscape(valueStart) ? 1 : 0)
  }

  /** Writes a name, and makes room for `more` bytes. Returns the start of its value. */
  #addName(name: FieldName, more = 0): number {
    const { out } = this
    const { json } = name
    out.reserve((json ? json.length : (name.end - name.start) * MOST_ESCAPED + 3) + 1 + more)
    const { bytes } = out
    let at = out.length
    if (at > 0) bytes[at++] = COMMA
    const nameStart = at + 1
    if (json) at = writeBytes(json, 0, json.length, bytes, at)
    else {
      bytes[at++] = QUOTE
      at = escapeInto(bytes, at, name.bytes, name.start, name.end)
      bytes[at++] = QUOTE
      bytes[at++] = COLON
    }
    out.length = at
    const nameEnd = at - 2
    const isEscaped = nameEnd - nameStart !== name.end - name.start
    if (isEscaped || this.count === MOST_KNOWN || (!json && this.find(bytes, nameStart, nameEnd) >= 0)) {
      this.isUnclear = true
    }
    if (this.isUnclear) return at
    this.nameStarts[this.count] = nameStart
    this.nameEnds[this.count] = nameEnd
    this.lengths |= 1 << (nameEnd - nameStart)
    return at
  }

  #end(valueStart: number, escaped: 0 | 1): void {
    if (this.isUnclear) return
    this.valueStarts[this.count] = valueStart
    this.valueEnds[this.count] = this.out.length
    this.escaped[this.count++] = escaped
  }

  /** Returns the index of the known member whose name is [start, end); -1 if there is none. */
  find(b: Buffer, start: number, end: number): number {
    const length = end - start
    if (((this.lengths >> length) & 1) === 0) return -1
    const { bytes } = this.out
    next: for (let n = 0; n < this.count; n++) {
      const from = this.nameStarts[n]!
      if (this.nameEnds[n]! - from !== length) continue
      for (let i = 0; i < length; i++) if (bytes[from + i] !== b[start + i]) continue next
      return n
    }
    return -1
  }
}
