import { GrowingBytes } from '../formats/growing-bytes.js'
import type { LineMemory } from './line-memory.js'

export interface SnappyExports {
  compressSnappy(from: number, size: number, to: number, table: number): number
}

const TABLE_BYTES = 32 * 1024
/** A text is compressed in pieces of this size, each on its own. */
const PIECE_BYTES = 64 * 1024
/** Larger memory is not kept. */
const LARGEST = 2 * 1024 * 1024

/** Compresses to Snappy blocks, without stream framing. */
export class Snappy {
  readonly #code: SnappyExports
  readonly #output: Buffer
  readonly #table: number
  readonly #piece: Buffer
  readonly #made = new GrowingBytes()

  constructor(code: SnappyExports, { slots, output }: LineMemory) {
    this.#code = code
    this.#output = output
    // No line has slots meanwhile.
    this.#table = slots.byteOffset
    this.#piece = Buffer.from(slots.buffer, slots.byteOffset + TABLE_BYTES, PIECE_BYTES)
  }

  /** Returns `bytes` bytes, which are in parts, as one block. */
  compress(parts: readonly Buffer[], bytes: number): Buffer {
    const made = this.#made
    let size = bytes
    for (; size >= 0x80; size = Math.floor(size / 0x80)) made.addByte((size % 0x80) | 0x80)
    made.addByte(size)
    let used = 0
    for (const part of parts) {
      for (let at = 0; at < part.length; ) {
        const count = part.copy(this.#piece, used, at)
        at += count
        used += count
        if (used === PIECE_BYTES) used = this.#add(used)
      }
    }
    this.#add(used)
    const compressed = Buffer.from(made.bytes.subarray(0, made.length))
    if (made.bytes.length > LARGEST) made.release()
    else made.clear()
    return compressed
  }

  #add(size: number): 0 {
    const output = this.#output
    const end = this.#code.compressSnappy(this.#piece.byteOffset, size, output.byteOffset, this.#table)
    this.#made.add(output, 0, end - output.byteOffset)
    return 0
  }
}
