import { statfsSync } from 'node:fs'
import { systemClock } from '../../time.js'

const CHECK_MS = 250
/** The reserve is this part of the file system, and by default at most MOST_BYTES. */
const PART = 1 / 16
const MOST_BYTES = 256 * 1024 * 1024

/**
 * The last free space of a file system, which buffers leave to what must always be saved: keys, positions and progress.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #most: number
  #reserve = 0
  /** Free bytes above the reserve. */
  #free = Number.POSITIVE_INFINITY
  #admitted = 0
  readonly #releases = new Map<string, () => void>()
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(folder: string, most = MOST_BYTES) {
    this.#folder = folder
    this.#most = most
  }

  /** Whether a buffer may write `bytes`. If so, they count as written. `isState`: the data may use the reserve. */
  hasRoom(bytes: number, isState = false): boolean {
    this.#check()
    if (this.#free < bytes && !isState) {
      for (const release of this.#releases.values()) release()
      return false
    }
    this.#free -= bytes
    this.#admitted += bytes
    return true
  }

  /** Whether new requests of `bytes` should be refused. As much again is left to events that were accepted before. */
  isLow(bytes = 0): boolean {
    this.#check()
    return this.#free < this.#reserve + 2 * bytes
  }

  /** Calls `release` when there is no room. The sizes of files are not needed, because the file system is asked. */
  count(path: string, _bytes: () => number, release?: () => void): void {
    if (release) this.#releases.set(path, release)
    else this.#releases.delete(path)
  }

  #check(): void {
    const now = systemClock.now()
    if (now - this.#checkedAt < CHECK_MS) return
    this.#checkedAt = now
    // The file system may not have seen these bytes yet.
    const admitted = this.#admitted
    this.#admitted = 0
    try {
      const { bavail, bsize, blocks } = statfsSync(this.#folder)
      this.#reserve = Math.min(this.#most, blocks * bsize * PART)
      this.#free = bavail * bsize - this.#reserve - admitted
    } catch {
      // The folder does not exist yet. If it is unusable, the next write reports the error.
      this.#free = Number.POSITIVE_INFINITY
    }
  }
}
