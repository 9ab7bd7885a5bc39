const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d
const COMMA = 0x2c
const LETTER_U = 0x75

/** Of a longer string in an entry, such as a message that contains the event, only the beginning is kept. */
const STRING_BYTES = 512
/** A longer entry counts as unreadable. */
const ENTRY_BYTES = 16 * 1024

/**
 * Parses the entries of a list in a JSON object of any length without storing it: a response may repeat every event
 * that it rejects. It needs the memory of one entry.
 */
export class LongAnswer {
  /** The name of the list, in quotes. */
  readonly #key: string
  /** Called with each entry in order; undefined stands for one that cannot be read. */
  readonly #onEntry: (entry: unknown) => void
  /** Number of open brackets. */
  #depth = 0
  /** Whether it is inside a string, and the number of its bytes so far. */
  #inString = false
  #stringBytes = 0
  /** Whether the rest of this string is skipped. */
  #cutting = false
  #afterBackslash = false
  /** Remaining digits of a \\u sequence. */
  #digits = 0
  /** The last string directly in the outer object, which names the value that follows. */
  #name = ''
  #inList = false
  /** Bytes of the current entry; undefined outside an entry. */
  #entry: number[] | undefined
  #tooLong = false
  #broken = false

  constructor(name: string, onEntry: (entry: unknown) => void) {
    this.#key = `"${name}"`
    this.#onEntry = onEntry
  }

  /** Whether all brackets and strings are closed, that is, the document is complete. */
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
    // Never cut inside an escape sequence.
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
