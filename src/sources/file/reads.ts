import { readv, readvSync } from 'node:fs'
import type { Clock } from '../../lib/time.js'

/** A read that took longer than this waited for a disk. */
const SLOW_MS = 1
/** So many reads are left to another thread then, before it is tried again. */
const READS_APART = 64

/**
 * The reads of one file. What the system has in memory is read at once: to hand it to another thread and back costs
 * several times as much as the read itself. What waits for a disk is read by another thread, so that nobody else waits.
 */
export class Reads {
  readonly #clock: Clock
  #apart = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Fills `parts` with what stands at `at`: the length, or the error. */
  read(fd: number, parts: readonly Buffer[], at: number): Promise<number | Error> | number | Error {
    if (this.#apart > 0) {
      this.#apart--
      return new Promise(resolve => readv(fd, parts, at, (error, length) => resolve(error ?? length)))
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
}
