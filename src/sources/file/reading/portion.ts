import { portionAfter } from '../../../lib/lines/chunk-pool.js'
import type { LineSplitter } from '../../../lib/lines/line-splitter.js'

const EMPTY = Buffer.alloc(0)

/** The part of a file that is being read, in memory of its splitter. */
export class Portion {
  /** Whether a read is in progress in another thread. */
  reading = false
  room: Buffer = EMPTY
  #splitter: LineSplitter | undefined

  /** `most`: bytes that may be read. A shorter portion after a long unfinished line fits into memory that is reused. */
  begin(splitter: LineSplitter, most: number): Buffer {
    const bytes = portionAfter(splitter.pending, most)
    this.#splitter = splitter
    this.room = splitter.reserve(bytes).subarray(0, bytes)
    return this.room
  }

  /** Whether the memory belongs to this splitter. */
  isOf(splitter: LineSplitter): boolean {
    return this.#splitter === splitter
  }

  async wait(result: Promise<number | Error>): Promise<number | Error> {
    this.reading = true
    try {
      return await result
    } finally {
      this.reading = false
    }
  }

  end(): void {
    this.room = EMPTY
    this.#splitter = undefined
  }
}
