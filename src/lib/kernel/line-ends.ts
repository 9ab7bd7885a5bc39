import { CHUNK_BYTES } from '../lines/chunk-memory.js'
import { numbersFor } from '../lines/chunk-pool.js'
import type { LineColumns } from '../lines/line-splitter.js'
import type { LineMemory } from './line-memory.js'

export interface LineEndExports {
  findLines(
    start: number,
    from: number,
    end: number,
    columns: number,
    most: number,
    longest: number,
    shift: number,
  ): number
}

/** Bytes of a line in the columns: 4 for its start, 4 for its end and 1 for its flags. */
const LINE_BYTES = 9

/** Finds the lines of a portion in one call. */
export class LineEnds {
  readonly #code: LineEndExports
  readonly #columns: Uint8Array

  constructor(code: LineEndExports, memory: LineMemory) {
    this.#code = code
    // A line has at least one byte, so a chunk has at most CHUNK_BYTES lines.
    const size = CHUNK_BYTES * LINE_BYTES
    this.#columns = new Uint8Array(memory.bytes.buffer, memory.take(size), size)
  }

  /** Like FindLines, for chunks in the shared memory. */
  find(chunk: Buffer, start: number, from: number, end: number, longest: number): LineColumns | undefined {
    const { byteOffset: at } = chunk
    const { byteOffset: columns } = this.#columns
    const length = this.#code.findLines(at + start, at + from, at + end, columns, CHUNK_BYTES, longest, -at)
    if (length < 0) return undefined
    const numbers = numbersFor(chunk, Math.ceil((length * LINE_BYTES) / 4))
    const { buffer, byteOffset: first } = numbers
    new Uint8Array(buffer, first).set(this.#columns.subarray(0, length * LINE_BYTES))
    return {
      length,
      starts: new Int32Array(buffer, first, length),
      ends: new Int32Array(buffer, first + length * 4, length),
      flags: new Uint8Array(buffer, first + length * 8, length),
    }
  }
}
