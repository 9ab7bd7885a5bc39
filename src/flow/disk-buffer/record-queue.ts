import { LinkedList } from '../../lib/linked-list.js'
import type { Amount } from '../counters.js'
import type { BufferFolder } from './files.js'
import { type Place, placeBehind } from './frame.js'
import type { Recovered } from './recovery.js'
import { type Incoming, type ReaderReport, SegmentReader } from './segment-reader.js'
import { type Outgoing, SegmentWriter } from './segment-writer.js'
import type { Segment, Segments } from './segments.js'

const NOTHING = Buffer.alloc(0)

/**
 * The records between the writing and the reading side. Whoever has caught up gets them from memory, as they were
 * written; otherwise from the disk. Invariants: what is in memory follows directly on what was taken last, without a
 * gap, and is safe on the disk; a record is taken once.
 */
export class RecordQueue {
  readonly segments: Segments
  readonly #writer: SegmentWriter
  readonly #reader: SegmentReader
  readonly #recent = new LinkedList<Incoming>()
  #recentBytes = 0
  /** Behind the last in memory. */
  #recentEnd: Place
  /** Before it, everything is taken. */
  #taken: Place

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
    this.#taken = settled
    this.#recentEnd = settled
  }

  /** Behind the last event that is safe on the disk. */
  get end(): Place {
    return this.#writer.place
  }

  /** What is safe on the disk and not taken. */
  get amount(): Amount {
    return between(this.#taken, this.end)
  }

  /** Whether there is something to take. */
  get behind(): boolean {
    return this.#taken.event < this.end.event
  }

  /** Memory of records that are not taken. */
  get memory(): number {
    return this.#recentBytes
  }

  /** The segment that is written to. */
  get current(): Segment | undefined {
    return this.#writer.current
  }

  /** Writes the first of `records`; resolves with how many, when they are safe. Keeps them in memory while there is `room`. */
  append(records: readonly Outgoing[], room: () => number): Promise<number> {
    // At the very moment: who looked a little later could read from the disk what comes from memory, too.
    return this.#writer.append(records, written => {
      for (const incoming of written) {
        if (this.#recent.size === 0) this.#recentEnd = this.#taken
        if (incoming.place.event !== this.#recentEnd.event || room() < incoming.record.length) {
          incoming.letGo?.()
          continue
        }
        this.#recent.add(incoming)
        this.#recentBytes += incoming.record.length
        this.#recentEnd = placeBehind(incoming)
      }
    })
  }

  /** The next record, without taking it; undefined when there is none, or none that can be read. */
  async peek(): Promise<Incoming | undefined> {
    const recent = this.#recent.first
    if (recent || !this.behind) return recent
    return await this.#reader.next(this.#taken)
  }

  /** Takes what `peek` gave; returns what is missing before it. */
  take(incoming: Incoming): Amount {
    const missing = between(this.#taken, incoming.place)
    if (this.#recent.delete(incoming)) this.#recentBytes -= incoming.record.length
    this.#reader.moveTo(incoming.cursor)
    this.#taken = placeBehind(incoming)
    return missing
  }

  /** Where nothing more can be read though there should be something: takes that, an empty record in its place. */
  takeMissing(): Incoming | undefined {
    if (this.#recent.size > 0 || !this.behind || !this.#reader.atEnd) return undefined
    const place = this.#taken
    this.#taken = this.end
    return { record: NOTHING, place, ...between(place, this.end), cursor: this.#reader.cursor }
  }

  /** What is written from now on goes into a new segment. */
  finish(): Promise<void> {
    return this.#writer.finish()
  }

  /** Lets go of a segment that is to be removed. */
  letGo(segment: Segment): Promise<void> {
    return this.#reader.letGo(segment)
  }

  async close(): Promise<void> {
    this.#recent.clear()
    await this.#writer.finish()
    await this.#reader.close()
  }
}

function between(from: Place, to: Place): Amount {
  return { events: to.event - from.event, bytes: to.byte - from.byte }
}
