import { readv, readvSync } from 'node:fs'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'

/** A read that took longer than this, in milliseconds, waited for a disk. */
const SLOW_MS = 1
/** After such a read, the number of reads made in another thread. */
const READS_APART = 64

/**
 * Reads one file. Cached data is read synchronously, because using another thread costs several times as much as the
 * read itself. Reads that wait for a disk, and all reads from remote file systems, use another thread, so that they do
 * not block the process.
 */
export class Reads {
  readonly #clock: Clock
  readonly #remote: Remote
  #apart = 0

  constructor(clock: Clock, remote: Remote) {
    this.#clock = clock
    this.#remote = remote
  }

  /** Fills `parts` from offset `at` of the file found at `path`. Returns the length or the error. */
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

  /** Reads into separate memory, because an abandoned read may write there much later. */
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

/** Distributes `from` over `parts`; returns the number of bytes. */
function fill(parts: readonly Buffer[], from: Buffer): number {
  let taken = 0
  for (const part of parts) taken += from.copy(part, 0, taken)
  return taken
}

function readApart(fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> {
  return new Promise(resolve => readv(fd, parts, at, (error, length) => resolve(error ?? length)))
}
