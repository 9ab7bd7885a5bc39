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
export abstract class LimitEventWindows<K extends EarlierRows = EarlierRows> extends LimitWindows {
  protected readonly progress: EventProgress
  /** The windows or runs before the newest one. */
  protected readonly kept: K
  readonly #room: EarlierMemory

  constructor(limit: Limit, spanMs: number, { progress, room }: Shared, kept: K) {
    super(limit, spanMs)
    this.progress = progress
    this.kept = kept
    this.#room = room
  }

  /**
   * If no room is left for one more row, drops `row`, which is one of the first `spare` rows. Returns false if `spare`
   * is 0, so that no row can be dropped.
   */
  protected makeRoom(kept: K, spare: number, row = spare >> 1): boolean {
    if (spare < MOST_OF_ONE && kept.hasRoom) return true
    this.#room.forgotten++
    if (spare === 0) return false
    if (row === 0) kept.removeFirst(1)
    else kept.remove(row)
    return true
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
