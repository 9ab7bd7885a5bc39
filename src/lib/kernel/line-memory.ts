import { type FixedMemory, isInChunkMemory, OWN_BYTES } from '../lines/chunk-memory.js'
import type { LineColumns } from '../lines/line-splitter.js'

/** Lines as ranges of a chunk, as in an EventBatch. */
export interface Lines extends LineColumns {
  readonly chunk: Buffer
}

/** Scanned lines, with `stride` numbers of `slots` per line. */
export interface ScannedLines extends Lines {
  readonly slots: Int32Array
  readonly stride: number
}

/** Maximum number of bytes, and of lines, that the kernel reads at a time. It does not read a longer line. */
const TEXT_BYTES = 512 * 1024
export const MOST_LINES = 4096
/** Bytes for the slots of a group of lines. */
const SLOT_BYTES = 512 * 1024
/** Bytes that are written at a time. */
const OUTPUT_BYTES = 512 * 1024
/** The kernel reads this many bytes beyond the end of a line. */
export const AHEAD = 64

/** The kernel's part of the shared memory: columns for a group of lines, and areas from `take`. */
export class LineMemory {
  readonly bytes: Buffer
  readonly view: DataView
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly flags: Uint8Array
  readonly slots: Int32Array
  readonly output: Buffer
  readonly #text: number
  #used: number

  /** `base`: the first address after the kernel's own data. */
  constructor(base: number, { buffer }: FixedMemory) {
    this.#used = (base + 15) & ~15
    this.bytes = Buffer.from(buffer)
    this.view = new DataView(buffer)
    this.starts = new Int32Array(buffer, this.take(MOST_LINES * 4), MOST_LINES)
    this.ends = new Int32Array(buffer, this.take(MOST_LINES * 4), MOST_LINES)
    this.flags = new Uint8Array(buffer, this.take(MOST_LINES), MOST_LINES)
    this.slots = new Int32Array(buffer, this.take(SLOT_BYTES), SLOT_BYTES / 4)
    this.#text = this.take(TEXT_BYTES + AHEAD)
    this.output = Buffer.from(buffer, this.take(OUTPUT_BYTES), OUTPUT_BYTES)
  }

  /** Reserves `bytes` of memory, a multiple of 16, for one use. Returns the address. */
  take(bytes: number): number {
    const at = this.#used
    this.#used += bytes
    if (this.#used > OWN_BYTES) throw new Error('the memory of the kernel is too small')
    return at
  }

  /**
   * Puts as many lines as fit into the columns, beginning with line `from`. Copies their text unless it is already in
   * the memory. `stride`: numbers in `slots` per line. Returns the index after these lines; `from` if no line fits.
   */
  put(lines: Lines, from: number, stride: number): number {
    const { chunk, length, starts, ends, flags } = lines
    const until = this.#until(length, from, stride)
    const to = isInChunkMemory(chunk) ? until : this.#copy(from, until, lines)
    this.starts.set(starts.subarray(from, to))
    this.ends.set(ends.subarray(from, to))
    this.flags.set(flags.subarray(from, to))
    return to
  }

  /** From line `from` on, puts flags and slots into the shared memory, as many as fit. Returns their end. */
  putScanned(lines: ScannedLines, from: number): number {
    const { length, flags, slots, stride } = lines
    const to = this.#until(length, from, stride)
    this.flags.set(flags.subarray(from, to))
    this.slots.set(slots.subarray(from * stride, to * stride))
    return to
  }

  #until(length: number, from: number, stride: number): number {
    const most = stride === 0 ? MOST_LINES : Math.min(MOST_LINES, Math.floor(this.slots.length / stride))
    return Math.min(length, from + most)
  }

  /** Returns the number to subtract from a position to get its address, for a group that begins with line `from`. */
  shift({ chunk, starts }: Lines, from: number): number {
    return isInChunkMemory(chunk) ? -chunk.byteOffset : starts[from]! - this.#text
  }

  /** Copies the lines [from, to), as many as fit into the memory. Returns the end of the copied lines. */
  #copy(from: number, to: number, { chunk, starts, ends }: Lines): number {
    const begin = starts[from]!
    let until = from
    while (until < to && ends[until]! - begin < TEXT_BYTES) until++
    // Copies one byte more, which belongs to the last line end.
    if (until > from) this.bytes.set(chunk.subarray(begin, ends[until - 1]! + 1), this.#text)
    return until
  }
}
