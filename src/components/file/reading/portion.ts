import { portionAfter } from '../../../lib/lines/chunk-pool.js'
import type { LineSplitter } from '../../../lib/lines/line-splitter.js'

const EMPTY = Buffer.alloc(0)

/** The part of a file that is being read, in memory of its splitter. */
export class Portion {
  /** Whether a read is in progress in another thread. */
  reading = false
  room: Buffer = EMPTY
  #splitter: LineSplitter | undefined
  /** One that is no longer used, but is still read into. */
  #left: LineSplitter | undefined

  /** `most`: bytes that may be read. A shorter portion after a long unfinished line fits into memory that is reused. */
  begin(splitter: LineSplitter, most: number, offset: number): Buffer {
    const bytes = portionAfter(splitter.pending, most)
    this.#splitter = splitter
    this.room = splitter.reserve(bytes, offset).subarray(0, bytes)
    return this.room
  }

  /** Whether a portion is being read, or was read and is not in use yet. */
  get isBegun(): boolean {
    return this.#splitter !== undefined
  }

  /** Whether the memory belongs to this splitter. */
  isOf(splitter: LineSplitter): boolean {
    return this.#splitter === splitter
  }

  /** Frees memory that holds nothing and is not read into: the file may rest for long. */
  free(splitter: LineSplitter): void {
    if (splitter.pending === 0 && !this.isOf(splitter)) splitter.drop()
  }

  /** Frees the memory of a splitter that will not be used any more, when nothing is read into it. */
  leave(splitter: LineSplitter): void {
    if (this.reading && this.isOf(splitter)) this.#left = splitter
    else splitter.drop()
  }

  async wait(result: Promise<number | Error>): Promise<number | Error> {
    this.reading = true
    try {
      return await result
    } finally {
      this.reading = false
      this.#left?.drop()
      this.#left = undefined
    }
  }

  end(): void {
    this.room = EMPTY
    this.#splitter = undefined
  }
}
