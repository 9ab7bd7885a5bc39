import { isInChunkMemory } from '../lines/chunk-memory.js'
import { type LineMemory, MOST_LINES, type ScannedLines } from './line-memory.js'

/** Selects lines. The slots of a line are read only if its flags under `mask` equal `plain`. */
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
    owner: number,
    starts: number,
    ends: number,
    hashes: number,
    skipped: number,
    ids: number,
  ): number
  setKnown(table: number): void
  learnKey(owner: number, address: number, size: number, hash: number, number: number): void
}

export interface WantedText {
  readonly text: Buffer
  /** True if values must equal this text; false if they must differ from this text. */
  readonly same: boolean
  /** Whether only a string can have this text. */
  readonly isString: boolean
}

export interface HashOptions {
  readonly seed: number
  readonly longest: number
  /** The owner of the known numbers of values (see `Strings.owner`). */
  readonly owner: number
}

/**
 * For each line: where the value is, its hash, and its number (or a constant of
 * src/components/throttle/buckets/key-table.ts).
 */
export interface StringColumns {
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly hashes: Int32Array
  readonly ids: Int32Array
}

/** Maximum length of a text to compare with. */
const TEXT_BYTES = 1024
/** Bytes of the table of known values. */
const KNOWN_BYTES = 256 * 1024
/** Bytes of a number in a slot. */
const NUMBER = 4

/** Reads the values of one name in lines of JSON whose chunk is in the kernel's memory. */
export class Strings {
  readonly #code: StringExports
  readonly #memory: LineMemory
  readonly #text: number
  readonly #hashes: Int32Array
  readonly #ids: Int32Array
  /** A copy of an argument, one number per line: `among` of `narrow`, or `skipped` of `hash`. */
  readonly #column: Uint8Array
  #owners = 0

  constructor(code: StringExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.#text = memory.take(TEXT_BYTES)
    this.#hashes = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#ids = new Int32Array(memory.bytes.buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#column = new Uint8Array(memory.bytes.buffer, memory.take(MOST_LINES), MOST_LINES)
    code.setKnown(memory.take(KNOWN_BYTES))
  }

  /** Whether the kernel can read values of these lines: their chunk is in its memory, and a line's slots fit. */
  #reaches({ chunk, stride }: ScannedLines): boolean {
    return isInChunkMemory(chunk) && stride <= this.#memory.slots.length
  }

  /** Returns a new owner of numbers. Use a new owner whenever one of the numbers changes. */
  owner(): number {
    return ++this.#owners
  }

  /**
   * Stores the number of the value [start, end) of a chunk, if the value is short. May remove the numbers of other
   * values.
   */
  learn(owner: number, chunk: Buffer, start: number, end: number, hash: number, number: number): void {
    if (isInChunkMemory(chunk)) this.#code.learnKey(owner, chunk.byteOffset + start, end - start, hash, number)
  }

  /**
   * For lines with a 1 in `among`: compares a value with a text. `first`: the index of the value's two numbers in the
   * slots of a line. Changes the 1 to 0 if the value is not wanted, and to 2 if the caller must check. Returns the
   * number of lines with a 2; undefined if the kernel cannot compare.
   */
  narrow(
    lines: ScannedLines,
    first: number,
    { text, same, isString }: WantedText,
    among: Uint8Array,
    by: PlainFlags,
  ): number | undefined {
    const { length, stride } = lines
    if (!this.#reaches(lines) || text.length > TEXT_BYTES) return undefined
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
   * Finds the texts of one slot, and hashes those of 1 to `longest` bytes. `first`: the index of the slot's first
   * number in a line. Skips lines with a 1 in `skipped`. Returns how many lines were not skipped but got no known
   * number; undefined if the kernel cannot hash.
   */
  hash(
    lines: ScannedLines,
    first: number,
    { seed, longest, owner }: HashOptions,
    skipped: Uint8Array | undefined,
    columns: StringColumns,
    by: PlainFlags,
  ): number | undefined {
    const { length, stride } = lines
    if (!this.#reaches(lines)) return undefined
    const memory = this.#memory
    let left = 0
    for (let from = 0; from < length; ) {
      const to = memory.putScanned(lines, from)
      if (skipped) this.#column.set(skipped.subarray(from, to))
      left += this.#code.hashStrings(
        to - from,
        memory.flags.byteOffset,
        memory.slots.byteOffset + first * NUMBER,
        stride * NUMBER,
        memory.shift(lines, from),
        by.mask,
        by.plain,
        seed,
        longest,
        owner,
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
    return left
  }
}
