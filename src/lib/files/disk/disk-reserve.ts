import { statfsSync } from 'node:fs'
import { systemClock } from '../../time.js'

const CHECK_MS = 1000
/** The reserve is this part of the file system, and at most MOST_BYTES. */
const PART = 1 / 16
const MOST_BYTES = 256 * 1024 * 1024
/** The free space is checked again after this part of the reserve was written, because others also write. */
const STEP = 1 / 32

/**
 * The last free space of a file system, which buffers leave to what must always be saved: keys, positions and progress.
 */
export class DiskReserve {
  readonly #folder: string
  #reserve = 0
  /** Free bytes above the reserve. */
  #free = Number.POSITIVE_INFINITY
  #written = 0
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Whether a buffer may write `bytes`. If so, they count as written. */
  hasRoom(bytes: number): boolean {
    this.#check()
    if (this.#free < bytes) return false
    this.#free -= bytes
    this.#written += bytes
    return true
  }

  /** Whether new requests of `bytes` should be refused. As much again is left to events that were accepted before. */
  isLow(bytes = 0): boolean {
    this.#check()
    return this.#free < this.#reserve + 2 * bytes
  }

  #check(): void {
    const now = systemClock.now()
    if (now - this.#checkedAt < CHECK_MS && this.#written <= this.#reserve * STEP) return
    this.#checkedAt = now
    this.#written = 0
    try {
      const { bavail, bsize, blocks } = statfsSync(this.#folder)
      this.#reserve = Math.min(MOST_BYTES, blocks * bsize * PART)
      this.#free = bavail * bsize - this.#reserve
    } catch {
      // The folder does not exist yet. If it is unusable, the next write reports the error.
      this.#free = Number.POSITIVE_INFINITY
    }
  }
}
