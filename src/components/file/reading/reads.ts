import { readv, readvSync } from 'node:fs'
import { DirectCalls } from '../../../lib/files/direct-calls.js'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'

/** A read that took longer than this, in milliseconds, waited for a disk. */
const SLOW_MS = 1

/**
 * Reads one file: cached data directly. Reads that wait for a disk, and all reads from remote file systems, use another
 * thread, so that they do not block the process.
 */
export class Reads {
  readonly #remote: Remote
  readonly #direct: DirectCalls

  constructor(clock: Clock, remote: Remote) {
    this.#remote = remote
    this.#direct = new DirectCalls(clock, SLOW_MS)
  }

  /** Fills `parts` from offset `at` of the file found at `path`. Returns the length or the error. */
  read(path: string, fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> | number | Error {
    if (this.#remote.has(path)) return this.#readRemote(path, fd, parts, at)
    const began = this.#direct.begin()
    if (began === undefined) return readApart(fd, parts, at)
    try {
      return readvSync(fd, parts, at)
    } catch (error) {
      return error as Error
    } finally {
      this.#direct.end(began)
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
