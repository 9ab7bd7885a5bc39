const LF = 0x0a

/** Texts in UTF-8, with a line feed behind each, in memory that is given to the daemon as it is. */
export class Texts {
  #bytes = Buffer.alloc(0)
  #used = 0
  readonly #expected: number

  /** `expected`: how many bytes the texts will probably have. */
  constructor(expected: number) {
    this.#expected = expected
  }

  /** Returns the position behind the text, where its line feed is. */
  add(text: string): number {
    const most = text.length * 3 + 1
    if (this.#bytes.length - this.#used < most) this.#grow(most)
    const end = this.#used + this.#bytes.write(text, this.#used)
    this.#bytes[end] = LF
    this.#used = end + 1
    return end
  }

  #grow(by: number): void {
    const more = Math.max(by, this.#bytes.length === 0 ? this.#expected : this.#bytes.length)
    // Not from the pool of Node.js.
    const bytes = Buffer.allocUnsafeSlow(this.#used + more)
    this.#bytes.copy(bytes, 0, 0, this.#used)
    this.#bytes = bytes
  }

  get used(): number {
    return this.#used
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}
