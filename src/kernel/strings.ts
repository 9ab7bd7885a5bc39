import { isInChunkMemory } from '../lib/lines/chunk-memory.js'
import { type LineMemory, MOST_LINES, type ScannedLines } from './line-memory.js'

/** Which lines have slots to be looked at: those whose flags under `mask` are `plain`. */
export interface PlainFlags {
  readonly mask: number
  readonly plain: number
}

export interface StringExports {
  equalStrings(
    length: number,
    flags: number,
    slots: number,
    stride: number,
    shift: number,
    mask: number,
    plain: number,
    text: number,
    textLength: number,
    out: number,
  ): number
  hashStrings(
    length: number,
    flags: number,
    slots: number,
    stride: number,
    shift: number,
    mask: number,
    plain: number,
    seed: number,
    longest: number,
    starts: number,
    ends: number,
    hashes: number,
    skipped: number,
    ids: number,
  ): void
}

export interface HashOptions {
  readonly seed: number
  readonly longest: number
}

/** What is known of each value: where it is, its hash, and one of the numbers of src/throttle/key-table.ts. */
export interface StringColumns {
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly hashes: Int32Array
  readonly ids: Int32Array
}

/** The longest text that values are compared with. */
const TEXT_BYTES = 1024
/** Bytes of a number in a slot. */
const NUMBER = 4

/** The values of one name in lines of JSON whose chunk is in the memory of the kernel. */
export class Strings {
  readonly #code: StringExports
  readonly #memory: LineMemory
  readonly #text: number
  readonly #hashes: Int32Array
  readonly #ids: Int32Array
  readonly #skipped: Uint8Array

  constructor(code: StringExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.#text = memory.take(TEXT_BYTES)
    this.#hashes = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#ids = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#skipped = new Uint8Array(memory.bytes.buffer, memory.take(MOST_LINES), MOST_LINES)
  }

  /**
   * Compares the values whose numbers begin at `first` with a text. Sets `out` for each line: 0, 1 if they are the same,
   * 2 for a value that is no string without escapes. Returns how many of these there are; undefined: it cannot.
   */
  equal(lines: ScannedLines, first: number, text: Buffer, out: Uint8Array, by: PlainFlags): number | undefined {
    const { chunk, length, stride } = lines
    if (!isInChunkMemory(chunk) || text.length > TEXT_BYTES) return undefined
    const memory = this.#memory
    memory.bytes.set(text, this.#text)
    let unknown = 0
    for (let from = 0; from < length; ) {
      const to = memory.putScanned(lines, from)
      unknown += this.#code.equalStrings(
        to - from,
        memory.flags.byteOffset,
        memory.slots.byteOffset + first * NUMBER,
        stride * NUMBER,
        memory.shift(lines, from),
        by.mask,
        by.plain,
        this.#text,
        text.length,
        memory.flags.byteOffset,
      )
      out.set(memory.flags.subarray(0, to - from), from)
      from = to
    }
    return unknown
  }

  /**
   * Finds the values whose numbers begin at `first`, and hashes those of 1 to `longest` bytes. `skipped`: 1 for lines that
   * are left out. False: it cannot.
   */
  hash(
    lines: ScannedLines,
    first: number,
    { seed, longest }: HashOptions,
    skipped: Uint8Array | undefined,
    columns: StringColumns,
    by: PlainFlags,
  ): boolean {
    const { chunk, length, stride } = lines
    if (!isInChunkMemory(chunk)) return false
    const memory = this.#memory
    for (let from = 0; from < length; ) {
      const to = memory.putScanned(lines, from)
      if (skipped) this.#skipped.set(skipped.subarray(from, to))
      this.#code.hashStrings(
        to - from,
        memory.flags.byteOffset,
        memory.slots.byteOffset + first * NUMBER,
        stride * NUMBER,
        memory.shift(lines, from),
        by.mask,
        by.plain,
        seed,
        longest,
        memory.starts.byteOffset,
        memory.ends.byteOffset,
        this.#hashes.byteOffset,
        skipped ? this.#skipped.byteOffset : 0,
        this.#ids.byteOffset,
      )
      columns.starts.set(memory.starts.subarray(0, to - from), from)
      columns.ends.set(memory.ends.subarray(0, to - from), from)
      columns.hashes.set(this.#hashes.subarray(0, to - from), from)
      columns.ids.set(this.#ids.subarray(0, to - from), from)
      from = to
    }
    return true
  }
}
