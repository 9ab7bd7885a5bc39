import type { LineSplitter } from '../../../lib/lines/line-splitter.js'

const EMPTY = Buffer.alloc(0)

/** The part of a file that is being read, in memory of its splitter. */
export class Portion {
  /** Whether a read is in progress in another thread. */
  reading = false
  room: Buffer = EMPTY
  #splitter: LineSplitter | undefined

  begin(splitter: LineSplitter, bytes: number): Buffer {
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
