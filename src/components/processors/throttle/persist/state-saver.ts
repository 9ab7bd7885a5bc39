import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { ComponentMetrics, StateFolder } from '../../../../core/component.js'
import { errorCode, errorText } from '../../../../core/errors.js'
import { above0, CHECK_DISK } from '../../../../core/fact.js'
import { type BufferFile, type BufferFolder, folderOnDisk } from '../../../../engine/flow/disk-buffer/files.js'
import { measureWork, type TimerClock } from '../../../../lib/time.js'
import { HEAD_BYTES, sealBlock } from '../../../throttle/persist/blocks.js'
import { BucketsReader, SavedBuckets, type SavedLimiter } from '../../../throttle/persist/saved-buckets.js'
import type { Rule } from '../../../throttle/rules/rule.js'
import { restoreBuckets } from './restore.js'
import { BUCKETS_FORMAT, bucketSegmentName, type SegmentHead, segmentsIn, WITHOUT_SUMS } from './segments.js'

const INTERVAL_MS = 1000
/** The creation of blocks takes at most 1/50 of the time. */
const BUSY_SHARE = 50
const RETRY_MAX_MS = 30_000
/** A segment larger than this is replaced when it exceeds `GROWTH` times the size of its part with all buckets. */
const SMALLEST_SEGMENT = 1024 * 1024
const GROWTH = 2

interface SaverOptions {
  readonly state: StateFolder
  readonly means: SegmentHead['means']
  readonly limiter: SavedLimiter
  readonly rules: readonly Rule[]
  readonly inEventTime: boolean
  readonly clock: TimerClock
  readonly log: Logger
  readonly metrics: Pick<ComponentMetrics, 'fact' | 'gauge' | 'failed'>
}

/**
 * Saves a throttle's buckets one second after they have changed, and when the throttle ends. Each save appends the
 * changed buckets to a segment. At the first save of a run, after a change of the rules, and later from time to time, a
 * new segment with all buckets replaces the earlier segments. If a save fails, the daemon continues, because the next
 * segment has all buckets again.
 */
export class StateSaver {
  readonly #options: SaverOptions
  readonly #folder: BufferFolder
  readonly #buckets: SavedBuckets
  readonly #run = randomUUID()
  #segment: BufferFile | undefined
  #name = ''
  /** The size of the segment, and the size of the part at its beginning that has all buckets. */
  #bytes = 0
  #bytesOfAll = 0
  /** Bytes of all segments, reported to `state`. */
  #onDisk = 0
  /** Whether the segment may have buckets of rules that no longer exist. A rule that comes back must start empty. */
  #isStale = false
  #dirty = false
  #savedAt: number
  #saving: Promise<void> | undefined
  #cancel: (() => void) | undefined
  /** Nothing is written before this monotonic time. */
  #notBefore = 0
  #failures = 0
  #loggedCause = ''
  /** Older segments that could not be removed. For each segment, this failure was logged once. */
  readonly #kept = new Set<string>()
  #hasEnded = false

  constructor(options: SaverOptions) {
    const { state, limiter, inEventTime, clock, metrics } = options
    this.#options = options
    this.#folder = folderOnDisk(state.path)
    this.#buckets = new SavedBuckets(limiter, () => (inEventTime ? Number.NEGATIVE_INFINITY : clock.now()))
    this.#savedAt = clock.wall()
    state.count(() => this.#onDisk)
    const age = () => (this.#dirty || this.#saving ? Math.max(0, clock.wall() - this.#savedAt) / 1000 : 0)
    metrics.gauge('sluice_throttle_state_age_seconds', 'Age of the saved buckets; 0 while they are up to date.', age)
    metrics.gauge('sluice_throttle_state_bytes', 'Size of the saved buckets on disk, in bytes.', () => this.#onDisk)
    const help = '1 if buckets cannot be saved. A restart would use older buckets.'
    const todo = `After a restart, the throttle uses the buckets that were saved last, so more events than the limits allow may pass. ${CHECK_DISK} (SLUICE_BUCKETS_NOT_SAVED).`
    const problem = above0('limits', 'its buckets cannot be saved', todo)
    metrics.fact({ name: 'sluice_throttle_state_unsaved', help, read: () => (this.#failures > 0 ? 1 : 0), problem })
  }

  async restore(): Promise<void> {
    const { limiter, rules, means, inEventTime, clock, log } = this.#options
    await restoreBuckets(new BucketsReader(limiter, rules), {
      folder: this.#folder,
      means,
      clock: inEventTime ? undefined : clock,
      wall: clock.wall(),
      log,
    })
  }

  /** Call this after events were decided on, because buckets may have changed. */
  changed(): void {
    if (this.#dirty) return
    this.#dirty = true
    this.#schedule()
  }

  /** Call this after the rules have changed. */
  rulesChanged(): void {
    this.#isStale = true
    this.changed()
  }

  /** Saves the changes, then stops saving. Does not reject. */
  async end(): Promise<void> {
    this.#hasEnded = true
    this.#cancel?.()
    await this.#saving
    if (this.#dirty) await this.#save()
    await this.#segment?.close().catch(() => {})
    this.#segment = undefined
    const bytes = this.#onDisk
    this.#options.state.count(() => bytes, true)
  }

  #schedule(): void {
    if (this.#cancel || this.#saving || this.#hasEnded || !this.#dirty) return
    const { clock } = this.#options
    this.#cancel = clock.after(Math.max(this.#notBefore - clock.now(), INTERVAL_MS / 10), () => {
      this.#cancel = undefined
      this.#saving = this.#save().finally(() => {
        this.#saving = undefined
        this.#schedule()
      })
    })
  }

  async #save(): Promise<void> {
    const { clock, log } = this.#options
    const takenAt = clock.wall()
    this.#dirty = false
    try {
      const busyMs = await this.#write()
      this.#savedAt = takenAt
      this.#failures = 0
      this.#notBefore = clock.now() + Math.max(INTERVAL_MS, BUSY_SHARE * busyMs)
      if (this.#loggedCause) log.info('buckets can be saved again')
      this.#loggedCause = ''
    } catch (error) {
      this.#dirty = true
      this.#notBefore = clock.now() + Math.min(RETRY_MAX_MS, INTERVAL_MS * 2 ** this.#failures++)
      this.#report(error)
      await this.#giveUp()
    }
  }

  /** Writes the changes, or all buckets to a new segment. Returns the milliseconds that creating the blocks took. */
  async #write(): Promise<number> {
    const isWhole = await this.#isWhole()
    if (!isWhole) await this.#begin()
    const { clock } = this.#options
    let busyMs = 0
    for (const blocks = this.#buckets.blocks(!isWhole); ; ) {
      const workMs = measureWork(clock)
      const { value, done } = blocks.next()
      if (done) break
      sealBlock(value, { now: clock.now(), wall: clock.wall() })
      busyMs += workMs()
      await this.#append(value)
    }
    if (!isWhole) await this.#replace()
    return busyMs
  }

  /** Whether the current segment has all buckets and may still grow. */
  async #isWhole(): Promise<boolean> {
    if (!this.#segment || this.#isStale) return false
    if (this.#bytes > Math.max(SMALLEST_SEGMENT, GROWTH * this.#bytesOfAll)) return false
    // The file is missing if data_dir was removed.
    return (await this.#folder.list()).includes(this.#name)
  }

  async #begin(): Promise<void> {
    const { means, clock, inEventTime } = this.#options
    await this.#segment?.close()
    this.#segment = undefined
    this.#isStale = false
    await this.#folder.make()
    const number = ((await segmentsIn(this.#folder)).at(-1) ?? 0) + 1
    this.#bytes = this.#bytesOfAll = 0
    this.#name = bucketSegmentName(number)
    this.#segment = await this.#folder.create(this.#name)
    const head: SegmentHead = { sluice_buckets: inEventTime ? WITHOUT_SUMS : BUCKETS_FORMAT, run: this.#run, means }
    const block = Buffer.concat([Buffer.alloc(HEAD_BYTES), Buffer.from(JSON.stringify(head))])
    await this.#append(sealBlock(block, { now: clock.now(), wall: clock.wall() }))
  }

  async #append(block: Buffer): Promise<void> {
    if (!this.#options.state.hasRoom(block.length))
      throw new Error('the account has no disk space left for the saved buckets')
    await this.#segment!.write([block], this.#bytes)
    this.#bytes += block.length
    this.#onDisk += block.length
  }

  /** Removes older segments, because the new one has all buckets. A segment that cannot be removed does no harm. */
  async #replace(): Promise<void> {
    await this.#segment!.sync()
    await this.#folder.sync()
    this.#bytesOfAll = this.#bytes
    for (const name of (await segmentsIn(this.#folder)).map(bucketSegmentName))
      if (name !== this.#name) await this.#folder.remove(name).catch(error => this.#reportKept(name, error))
    this.#onDisk = this.#bytes
  }

  #reportKept(name: string, error: unknown): void {
    if (this.#kept.has(name)) return
    this.#kept.add(name)
    const file = `${this.#folder.path}/${name}`
    this.#options.log.warn(
      { file, error: errorText(error) },
      'cannot remove a file with older buckets; please remove the file yourself',
    )
  }

  /**
   * Called after a failure, so that the next segment begins with all buckets. Removes the current segment if it does
   * not have all buckets yet.
   */
  async #giveUp(): Promise<void> {
    await this.#segment?.close().catch(() => {})
    if (this.#segment && this.#bytesOfAll === 0) {
      await this.#folder.remove(this.#name).catch(() => {})
      this.#onDisk -= this.#bytes
    }
    this.#segment = undefined
  }

  #report(error: unknown): void {
    const { log, metrics } = this.#options
    metrics.failed('state_not_saved')
    const cause = errorCode(error) ?? errorText(error)
    if (this.#loggedCause === cause) return
    this.#loggedCause = cause
    log.error(
      { code: 'SLUICE_BUCKETS_NOT_SAVED', folder: this.#folder.path, cause, error: errorText(error) },
      'cannot save buckets; retrying. A restart before the next save forgets the events that passed since the last save, so more than the limit can pass',
    )
  }
}
