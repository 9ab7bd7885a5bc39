import { BACKSLASH, COLON, COMMA, QUOTE } from '../../lib/formats/ascii.js'
import type { JournalEntry } from './fields.js'

const LONGEST_NAME = 256
/** Bytes of each value that are kept even if other values of the entry have used up the limit. */
const SURE_BYTES = 1024

/** The JSON of a value. If `cut`, only the beginning of the JSON. */
interface Value {
  parts: Buffer[]
  bytes: number
  cut: boolean
}

/**
 * Reads an over-long entry in portions. Truncates over-long values; other values stay complete. Invariant: keeps at
 * most `maxBytes`, plus a kilobyte for each value, however long the entry is.
 */
export class LongEntry {
  readonly #mostOfValue: number
  #left: number
  readonly #entry: Record<string, unknown> = {}
  readonly #cut: string[] = []
  #depth = 0
  #inText = false
  #escaped = false
  #inValue = false
  #name = ''
  #current: Value = { parts: [], bytes: 0, cut: false }

  constructor(maxBytes: number) {
    this.#left = maxBytes
    this.#mostOfValue = maxBytes / 4
  }

  push(bytes: Buffer): void {
    let from = 0
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i]!
      if (this.#inText) {
        if (this.#escaped) this.#escaped = false
        else if (byte === BACKSLASH) this.#escaped = true
        else if (byte === QUOTE) this.#inText = false
      } else if (byte === QUOTE) this.#inText = true
      else if (byte === 0x7b || byte === 0x5b) {
        if (++this.#depth === 1) from = i + 1
      } else if (byte === 0x7d || byte === 0x5d) {
        if (--this.#depth === 0) this.#endValue(bytes.subarray(from, i))
      } else if (this.#depth === 1 && byte === COLON && !this.#inValue) {
        this.#endName(bytes.subarray(from, i))
        from = i + 1
      } else if (this.#depth === 1 && byte === COMMA) {
        this.#endValue(bytes.subarray(from, i))
        from = i + 1
      }
    }
    if (this.#depth > 0) this.#keep(bytes.subarray(from))
  }

  finish(): { entry: JournalEntry; cut: readonly string[] } {
    return { entry: this.#entry, cut: this.#cut }
  }

  #keep(bytes: Buffer): void {
    const value = this.#current
    const room = this.#inValue
      ? Math.min(this.#mostOfValue, Math.max(value.bytes + this.#left, SURE_BYTES)) - value.bytes
      : LONGEST_NAME - value.bytes
    if (bytes.length > room) value.cut = true
    if (room <= 0 || bytes.length === 0) return
    // Copies the bytes, because the reader reuses them.
    const kept = Buffer.from(bytes.subarray(0, room))
    value.parts.push(kept)
    value.bytes += kept.length
    this.#left = Math.max(0, this.#left - kept.length)
  }

  #take(bytes: Buffer): { text: string; cut: boolean } {
    this.#keep(bytes)
    const { parts, cut } = this.#current
    this.#current = { parts: [], bytes: 0, cut: false }
    return { text: Buffer.concat(parts).toString(), cut }
  }

  #endName(bytes: Buffer): void {
    const name = parsed(this.#take(bytes).text)
    this.#name = typeof name === 'string' ? name : ''
    this.#inValue = true
  }

  #endValue(bytes: Buffer): void {
    const { text, cut } = this.#take(bytes)
    this.#inValue = false
    if (this.#name === '') return
    const value = cut ? beginningOf(text) : parsed(text)
    if (value !== undefined) this.#entry[this.#name] = value
    if (cut) this.#cut.push(this.#name)
    this.#name = ''
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** Decodes truncated JSON as far as possible. */
function beginningOf(text: string): unknown {
  const json = text.trimStart().replace(/\ufffd+$/, '')
  if (json.startsWith('[')) return parsed(`${json.slice(0, json.lastIndexOf(','))}]`)
  if (!json.startsWith('"')) return undefined
  // The text may end with an incomplete escape, such as `\` or `\u12`. If so, removes this escape.
  const whole = parsed(`${json}"`)
  if (whole !== undefined) return whole
  return parsed(`${json.slice(0, json.lastIndexOf('\\'))}"`)
}
