import { readv, readvSync } from 'node:fs'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'

/** A read that took longer than this waited for a disk. */
const SLOW_MS = 1
/** So many reads are left to another thread then, before it is tried again. */
const READS_APART = 64

/**
 * The reads of one file. What the system has in memory is read at once: to hand it to another thread and back costs
 * several times as much as the read itself. What waits for a disk is read by another thread, so that nobody else waits. Files of remote
 * file systems are always read by another thread.
 */
export class Reads {
  readonly #clock: Clock
  readonly #remote: Remote
  #apart = 0

  constructor(clock: Clock, remote: Remote) {
    this.#clock = clock
    this.#remote = remote
  }

  /** Fills `parts` with what stands at `at` of the file, which was found at `path`: the length, or the error. */
  read(path: string, fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> | number | Error {
    if (this.#remote.has(path)) return this.#readRemote(path, fd, parts, at)
    if (this.#apart > 0) {
      this.#apart--
      return readApart(fd, parts, at)
    }
    const began = this.#clock.now()
    try {
      return readvSync(fd, parts, at)
    } catch (error) {
      return error as Error
    } finally {
      if (this.#clock.now() - began > SLOW_MS) this.#apart = READS_APART
    }
  }

  /** Into memory of its own: a read that is given up may write there much later. */
  async #readRemote(path: string, fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> {
    const room = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0))
    try {
      const length = await this.#remote.runInTime(path, () => readApart(fd, [room], at))
      return length instanceof Error ? length : fill(parts, room.subarray(0, length))
    } catch (error) {
      return error as Error
    }
  }
}

/** How many bytes of `from` there were. */
function fill(parts: readonly Buffer[], from: Buffer): number {
  let taken = 0
  for (const part of parts) taken += from.copy(part, 0, taken)
  return taken
}

function readApart(fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> {
  return new Promise(resolve => readv(fd, parts, at, (error, length) => resolve(error ?? length)))
}
