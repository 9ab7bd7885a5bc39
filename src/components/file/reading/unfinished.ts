import { PARTS_TIMEOUT_MS, type Splitting } from '../../../core/options/multiline-options.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import type { Clock } from '../../../lib/time.js'
import type { Tailer } from './tailer.js'

/** Maximum memory for all unfinished lines of a source. Above it, the earliest lines are dropped and read later. */
const MAX_PENDING_BYTES = 32 * 1024 * 1024

export interface UnfinishedOptions {
  readonly clock: Clock
  readonly splitting: Splitting
  /** How long a renamed file must be quiet before its unfinished line is delivered. */
  readonly rotateWaitMs: number
  onReady(tailer: Tailer): void
}

/** The files that were read to their end and end with an unfinished line or event. */
export class Unfinished {
  readonly #options: UnfinishedOptions
  readonly #tailers = new Map<Tailer, number>()
  #bytes = 0
  #dueAt = Number.POSITIVE_INFINITY

  constructor(options: UnfinishedOptions) {
    this.#options = options
  }

  get dueAt(): number {
    return this.#dueAt
  }

  note(tailer: Tailer): void {
    this.#setBytes(tailer, tailer.pending)
    if (tailer.pending === 0 && !tailer.parked) this.#tailers.delete(tailer)
    else this.#dueAt = Math.min(this.#dueAt, this.#dueAtOf(tailer))
  }

  forget(tailer: Tailer): void {
    this.#setBytes(tailer, 0)
    this.#tailers.delete(tailer)
  }

  #setBytes(tailer: Tailer, bytes: number): void {
    this.#bytes += bytes - (this.#tailers.get(tailer) ?? 0)
    this.#tailers.set(tailer, bytes)
  }

  /**
   * Drops unfinished lines until the other lines fit into the limit. Keeps the lines of files that might not be found
   * again. Returns false if the kept lines exceed the limit.
   */
  trim(): boolean {
    for (const [tailer, bytes] of this.#tailers) {
      if (this.#bytes <= MAX_PENDING_BYTES) return true
      if (bytes === 0 || tailer.isQueued || tailer.copy || tailer.awaySince !== undefined) continue
      tailer.park()
      this.#setBytes(tailer, 0)
    }
    return this.#bytes <= MAX_PENDING_BYTES
  }

  /** The time at which the unfinished part of a file is delivered as it is. */
  #dueAtOf(tailer: Tailer): number {
    const { splitting, rotateWaitMs } = this.#options
    const { grownAt, holdsSince, inLine, origin, path, movedAt, truncatedSince, copy } = tailer
    // The copy of a truncated file gets no more data. But if the system refused to read on, the rest may come later.
    if (truncatedSince !== undefined && inLine && !copy?.isRefused) return grownAt
    const isRenamed = origin.path !== path
    return Math.min(
      grownAt + splitting.patienceMs(inLine),
      inLine ? Number.POSITIVE_INFINITY : holdsSince + PARTS_TIMEOUT_MS,
      isRenamed ? Math.max(grownAt, movedAt) + rotateWaitMs : Number.POSITIVE_INFINITY,
    )
  }

  /** Whether the unfinished part must be delivered now. Later, opening another file could park this part again. */
  isDue(tailer: Tailer): boolean {
    return this.#dueAtOf(tailer) <= this.#options.clock.now()
  }

  /** The files whose unfinished part is due, or all unfinished files if `all`. */
  *due(all: boolean): Iterable<Tailer> {
    const { clock, onReady } = this.#options
    const now = clock.now()
    if (now < this.#dueAt && !all) return
    this.#dueAt = Number.POSITIVE_INFINITY
    for (const tailer of this.#tailers.keys()) {
      const dueAt = this.#dueAtOf(tailer)
      if (dueAt > now && !all) {
        this.#dueAt = Math.min(this.#dueAt, dueAt)
        continue
      }
      const more = tailer.isQueued || tailer.parked !== undefined || hasMore(tailer)
      this.forget(tailer)
      // A file with more to read is registered again when its end is reached.
      if (more) {
        tailer.unpark()
        onReady(tailer)
      } else yield tailer
    }
  }
}

/** Whether the file may have grown without a notification. The reader postpones a file that cannot be examined now. */
export function hasMore(tailer: Tailer): boolean {
  try {
    return tailer.isOpen && tailer.left() !== 0
  } catch (error) {
    // The next sweep detects and logs the cause of other errors.
    return error instanceof SilentFileSystem
  }
}
