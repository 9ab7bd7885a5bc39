import { CHUNK_BYTES } from '../../../lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, takeChunk } from '../../../lib/lines/chunk-pool.js'
import { LinkedList } from '../../../lib/linked-list.js'
import type { Amount } from '../counters.js'
import type { BufferFile, BufferFolder } from './files.js'
import type { Incoming, Range, RecordCursor } from './incoming.js'
import type { Recovered } from './ledger.js'
import {
  HEAD_SIZE,
  isWhole,
  type LogPosition,
  placeAfter,
  RECORD_MARK,
  type RecordHead,
  readRecordHead,
  type Segment,
  type Segments,
  seal,
  TITLE,
  unsettled,
} from './segments.js'

export interface ReadProblems {
  /** Reports bytes that are not a record. */
  damaged(segment: Segment, offset: number, bytes: number): void
  /** Reports a segment that cannot be read. The segment was already removed from the list of segments. */
  unreadable(segment: Segment, error: unknown): Promise<unknown>
  /** Reports a failed read. Waits if necessary, then resolves with the next action. */
  failed(segment: Segment, error: unknown, failures: number): Promise<'again' | 'leave_out' | 'stop'>
}

const READ_SIZE = CHUNK_BYTES
const NOTHING: Buffer = Buffer.alloc(0)

/**
 * Reads the records of the segments in order, up to the last one that is safe on disk. Skips records that were passed
 * on before, and damaged data up to the next intact record. Keeps only the bytes of one read or record in memory.
 */
export class SegmentReader {
  readonly #folder: BufferFolder
  readonly #segments: Segments
  readonly #problems: ReadProblems
  #cursor: RecordCursor
  #open: { readonly number: number; readonly file: BufferFile } | undefined
  /** The chunk that holds the bytes of the last read. */
  #chunk = NOTHING
  /** Bytes of the open segment from #windowAt on. */
  #window = NOTHING
  #windowAt = 0
  /** The start of the damaged data that is being skipped; -1 if no data is skipped. */
  #damagedFrom = -1
  #stopped = false

  constructor(folder: BufferFolder, segments: Segments, cursor: RecordCursor, problems: ReadProblems) {
    this.#folder = folder
    this.#segments = segments
    this.#cursor = cursor
    this.#problems = problems
  }

  get cursor(): RecordCursor {
    return this.#cursor
  }

  /** Whether all data safe on disk was read. */
  get atEnd(): boolean {
    const last = this.#segments.last
    if (!last || this.#cursor.segment > last.number) return true
    return this.#cursor.segment === last.number && this.#cursor.offset >= last.end
  }

  moveTo(cursor: RecordCursor): void {
    this.#cursor = cursor
  }

  /**
   * The next record at or after the place `expected`. If `expected` is within a record, the part of that record from
   * `expected` on. Undefined if no such record exists.
   */
  async next(expected: LogPosition): Promise<Incoming | undefined> {
    for (;;) {
      const segment = this.#segments.from(this.#cursor.segment)
      if (!segment) return undefined
      if (segment.number !== this.#cursor.segment) this.#cursor = { segment: segment.number, offset: 0 }
      const incoming = await this.#nextOf(segment, expected)
      if (incoming || this.#stopped || this.atEnd) return incoming
      // A segment no longer grows once a later segment exists.
      const isRead = this.#cursor.segment === segment.number && this.#cursor.offset >= segment.end
      if (isRead) this.#cursor = { segment: segment.number + 1, offset: 0 }
    }
  }

  /** Reads the next record of one segment; undefined if the segment has none or is unreadable. */
  async #nextOf(segment: Segment, expected: LogPosition): Promise<Incoming | undefined> {
    for (let failures = 1; ; failures++) {
      try {
        return await this.#read(segment, expected)
      } catch (error) {
        await this.close()
        const next = await this.#problems.failed(segment, error, failures)
        if (next === 'again') continue
        if (next === 'stop') this.#stopped = true
        else {
          this.#segments.remove(segment)
          await this.#problems.unreadable(segment, error)
        }
        this.#damagedFrom = -1
        return undefined
      }
    }
  }

  async #read(segment: Segment, expected: LogPosition): Promise<Incoming | undefined> {
    const { offset: from } = this.#cursor
    while (this.#cursor.offset < segment.end) {
      const { offset } = this.#cursor
      if (offset === 0 && this.#damagedFrom < 0) {
        await this.#readTitle(segment)
        continue
      }
      const head = await this.#headAt(segment, offset)
      const behind = head ? offset + HEAD_SIZE + head.size : segment.end + 1
      if (!head || behind > segment.end) {
        await this.#stepOver(segment)
        continue
      }
      const bytes = await this.#bytesAt(segment, offset, HEAD_SIZE + head.size)
      const record = bytes.subarray(HEAD_SIZE, HEAD_SIZE + head.size)
      const whole = isWhole(head, record)
      // The record is damaged, but its header is intact and says how much to skip.
      if (!whole) this.#damagedFrom = this.#damagedFrom < 0 ? offset : this.#damagedFrom
      else this.#endDamage(segment, offset)
      this.#cursor = { segment: segment.number, offset: behind }
      const skipped = offset === from ? Math.max(0, expected.event - head.place.event) : 0
      const isNext = head.place.event >= expected.event || (skipped > 0 && skipped < head.events)
      if (whole && isNext && head.place.event < this.#segments.limitOf(segment)) {
        const place = skipped > 0 ? expected : head.place
        const bytes = head.bytes - (place.byte - head.place.byte)
        const [start, cursor, release] = [{ segment: segment.number, offset }, this.#cursor, holdChunk(this.#chunk)]
        return { record, place, events: head.events - skipped, bytes, skipped, start, cursor, release }
      }
    }
    this.#endDamage(segment, segment.end)
    return undefined
  }

  async #readTitle(segment: Segment): Promise<void> {
    const title = (await this.#bytesAt(segment, 0, TITLE.length)).subarray(0, TITLE.length)
    if (title.equals(TITLE)) this.#cursor = { segment: segment.number, offset: TITLE.length }
    else this.#damagedFrom = 0
  }

  async #headAt(segment: Segment, offset: number): Promise<RecordHead | undefined> {
    if (offset + HEAD_SIZE > segment.end) return undefined
    return readRecordHead(await this.#bytesAt(segment, offset, HEAD_SIZE), 0)
  }

  /** Skips damaged data up to the next mark. */
  async #stepOver(segment: Segment): Promise<void> {
    const { offset } = this.#cursor
    if (this.#damagedFrom < 0) this.#damagedFrom = offset
    for (let at = offset + 1; at < segment.end; ) {
      const bytes = await this.#bytesAt(segment, at, Math.min(RECORD_MARK.length, segment.end - at))
      const found = bytes.indexOf(RECORD_MARK)
      if (found >= 0) {
        this.#cursor = { segment: segment.number, offset: at + found }
        return
      }
      // The last bytes of this read may be the beginning of a mark.
      at = at + bytes.length >= segment.end ? segment.end : at + bytes.length - RECORD_MARK.length + 1
    }
    this.#cursor = { segment: segment.number, offset: segment.end }
  }

  #endDamage(segment: Segment, offset: number): void {
    if (this.#damagedFrom < 0) return
    this.#problems.damaged(segment, this.#damagedFrom, offset - this.#damagedFrom)
    this.#damagedFrom = -1
  }

  /** At least `size` bytes from `offset` on; fewer at the end of the segment. */
  async #bytesAt(segment: Segment, offset: number, size: number): Promise<Buffer> {
    const from = offset - this.#windowAt
    if (this.#open?.number === segment.number && from >= 0 && from + size <= this.#window.length) {
      return this.#window.subarray(from)
    }
    const file = await this.#fileOf(segment)
    const want = Math.min(Math.max(size, READ_SIZE), segment.end - offset)
    this.#forget()
    const chunk = takeChunk(want)
    const window = chunk.subarray(0, want)
    try {
      // If the file is too short, zeros replace the missing bytes, and count as damage.
      window.fill(0, await file.read(window, offset))
    } catch (error) {
      freeChunk(chunk)
      throw error
    }
    this.#chunk = chunk
    this.#window = window
    this.#windowAt = offset
    return this.#window
  }

  async #fileOf(segment: Segment): Promise<BufferFile> {
    if (this.#open && this.#open.number !== segment.number) await this.close()
    this.#open ??= { number: segment.number, file: await this.#folder.open(segment.name) }
    return this.#open.file
  }

  async close(): Promise<void> {
    const file = this.#open?.file
    this.#open = undefined
    this.#forget()
    await file?.close().catch(() => {})
  }

  #forget(): void {
    freeChunk(this.#chunk)
    this.#chunk = NOTHING
    this.#window = NOTHING
  }

  /** Closes the file of a segment. An open file occupies disk space even after the file was removed. */
  async closeSegment({ number }: Segment): Promise<void> {
    if (this.#open?.number === number) await this.close()
  }
}

/** A record to write. `framed`: room for the header, then the record. `bytes`: size of the lines in the record. */
export interface Outgoing {
  readonly framed: Buffer
  readonly events: number
  readonly bytes: number
  readonly release: () => void
}

interface Open {
  readonly segment: Segment
  readonly file: BufferFile
}

/**
 * The records of a buffer. New records are appended to the newest segment, and records are taken in order. They come
 * from memory if the reader has caught up, otherwise from disk. Invariants:
 * - When `append` resolves, the records and the names of their files are synced. If it rejects, the records do not
 *   count, and are cut off if possible. After any failure a new segment begins, since it is unknown what the old
 *   segment contains after its last sync.
 * - Records in memory directly follow the last one taken, and are safe on disk.
 * - A record is taken once. Each range that an earlier run settled is read as one empty record.
 */
export class RecordLog {
  readonly segments: Segments
  readonly #folder: BufferFolder
  readonly #segmentBytes: number
  readonly #reader: SegmentReader
  #open: Open | undefined
  #hasFolder = false
  #end: LogPosition
  readonly #recent = new LinkedList<Incoming>()
  #recentBytes = 0
  /** The place after the last record in memory. */
  #recentEnd: LogPosition
  /** Everything before this place was taken. */
  #taken: LogPosition
  readonly #settled: Incoming[]
  /** The record that was read from disk but not taken. */
  #peeked: Incoming | undefined

  constructor(folder: BufferFolder, found: Recovered, segmentBytes: number, problems: ReadProblems) {
    const { segments, settled, end } = found
    this.segments = segments
    this.#folder = folder
    this.#segmentBytes = segmentBytes
    this.#end = end
    this.#reader = new SegmentReader(folder, segments, settled, problems)
    this.#settled = found.ahead.map(range => ({ ...range, start: range.cursor, record: NOTHING, isSettled: true }))
    this.#taken = settled
    this.#recentEnd = settled
  }

  /** The place after the last event that is safe on disk. */
  get end(): LogPosition {
    return this.#end
  }

  /** Events that are safe on disk but not taken. */
  get amount(): Amount {
    return unsettled(this.#taken, this.#end, this.#settled)
  }

  /** Ranges that an earlier run settled and that have not been taken in this run, in order. */
  get settled(): readonly Range[] {
    return this.#settled.map(({ place, events, bytes, cursor }) => ({ place, events, bytes, cursor }))
  }

  /** Whether there are events to take. */
  get behind(): boolean {
    return this.#taken.event < this.#end.event
  }

  /** Bytes of the records in memory, without taken ones. */
  get memory(): number {
    return this.#recentBytes
  }

  /** The segment being written. */
  get current(): Segment | undefined {
    return this.#open?.segment
  }

  /**
   * Writes records from the beginning of `waiting`, until `most` records are written or the segment is full. When the
   * written records are safe on disk, removes them from `waiting` and resolves with them. Also keeps these records in
   * memory, while `room` returns enough bytes.
   */
  async append<T extends Outgoing>(waiting: T[], most: number, room: () => number): Promise<T[]> {
    const open = (this.#open ??= await this.#begin())
    const { segment, file } = open
    const parts: Buffer[] = segment.end === 0 ? [TITLE] : []
    const written: Incoming[] = []
    let offset = segment.end === 0 ? TITLE.length : segment.end
    let place = this.#end
    for (const { framed, events, bytes, release } of waiting) {
      if (written.length === most || (written.length > 0 && offset >= this.#segmentBytes)) break
      seal(framed, place, events, bytes)
      parts.push(framed)
      const start = { segment: segment.number, offset }
      offset += framed.length
      const cursor = { segment: segment.number, offset }
      written.push({ record: framed.subarray(HEAD_SIZE), place, events, bytes, start, cursor, release })
      place = placeAfter({ place, events, bytes })
    }
    try {
      await file.write(parts, segment.end)
      await file.sync()
      if (segment.end === 0) await this.#folder.sync()
      if (this.#open !== open) throw new Error('the segment was renamed while it was being written')
    } catch (error) {
      await this.#abandon(open)
      throw error
    }
    // These changes are synchronous, because a read between them could take from disk a record that is also in memory.
    if (segment.end === 0) this.segments.add(segment)
    segment.end = offset
    this.#end = place
    for (const incoming of written) this.#keep(incoming, room)
    const safe = waiting.splice(0, written.length)
    if (offset >= this.#segmentBytes) await this.finish()
    return safe
  }

  async #begin(): Promise<Open> {
    const segment = this.segments.next()
    try {
      if (!this.#hasFolder) await this.#folder.make()
      this.#hasFolder = true
      return { segment, file: await this.#folder.create(segment.name) }
    } catch (error) {
      this.#hasFolder = false
      throw error
    }
  }

  /** Closes a segment after a failed write, cuts off the bytes after the last sync, and never writes to it again. */
  async #abandon({ segment, file }: Open): Promise<void> {
    this.#open = undefined
    if (segment.end > 0) await file.truncate(segment.end).catch(() => {})
    await file.close().catch(() => {})
    if (segment.end === 0) await this.#folder.remove(segment.name).catch(() => {})
  }

  /** Keeps a written record in memory, if there is room and the record directly follows the last record in memory. */
  #keep(incoming: Incoming, room: () => number): void {
    if (this.#recent.size === 0) this.#recentEnd = this.#taken
    if (incoming.place.event !== this.#recentEnd.event || room() < incoming.record.length) {
      incoming.release?.()
      return
    }
    this.#recent.add(incoming)
    this.#recentBytes += incoming.record.length
    this.#recentEnd = placeAfter(incoming)
  }

  /** Finishes the segment. Later records go into a new segment. */
  async finish(): Promise<void> {
    const file = this.#open?.file
    this.#open = undefined
    // Everything is synced, so an error here does not matter.
    await file?.close().catch(() => {})
  }

  /** Returns the next record without taking it; undefined if no readable record is left. */
  async peek(): Promise<Incoming | undefined> {
    const recent = this.#recent.first
    if (recent || !this.behind) return recent
    const [settled] = this.#settled
    if (settled && settled.place.event <= this.#taken.event) return settled
    const incoming = await this.#reader.next(this.#taken)
    const isBefore = !settled || (incoming ? incoming.place.event < settled.place.event : !this.#reader.atEnd)
    if (isBefore) return (this.#peeked = incoming && before(incoming, settled))
    // The records before the settled range are damaged.
    incoming?.release?.()
    return settled
  }

  /** Takes the record that `peek` returned. Returns how many events are missing before this record. */
  take(incoming: Incoming): Amount {
    const missing = unsettled(this.#taken, incoming.place)
    if (incoming.isSettled) this.#settled.shift()
    this.#peeked = undefined
    if (this.#recent.delete(incoming)) this.#recentBytes -= incoming.record.length
    this.#reader.moveTo(incoming.cursor)
    this.#taken = placeAfter(incoming)
    return missing
  }

  /** If events are missing but no more records can be read, takes the missing events as one empty record. */
  takeMissing(): Incoming | undefined {
    if (this.#recent.size > 0 || !this.behind || !this.#reader.atEnd) return undefined
    const place = this.#taken
    this.#taken = this.#end
    const { cursor } = this.#reader
    return { record: NOTHING, place, ...unsettled(place, this.#end), start: cursor, cursor }
  }

  closeSegment(segment: Segment): Promise<void> {
    return this.#reader.closeSegment(segment)
  }

  async close(): Promise<void> {
    for (const { release } of this.#recent) release?.()
    this.#recent.clear()
    this.#peeked?.release?.()
    this.#peeked = undefined
    await this.finish()
    await this.#reader.close()
  }
}

/** The part of the record before the range `settled`. */
function before(incoming: Incoming, settled: Range | undefined): Incoming {
  if (!settled || settled.place.event >= placeAfter(incoming).event) return incoming
  return { ...incoming, ...unsettled(incoming.place, settled.place), cursor: incoming.start }
}
