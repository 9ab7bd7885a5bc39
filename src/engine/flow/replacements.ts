import { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** Marks an event that is not replaced. */
const NONE = -1

/** Memory larger than this is not kept for reuse. */
const MOST_SPARE = 4 * 1024 * 1024
let spare: GrowingBytes | undefined

/** The lines that replace events of a batch. */
export class Replacements {
  readonly #bytes: GrowingBytes
  /** The lines that replace event `i` are [starts[i], ends[i]). */
  readonly #starts: Int32Array
  readonly #ends: Int32Array

  constructor(length: number) {
    this.#bytes = spare ?? new GrowingBytes()
    this.#bytes.clear()
    spare = undefined
    this.#starts = new Int32Array(length).fill(NONE)
    this.#ends = new Int32Array(length)
  }

  has(i: number): boolean {
    return this.#starts[i] !== NONE
  }

  set(i: number, lines: Buffer, start = 0, end = lines.length): void {
    this.#starts[i] = this.#bytes.length
    this.#bytes.add(lines, start, end)
    this.#ends[i] = this.#bytes.length
  }

  delete(i: number): void {
    this.#starts[i] = NONE
  }

  /** Size in bytes of the lines that replace event `i`. */
  size(i: number): number {
    return this.#ends[i]! - this.#starts[i]!
  }

  /** A copy of the lines that replace events [from, to). All these events must be replaced. */
  lines(from: number, to: number): Buffer {
    const parts: Buffer[] = []
    for (let i = from; i < to; ) {
      const start = this.#starts[i]!
      let end = this.#ends[i]!
      // Most lines are adjacent, and are copied at once.
      for (i++; i < to && this.#starts[i] === end; i++) end = this.#ends[i]!
      parts.push(this.#bytes.bytes.subarray(start, end))
    }
    return Buffer.concat(parts)
  }

  /** Keeps the memory for reuse. */
  release(): void {
    if (this.#bytes.bytes.length <= MOST_SPARE) spare = this.#bytes
  }
}
