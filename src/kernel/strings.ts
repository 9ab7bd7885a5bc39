import { isInChunkMemory } from '../lib/lines/chunk-memory.js'
import { type LineMemory, MOST_LINES, type ScannedLines } from './line-memory.js'

/** Which lines have slots to be looked at: those whose flags under `mask` are `plain`. */
export interface PlainFlags {
  readonly mask: number
  readonly plain: number
}

export interface StringExports {
  narrowStrings(
    length: number,
    flags: number,
    slots: number,
    stride: number,
    shift: number,
    mask: number,
    plain: number,
    text: number,
    textLength: number,
    same: number,
    isString: number,
    among: number,
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

/** What values are compared with. */
export interface WantedText {
  readonly text: Buffer
  /** Whether values with this text are wanted, or those with another one. */
  readonly same: boolean
  /** Whether only a string can have this text. */
  readonly isString: boolean
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
  /** A number for each line: those that are left out, or left. */
  readonly #column: Uint8Array

  constructor(code: StringExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.#text = memory.take(TEXT_BYTES)
    this.#hashes = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#ids = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#column = new Uint8Array(memory.bytes.buffer, memory.take(MOST_LINES), MOST_LINES)
  }

  /**
   * Compares the values whose numbers begin at `first` with a text, for lines with a 1 in `among`. Sets it to 0 where the
   * value is not wanted, and to 2 where it is not known. Returns how many these are; undefined: it cannot.
   */
  narrow(
    lines: ScannedLines,
    first: number,
    { text, same, isString }: WantedText,
    among: Uint8Array,
    by: PlainFlags,
  ): number | undefined {
    const { chunk, length, stride } = lines
    if (!isInChunkMemory(chunk) || text.length > TEXT_BYTES) return undefined
    const memory = this.#memory
    memory.bytes.set(text, this.#text)
    let unknown = 0
    for (let from = 0; from < length; ) {
      const to = memory.putScanned(lines, from)
      this.#column.set(among.subarray(from, to))
      unknown += this.#code.narrowStrings(
        to - from,
        memory.flags.byteOffset,
        memory.slots.byteOffset + first * NUMBER,
        stride * NUMBER,
        memory.shift(lines, from),
        by.mask,
        by.plain,
        this.#text,
        text.length,
        same ? 1 : 0,
        isString ? 1 : 0,
        this.#column.byteOffset,
      )
      among.set(this.#column.subarray(0, to - from), from)
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
      if (skipped) this.#column.set(skipped.subarray(from, to))
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
        skipped ? this.#column.byteOffset : 0,
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
