import { readv, readvSync } from 'node:fs'
import { DirectCalls } from '../../../lib/files/direct-calls.js'
import { sizeOfAll } from '../../../lib/formats/parts.js'
import { portionAfter } from '../../../lib/lines/chunk-pool.js'
import type { LineSplitter } from '../../../lib/lines/line-splitter.js'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'

/** A read that took longer than this, in milliseconds, waited for a disk. */
const SLOW_MS = 1

const EMPTY = Buffer.alloc(0)

/**
 * The part of a file that is being read, in the memory of its splitter. Cached data is read directly. Reads that wait
 * for a disk, and all reads from remote file systems, use another thread and do not block the process.
 */
export class Portion {
  reading = false
  room: Buffer = EMPTY
  #splitter: LineSplitter | undefined
  /** A retired splitter that a pending read still writes to. */
  #left: LineSplitter | undefined
  readonly #remote: Remote
  readonly #direct: DirectCalls

  constructor(clock: Clock, remote: Remote) {
    this.#remote = remote
    this.#direct = new DirectCalls(clock, SLOW_MS)
  }

  /**
   * Begins a portion of at most `most` bytes. After a long unfinished line, the portion is shorter, so that it fits
   * into memory that is reused.
   */
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

  isOf(splitter: LineSplitter): boolean {
    return this.#splitter === splitter
  }

  /** Frees the memory of a splitter that is empty and not being filled. The file may stay the same for long. */
  free(splitter: LineSplitter): void {
    if (splitter.pending === 0 && !this.isOf(splitter)) splitter.drop()
  }

  /** Frees the memory of a retired splitter, once no read writes to it. */
  leave(splitter: LineSplitter): void {
    if (this.reading && this.isOf(splitter)) this.#left = splitter
    else splitter.drop()
  }

  /** Fills `parts` from offset `at` of the file found at `path`. Returns the length or the error. */
  read(path: string, fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> | number | Error {
    if (this.#remote.has(path)) return this.wait(this.#readRemote(path, fd, parts, at))
    const began = this.#direct.begin()
    if (began === undefined) return this.wait(readApart(fd, parts, at))
    try {
      return readvSync(fd, parts, at)
    } catch (error) {
      return error as Error
    } finally {
      this.#direct.end(began)
    }
  }

  /** Each call reads into new memory, because an abandoned read may still write to its memory much later. */
  async #readRemote(path: string, fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> {
    const room = Buffer.allocUnsafeSlow(sizeOfAll(parts))
    try {
      const length = await this.#remote.runInTime(path, () => readApart(fd, [room], at))
      return length instanceof Error ? length : fill(parts, room.subarray(0, length))
    } catch (error) {
      return error as Error
    }
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

function fill(parts: readonly Buffer[], from: Buffer): number {
  let taken = 0
  for (const part of parts) taken += from.copy(part, 0, taken)
  return taken
}

function readApart(fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> {
  return new Promise(resolve => readv(fd, parts, at, (error, length) => resolve(error ?? length)))
}
