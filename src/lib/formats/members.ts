import type { FieldName, FieldSink } from './field-sink.js'
import { GrowingBytes } from './growing-bytes.js'
import { addEscaped } from './json-string.js'
import { flatten, jsonText } from './json-text.js'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const OPEN_ARRAY = 0x5b

/** More members than these are only written, since each name is compared with all others. */
const MOST_KNOWN = 64

/** Writes the fields of a line as members of a JSON object, and keeps where they are. */
export class Members implements FieldSink {
  /** The members, with commas between them. */
  readonly out = new GrowingBytes()
  /** How many of them are known by their places. */
  count = 0
  /** Whether there may be others, or several of one name, or names with escapes. */
  isUnclear = false
  /** A bit for each length of a known name, modulo 32. */
  lengths = 0
  /** Where the name is in `out`, without its quotes. */
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
    const valueStart = this.#addName(name)
    out.addByte(QUOTE)
    addEscaped(out, b, start, end)
    out.addByte(QUOTE)
    this.#end(valueStart, out.length - valueStart - 2 === end - start ? 0 : 1)
  }

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    const { out } = this
    const valueStart = this.#addName(name)
    out.add(b, start, end)
    if (b[start] === OPEN_OBJECT || b[start] === OPEN_ARRAY) flatten(out.bytes, valueStart, out.length)
    this.#end(valueStart, out.hasEscape(valueStart) ? 1 : 0)
  }

  value(name: FieldName, value: unknown): void {
    const json: string | undefined = jsonText(value)
    if (json === undefined) return
    const valueStart = this.#addName(name)
    this.out.addText(json)
    this.#end(valueStart, this.out.hasEscape(valueStart) ? 1 : 0)
  }

  /** Writes a name. Returns where its value begins. */
  #addName(name: FieldName): number {
    const { out } = this
    if (out.length > 0) out.addByte(COMMA)
    const nameStart = out.length + 1
    if (name.json) out.add(name.json, 0, name.json.length)
    else {
      out.addByte(QUOTE)
      addEscaped(out, name.bytes, name.start, name.end)
      out.addByte(QUOTE)
      out.addByte(COLON)
    }
    const nameEnd = out.length - 2
    const isEscaped = nameEnd - nameStart !== name.end - name.start
    if (isEscaped || this.count === MOST_KNOWN || (!name.json && this.find(out.bytes, nameStart, nameEnd) >= 0)) {
      this.isUnclear = true
    }
    if (this.isUnclear) return out.length
    this.nameStarts[this.count] = nameStart
    this.nameEnds[this.count] = nameEnd
    this.lengths |= 1 << (nameEnd - nameStart)
    return out.length
  }

  #end(valueStart: number, escaped: 0 | 1): void {
    if (this.isUnclear) return
    this.valueStarts[this.count] = valueStart
    this.valueEnds[this.count] = this.out.length
    this.escaped[this.count++] = escaped
  }

  /** The index of the known member whose name is [start, end); -1 if there is none. */
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
