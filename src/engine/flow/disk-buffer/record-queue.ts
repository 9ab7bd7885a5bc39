import { LinkedList } from '../../../lib/linked-list.js'
import type { Amount } from '../counters.js'
import type { BufferFolder } from './files.js'
import { type Place, placeBehind } from './frame.js'
import type { Range } from './ledger.js'
import { type Recovered, unsettled } from './recovery.js'
import { type Incoming, type ReaderReport, SegmentReader } from './segment-reader.js'
import { type Outgoing, SegmentWriter } from './segment-writer.js'
import type { Segment, Segments } from './segments.js'

const NOTHING = Buffer.alloc(0)

/**
 * Connects the writing and the reading side. A reader that has caught up gets records from memory, otherwise from disk.
 * Invariants: records in memory directly follow the last one taken, without a gap, and are safe on disk. A record is
 * taken once. Records that an earlier run settled are taken as one empty record for each range of them.
 */
export class RecordQueue {
  readonly segments: Segments
  readonly #writer: SegmentWriter
  readonly #reader: SegmentReader
  readonly #recent = new LinkedList<Incoming>()
  #recentBytes = 0
  /** The place after the last record in memory. */
  #recentEnd: Place
  /** The place before which everything was taken. */
  #taken: Place
  /** What an earlier run settled and is not taken, in order. */
  readonly #settled: Incoming[]
  /** The record that was read from disk and not taken. */
  #peeked: Incoming | undefined

  constructor(folder: BufferFolder, found: Recovered, segmentBytes: number, report: ReaderReport) {
    const { segments, settled, end } = found
    this.segments = segments
    this.#writer = new SegmentWriter(folder, segments, end, segmentBytes)
    this.#reader = new SegmentReader(folder, segments, settled, {
      ...report,
      unreadable: async (segment, error) => {
        segments.remove(segment)
        if (segment === this.#writer.current) await this.#writer.finish()
        await report.unreadable(segment, error)
      },
    })
    this.#settled = found.ahead.map(range => ({ ...range, start: range.cursor, record: NOTHING, isSettled: true }))
    this.#taken = settled
    this.#recentEnd = settled
  }

  /** The end of the events that are safe on disk. */
  get end(): Place {
    return this.#writer.place
  }

  /** Events that are safe on disk and not taken. */
  get amount(): Amount {
    return unsettled(this.#taken, this.end, this.#settled)
  }

  /** What an earlier run settled and is not taken, in order. */
  get settled(): readonly Range[] {
    return this.#settled.map(({ place, events, bytes, cursor }) => ({ place, events, bytes, cursor }))
  }

  /** Whether there are events to take. */
  get behind(): boolean {
    return this.#taken.event < this.end.event
  }

  /** Memory of records that are not taken. */
  get memory(): number {
    return this.#recentBytes
  }

  /** The segment being written. */
  get current(): Segment | undefined {
    return this.#writer.current
  }

  /** Writes the first of `records`; resolves with their number. Keeps them in memory while there is `room`. */
  append(records: readonly Outgoing[], room: () => number): Promise<number> {
    // This must happen at the same moment: a later check could read from disk a record that also comes from memory.
    return this.#writer.append(records, written => {
      for (const incoming of written) {
        if (this.#recent.size === 0) this.#recentEnd = this.#taken
        if (incoming.place.event !== this.#recentEnd.event || room() < incoming.record.length) {
          incoming.release?.()
          continue
        }
        this.#recent.add(incoming)
        this.#recentBytes += incoming.record.length
        this.#recentEnd = placeBehind(incoming)
      }
    })
  }

  /** Returns the next record without taking it; undefined if there is none, or none that can be read. */
  async peek(): Promise<Incoming | undefined> {
    const recent = this.#recent.first
    if (recent || !this.behind) return recent
    const [settled] = this.#settled
    if (settled && settled.place.event <= this.#taken.event) return settled
    const incoming = await this.#reader.next(this.#taken)
    const isBefore = !settled || (incoming ? incoming.place.event < settled.place.event : !this.#reader.atEnd)
    if (isBefore) return (this.#peeked = incoming && before(incoming, settled))
    // What was before the settled ones is damaged.
    incoming?.release?.()
    return settled
  }

  /** Takes the record returned by `peek`. Returns the amount missing before it. */
  take(incoming: Incoming): Amount {
    const missing = unsettled(this.#taken, incoming.place, [])
    if (incoming.isSettled) this.#settled.shift()
    this.#peeked = undefined
    if (this.#recent.delete(incoming)) this.#recentBytes -= incoming.record.length
    this.#reader.moveTo(incoming.cursor)
    this.#taken = placeBehind(incoming)
    return missing
  }

  /** If nothing more can be read although records are missing, takes the missing amount as an empty record. */
  takeMissing(): Incoming | undefined {
    if (this.#recent.size > 0 || !this.behind || !this.#reader.atEnd) return undefined
    const place = this.#taken
    this.#taken = this.end
    const { cursor } = this.#reader
    return { record: NOTHING, place, ...unsettled(place, this.end, []), start: cursor, cursor }
  }

  /** Starts a new segment for later records. */
  finish(): Promise<void> {
    return this.#writer.finish()
  }

  /** Closes a segment that is about to be removed. */
  closeSegment(segment: Segment): Promise<void> {
    return this.#reader.closeSegment(segment)
  }

  async close(): Promise<void> {
    for (const { release } of this.#recent) release?.()
    this.#recent.clear()
    this.#peeked?.release?.()
    this.#peeked = undefined
    await this.#writer.finish()
    await this.#reader.close()
  }
}

/** The record without its events from `settled` on. */
function before(incoming: Incoming, settled: Range | undefined): Incoming {
  if (!settled || settled.place.event >= placeBehind(incoming).event) return incoming
  return { ...incoming, ...unsettled(incoming.place, settled.place, []), cursor: incoming.start }
}
