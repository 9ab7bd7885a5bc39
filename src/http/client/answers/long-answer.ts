const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d
const COMMA = 0x2c
const LETTER_U = 0x75

/** Of a longer string in an entry, such as a message with the event in it, only the beginning is kept. */
const STRING_BYTES = 512
/** A longer entry is not one of ours. */
const ENTRY_BYTES = 16 * 1024

/**
 * Reads the entries of a list in a JSON object of any length, without keeping it: an answer may repeat every event
 * that it refuses. Memory is that of one entry.
 */
export class LongAnswer {
  /** The name of the list, in quotes. */
  readonly #key: string
  /** Called with each entry, in order; undefined stands for one that cannot be read. */
  readonly #onEntry: (entry: unknown) => void
  /** How many brackets are open. */
  #depth = 0
  /** In a string; `#stringBytes` of it so far. */
  #inString = false
  #stringBytes = 0
  /** Whether the rest of this string is left out. */
  #cutting = false
  #afterBackslash = false
  /** Digits of a \\u sequence that are still to come. */
  #digits = 0
  /** The string that was read last directly in the outer object: the name of what follows. */
  #name = ''
  #inList = false
  /** Bytes of the entry being read; undefined outside of one. */
  #entry: number[] | undefined
  #tooLong = false
  #broken = false

  constructor(name: string, onEntry: (entry: unknown) => void) {
    this.#key = `"${name}"`
    this.#onEntry = onEntry
  }

  /** Whether all brackets and strings are closed: what was written is a whole document. */
  get complete(): boolean {
    return !this.#broken && this.#depth === 0 && !this.#inString
  }

  write(chunk: Buffer): void {
    for (let i = 0; i < chunk.length; i++) this.#take(chunk[i]!)
  }

  #take(byte: number): void {
    if (this.#inString) this.#takeInString(byte)
    else this.#takeOutside(byte)
  }

  #takeOutside(byte: number): void {
    if (byte === QUOTE) {
      this.#inString = true
      this.#stringBytes = 0
      this.#cutting = false
      if (this.#depth === 1) this.#name = '"'
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      this.#depth++
      if (this.#depth === 2) this.#inList = byte === OPEN_BRACKET && this.#name === this.#key
      if (this.#depth === 3 && this.#inList) {
        this.#entry = []
        this.#tooLong = false
      }
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (this.#depth === 0) this.#broken = true
      else if (--this.#depth === 1) this.#inList = false
    } else if (byte === COMMA && this.#depth === 1) this.#name = ''
    this.#keep(byte)
    if (this.#depth === 2 && this.#entry) this.#endEntry()
  }

  #takeInString(byte: number): void {
    // Never in the middle of an escape sequence.
    if (++this.#stringBytes > STRING_BYTES && !this.#afterBackslash && this.#digits === 0) this.#cutting = true
    if (this.#afterBackslash) {
      this.#afterBackslash = false
      if (byte === LETTER_U) this.#digits = 4
    } else if (this.#digits > 0) this.#digits--
    else if (byte === BACKSLASH) this.#afterBackslash = true
    else if (byte === QUOTE) this.#inString = false
    if (this.#depth === 1 && this.#name.length <= this.#key.length) this.#name += String.fromCharCode(byte)
    if (!this.#cutting || !this.#inString) this.#keep(byte)
  }

  #keep(byte: number): void {
    if (!this.#entry) return
    if (this.#entry.length < ENTRY_BYTES) this.#entry.push(byte)
    else this.#tooLong = true
  }

  #endEntry(): void {
    const text = Buffer.from(this.#entry!).toString()
    this.#entry = undefined
    let entry: unknown
    try {
      if (!this.#tooLong) entry = JSON.parse(text)
    } catch {}
    this.#onEntry(entry)
  }
}
