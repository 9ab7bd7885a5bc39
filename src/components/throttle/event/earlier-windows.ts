import type { Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import { LimitWindows } from '../windows.js'
import type { EarlierMemory, EarlierRows } from './earlier-rows.js'
import type { EventProgress } from './progress.js'
import type { Shared } from './timing.js'

/** Maximum number of rows per bucket. */
const MOST_OF_ONE = 4096

/**
 * The windows of one limit. A bucket keeps an earlier window until every further event in this window would be late. If
 * no room is left, one of the earlier windows is dropped. If another event of the dropped window arrives, this event
 * opens a new, empty window. So dropping a window never causes an event to be discarded.
 */
export abstract class LimitEventWindows extends LimitWindows {
  protected readonly progress: EventProgress
  /** The windows before the newest one. */
  protected readonly kept: EarlierRows
  readonly #room: EarlierMemory

  constructor(limit: Limit, spanMs: number, { progress, room }: Shared, kept: EarlierRows) {
    super(limit, spanMs)
    this.progress = progress
    this.kept = kept
    this.#room = room
  }

  /** If no room is left for one more row, drops one of the bucket's rows. Returns false if the bucket has no rows. */
  protected makeRoom(kept: EarlierRows): boolean {
    const { length } = kept
    if (length < MOST_OF_ONE && kept.hasRoom) return true
    this.#room.forgotten++
    if (length > 0) kept.remove(length >> 1)
    return length > 0
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    this.kept.reserve(capacity)
  }

  override adopt(bucket: number, from: LimitEventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.kept.adopt(bucket, from.kept, fromBucket)
  }

  override write(bucket: number, to: StateWriter): void {
    super.write(bucket, to)
    this.kept.of(bucket).write(to)
  }

  override read(bucket: number, from: StateReader): void {
    super.read(bucket, from)
    this.kept.clear(bucket)
    this.kept.read(from)
  }

  override release(): void {
    this.kept.release()
  }
}
