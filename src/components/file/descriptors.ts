import { descriptorLimit } from '../../lib/files/descriptor-limit.js'
import { leadsTo } from './identity.js'
import type { Tailer } from './reading/tailer.js'

/** Share of the process's descriptors for the files of all sources. The rest is for connections, state and modules. */
const SHARE = 0.5

/** How many files may turn out to be kept open in one search for files to close. */
const MOST_KEPT = 50

export class TooManyOpen extends Error {
  readonly code = 'SLUICE_TOO_MANY_OPEN_FILES'
}

/** All sources that opened files or have to wait. */
const sources = new Set<Descriptors>()

/** For simulations: frees all descriptors, as the end of a process does. */
export function endProcess(): void {
  sources.clear()
}

/** Open files, the least recently read first. */
export class Descriptors {
  /** Whether a file has had to wait after the sweep began. */
  areRefused = false
  readonly #wanted: number
  /** Maximum open files of all sources together. */
  readonly #budget: number
  #open = new Set<Tailer>()
  /** Open files that cannot be closed until a sweep finds them, because they might not be found again. */
  readonly #kept = new Set<Tailer>()

  constructor(max: number, limit = descriptorLimit()) {
    this.#wanted = max
    this.#budget = Math.max(1, Math.floor(limit * SHARE))
  }

  get size(): number {
    return this.#open.size + this.#kept.size
  }

  /** The limit of this source: at most an equal part of the budget. */
  get #max(): number {
    const others = sources.size - (sources.has(this) ? 1 : 0)
    return Math.max(1, Math.min(this.#wanted, Math.floor(this.#budget / (others + 1))))
  }

  /** Whether no source may open another file. */
  get areUsedUp(): boolean {
    let open = 0
    for (const { size } of sources) open += size
    return open >= this.#budget
  }

  used(tailer: Tailer): void {
    this.#open.delete(tailer)
    this.#kept.delete(tailer)
    this.#open.add(tailer)
  }

  close(tailer: Tailer): void {
    tailer.close()
    this.#open.delete(tailer)
    this.#kept.delete(tailer)
  }

  end(): void {
    sources.delete(this)
  }

  /** Starts a sweep. Closes files if the limit has fallen because other sources opened files. */
  beginSweep(): void {
    this.areRefused = false
    this.lookAgain()
    this.trim(0)
  }

  /** Call when open files may have been found again. */
  lookAgain(): void {
    if (this.#kept.size === 0) return
    this.#open = new Set([...this.#kept, ...this.#open])
    this.#kept.clear()
  }

  /** Makes room for another file. Throws if the process now has no descriptor for this file. */
  makeRoom(): void {
    sources.add(this)
    this.trim(1)
    if (!this.areUsedUp) return
    this.areRefused = true
    throw new TooManyOpen(`${this.#budget} files are open, half of the limit of this process; raise LimitNOFILE`)
  }

  /**
   * Closes the least recently read files until `spare` more files can be opened. Files that could not be found again
   * stay open. Files with an unfinished line are closed last, because this line is read again each time the file grows.
   */
  trim(spare: number, max = this.#max): void {
    let excess = this.size + spare - max
    if (excess <= 0) return
    const most = this.#kept.size + MOST_KEPT
    for (const unfinished of [false, true]) {
      for (const tailer of this.#open) {
        if (excess <= 0 || this.#kept.size >= most) return
        if (tailer.pending > 0 !== unfinished || tailer.hasPortion) continue
        // The last line of a file that gets no more data must stay in memory.
        const isLast = tailer.awaySince !== undefined && tailer.unread > 0
        if (isLast || !leadsTo(tailer.path, tailer.key, false)) {
          this.#open.delete(tailer)
          this.#kept.add(tailer)
          continue
        }
        this.close(tailer)
        excess--
      }
    }
  }

  refused(): void {
    this.trim(0, Math.floor(this.size * 0.9))
  }
}
