import { errorCode, errorText } from '../../../core/errors.js'
import type { Amount } from '../counters.js'
import { LowWaterMark } from '../low-water-mark.js'
import type { DiskBufferContext } from './context.js'
import type { Incoming, Range, RecordCursor } from './incoming.js'
import type { Recovered } from './ledger.js'
import { Ledger, type LedgerState, MOST_RANGES } from './ledger.js'
import type { RecordLog } from './log.js'
import { type LogPosition, placeAfter, type Segment, unsettled } from './segments.js'

/** How long a settlement may exist only in memory. */
const INTERVAL_MS = 1000
/** How many bytes of events may be settled only in memory. After a kill, these events are repeated. */
const MOST_UNSAVED = 1024 * 1024

interface Ahead {
  readonly range: Range
  /** The segments that lie completely within the range. */
  readonly covers: readonly Segment[]
  /**
   * Whether segments in the range were removed, or may have been removed. If the ledger forgot such a range, the events
   * of these segments would seem to be missing.
   */
  readonly hasHole: boolean
}

/**
 * Tracks settled records, in memory and in the ledger. The mark never passes an unsettled record. A segment that the
 * mark has passed completely is removed once the ledger contains the mark, or is gone. A later segment is removed if a
 * range in the ledger covers all of it. The ledger then keeps that range until the mark has passed it.
 */
export class Settlement {
  readonly #context: DiskBufferContext
  readonly #records: RecordLog
  readonly #freed: () => void
  readonly #ledger: Ledger
  readonly #taken: LowWaterMark<RecordCursor & LogPosition>
  /** Settled ranges of records whose other events were given back. */
  readonly #partly: Range[] = []
  #dirty = false
  /** Bytes of events settled since the ledger was last written. */
  #unsavedBytes = 0
  #writing: Promise<void> | undefined
  #cancel: (() => void) | undefined
  #failure = ''
  #closed = false

  /** Calls `freed` when a record was settled or segments were removed. */
  constructor(context: DiskBufferContext, found: Recovered, records: RecordLog, freed: () => void) {
    this.#context = context
    this.#records = records
    this.#freed = freed
    this.#ledger = new Ledger(context.folder, found.ledger.turn)
    this.#taken = new LowWaterMark(found.settled)
  }

  /** The place before which every record is settled. */
  get mark(): LogPosition {
    return this.#taken.mark
  }

  /** Whether the last write of the ledger succeeded. */
  get isSaved(): boolean {
    return this.#failure === ''
  }

  /** Registers a record that was taken. Call the returned function when the record is settled. */
  take(incoming: Incoming): () => void {
    const settle = this.#taken.add({ ...incoming.cursor, ...placeAfter(incoming) })
    return () => {
      settle()
      this.#unsavedBytes += incoming.bytes
      this.changed()
      this.#freed()
    }
  }

  /** Registers the settled ranges of a record. The other events of the record will not be settled in this run. */
  partly(ranges: readonly Range[]): void {
    if (ranges.length === 0) return
    this.#partly.push(...ranges)
    this.changed()
  }

  /** Schedules a ledger write. The write starts immediately if it frees segments, or if many bytes are settled. */
  changed(): void {
    this.#dirty = true
    if (this.#closed || this.#writing) return
    const isDue = this.#unsavedBytes >= MOST_UNSAVED || this.#passed().length > 0
    if (isDue && this.#failure === '') void this.#write()
    else this.#cancel ??= this.#context.clock.after(INTERVAL_MS, () => void this.#write())
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopTimer()
    await this.#writing
    if (this.#dirty || this.#passed().length > 0) await this.#write()
    await this.#ledger.close()
  }

  #write(): Promise<void> {
    this.#stopTimer()
    this.#writing ??= this.#save().finally(() => {
      this.#writing = undefined
      if (this.#dirty) this.changed()
    })
    return this.#writing
  }

  async #save(): Promise<void> {
    const { segments, end } = this.#records
    this.#dirty = false
    this.#unsavedBytes = 0
    const passed = this.#passed()
    const { segment, offset, event, byte } = this.#taken.mark
    const settled = { segment, offset, event, byte }
    const ahead = this.#ahead()
    const state: LedgerState = { settled, ahead: ahead.map(({ range }) => range), end, highest: segments.highest }
    const covered = ahead.flatMap(({ covers }) => covers)
    try {
      await this.#ledger.write(state)
      this.#report('')
    } catch (error) {
      this.#dirty = true
      this.#report(errorCode(error) ?? errorText(error))
      // Settled segments must be removed even on a full disk. The outdated ledger is removed first, because a restart
      // with it would report these segments' events as missing.
      if (passed.length === 0 || ahead.some(({ hasHole }) => hasHole) || !(await this.#ledger.remove())) return
      covered.length = 0
    }
    for (const old of [...passed, ...covered]) await this.#remove(old)
    if (passed.length > 0 || covered.length > 0) this.#freed()
  }

  get settledAhead(): readonly Amount[] {
    return [...this.#taken.ahead().map(([from, to]) => unsettled(from, to)), ...this.#records.settled]
  }

  /**
   * Settled ranges after the mark, for the ledger. The mark does not move while one request is retried. Even then,
   * these ranges allow segments to be removed, and a restart repeats fewer events.
   */
  #ahead(): readonly Ahead[] {
    const { segments, current, settled } = this.#records
    // A range within one segment has no hole. Of these ranges, the first ones suffice to fill the ledger.
    let left = MOST_RANGES
    const taken = this.#taken.ahead().filter(([from, to]) => to.segment > from.segment || left-- > 0)
    const ranges: Ahead[] = taken.map(([from, to]) => {
      const { event, byte, segment, offset } = to
      const within = segments.all.filter(({ number }) => number > from.segment && number <= segment)
      const place = { event: from.event, byte: from.byte }
      return {
        range: { place, ...unsettled(place, { event, byte }), cursor: { segment, offset } },
        covers: within.filter(one => one !== current && (one.number < segment || offset >= one.end)),
        hasHole: within.length < segment - from.segment,
      }
    })
    for (const range of settled) ranges.push({ range, covers: [], hasHole: true })
    for (const range of this.#partly) ranges.push({ range, covers: [], hasHole: false })
    const byNeed = (a: Ahead, b: Ahead) => Number(b.hasHole) - Number(a.hasHole) || inOrder(a, b)
    return ranges.sort(byNeed).slice(0, MOST_RANGES).sort(inOrder)
  }

  #passed(): Segment[] {
    const { segments, current } = this.#records
    const { segment, offset } = this.#taken.mark
    const passed = segments.before(segment)
    const at = segments.from(segment)
    if (at?.number === segment && offset >= at.end && at !== current) passed.push(at)
    return passed
  }

  async #remove(segment: Segment): Promise<void> {
    const { folder, log } = this.#context
    try {
      await this.#records.closeSegment(segment)
      await folder.remove(segment.name)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') {
        const file = `${folder.path}/${segment.name}`
        log.warn({ file, error: errorText(error) }, 'cannot remove a delivered file of the buffer')
      }
    }
    this.#records.segments.remove(segment)
  }

  #report(cause: string): void {
    if (this.#failure === cause) return
    this.#failure = cause
    const { folder, log } = this.#context
    const fields = { code: 'SLUICE_BUFFER_LEDGER_NOT_WRITTEN', folder: folder.path, cause }
    if (cause === '') log.info({ folder: folder.path }, 'the progress of the buffer can be saved again')
    else
      log.error(fields, 'cannot save the progress of the buffer; after a restart, delivered events are delivered again')
  }

  #stopTimer(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
}

const inOrder = (a: Ahead, b: Ahead) => a.range.place.event - b.range.place.event
