import { crc32 } from 'node:zlib'
import type { LineMemory, Lines } from './line-memory.js'

export interface SumExports {
  setLineTables(tables: number): void
  setSumTables(tables: number, polynomial: number): void
  sumBytes(tables: number, from: number, end: number, before: number): number
  sumLines(length: number, starts: number, ends: number, shift: number, sums: number): void
}

export const SUM_TABLE_BYTES = 16 * 1024

/** Computes CRC-32 of many lines in one call. */
export class LineSums {
  readonly #code: SumExports
  readonly #memory: LineMemory
  readonly #sums: Uint32Array

  constructor(code: SumExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    code.setLineTables(memory.take(SUM_TABLE_BYTES))
    // No line has slots meanwhile.
    this.#sums = new Uint32Array(memory.slots.buffer, memory.slots.byteOffset, memory.starts.length)
  }

  /** Writes the checksum of each line to `sums`. */
  sum(lines: Lines, sums: Uint32Array): void {
    const { chunk, starts, ends, length } = lines
    const memory = this.#memory
    for (let from = 0; from < length; ) {
      const to = memory.put(lines, from, 0)
      if (to === from) sums[from] = crc32(chunk.subarray(starts[from], ends[from++]))
      else {
        this.#code.sumLines(
          to - from,
          memory.starts.byteOffset,
          memory.ends.byteOffset,
          memory.shift(lines, from),
          this.#sums.byteOffset,
        )
        sums.set(this.#sums.subarray(0, to - from), from)
        from = to
      }
    }
  }
}
