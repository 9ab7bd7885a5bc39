import { CHUNK_BYTES } from '../../../lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, takeChunk } from '../../../lib/lines/chunk-pool.js'
import type { Linked } from '../../../lib/linked-list.js'
import type { BufferFile, BufferFolder } from './files.js'
import { HEAD_SIZE, type Head, isWhole, MARK, type Place, readHead } from './frame.js'
import { isForeign, type Segment, type Segments, TITLE } from './segments.js'

/** A reading position: before a record, or within damaged data. */
export interface Cursor {
  readonly segment: number
  readonly offset: number
}

/** A record that was read. */
export interface Incoming extends Linked<Incoming> {
  readonly record: Buffer
  readonly place: Place
  readonly events: number
  readonly bytes: number
  /** Events at the beginning of the record that do not count, because an earlier run settled them. */
  readonly skipped?: number
  /** Position of the record. */
  readonly start: Cursor
  /** Position where reading continues: after the record, or at its start if it has more events that count. */
  readonly cursor: Cursor
  /** Whether it stands for records that an earlier run settled, and is empty. */
  readonly isSettled?: boolean
  /** Releases the memory of the record, if it is pooled. Call once, when the record is no longer needed. */
  readonly release?: (() => void) | undefined
}

/** Callbacks for problems. */
export interface ReaderReport {
  /** Reports bytes that are not a record. */
  damaged(segment: Segment, offset: number, bytes: number): void
  /** Reports a segment that cannot be read; it must be removed from the list. */
  unreadable(segment: Segment, error: unknown): Promise<void>
  /** Reports a failed read. Resolves when the returned action is due. */
  failed(segment: Segment, error: unknown, failures: number): Promise<'again' | 'leave_out' | 'stop'>
}

const READ_SIZE = CHUNK_BYTES
const NO_BYTES: Buffer = Buffer.alloc(0)

/**
 * Reads the records of the segments in order, as far as they are safe on disk. Skips damaged data up to the next intact
 * record, and records that were passed before. Holds the memory of one read, or of one record.
 */
export class SegmentReader {
  readonly #folder: BufferFolder
  readonly #segments: Segments
  readonly #report: ReaderReport
  #cursor: Cursor
  #open: { readonly number: number; readonly file: BufferFile } | undefined
  /** Memory of the last read. */
  #chunk = NO_BYTES
  /** Bytes of the open segment, starting at #windowAt. */
  #window = NO_BYTES
  #windowAt = 0
  /** Start of the damage being skipped; -1 if none. */
  #damagedFrom = -1
  #stopped = false

  constructor(folder: BufferFolder, segments: Segments, cursor: Cursor, report: ReaderReport) {
    this.#folder = folder
    this.#segments = segments
    this.#cursor = cursor
    this.#report = report
  }

  get cursor(): Cursor {
    return this.#cursor
  }

  /** Whether everything that is safe on disk was read. */
  get atEnd(): boolean {
    const last = this.#segments.last
    if (!last || this.#cursor.segment > last.number) return true
    return this.#cursor.segment === last.number && this.#cursor.offset >= last.end
  }

  /** Continues reading at `cursor`. */
  moveTo(cursor: Cursor): void {
    this.#cursor = cursor
  }

  /** The next record at or after `expected`, or from there on if it is within the first record; undefined if none. */
  async next(expected: Place): Promise<Incoming | undefined> {
    for (;;) {
      const segment = this.#segments.from(this.#cursor.segment)
      if (!segment) return undefined
      if (segment.number !== this.#cursor.segment) this.#cursor = { segment: segment.number, offset: 0 }
      const incoming = await this.#nextOf(segment, expected)
      if (incoming || this.#stopped || this.atEnd) return incoming
      // A segment with a successor no longer grows.
      const isRead = this.#cursor.segment === segment.number && this.#cursor.offset >= segment.end
      if (isRead) this.#cursor = { segment: segment.number + 1, offset: 0 }
    }
  }

  /** Reads the next record of one segment, until the segment turns out to be unreadable. */
  async #nextOf(segment: Segment, expected: Place): Promise<Incoming | undefined> {
    for (let failures = 1; ; failures++) {
      try {
        return await this.#read(segment, expected)
      } catch (error) {
        await this.#close()
        const next = await this.#report.failed(segment, error, failures)
        if (next === 'again') continue
        if (next === 'stop') this.#stopped = true
        else await this.#report.unreadable(segment, error)
        this.#damagedFrom = -1
        return undefined
      }
    }
  }

  async #read(segment: Segment, expected: Place): Promise<Incoming | undefined> {
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
      // The header is intact and states how much to skip.
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
    if (isForeign(title)) throw new ForeignSegment(`${segment.name} was written by another version of sluice`)
    if (title.equals(TITLE)) this.#cursor = { segment: segment.number, offset: TITLE.length }
    else this.#damagedFrom = 0
  }

  async #headAt(segment: Segment, offset: number): Promise<Head | undefined> {
    if (offset + HEAD_SIZE > segment.end) return undefined
    return readHead(await this.#bytesAt(segment, offset, HEAD_SIZE), 0)
  }

  /** Skips from damaged data to the next mark. */
  async #stepOver(segment: Segment): Promise<void> {
    const { offset } = this.#cursor
    if (this.#damagedFrom < 0) this.#damagedFrom = offset
    for (let at = offset + 1; at < segment.end; ) {
      const bytes = await this.#bytesAt(segment, at, Math.min(MARK.length, segment.end - at))
      const found = bytes.indexOf(MARK)
      if (found >= 0) {
        this.#cursor = { segment: segment.number, offset: at + found }
        return
      }
      // A mark may begin in the last bytes.
      at = at + bytes.length >= segment.end ? segment.end : at + bytes.length - MARK.length + 1
    }
    this.#cursor = { segment: segment.number, offset: segment.end }
  }

  #endDamage(segment: Segment, offset: number): void {
    if (this.#damagedFrom < 0) return
    this.#report.damaged(segment, this.#damagedFrom, offset - this.#damagedFrom)
    this.#damagedFrom = -1
  }

  /** At least `size` bytes from `offset` on, or up to the end of the segment. */
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
      // Bytes missing at the end of the file count as damaged.
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
    if (this.#open && this.#open.number !== segment.number) await this.#close()
    this.#open ??= { number: segment.number, file: await this.#folder.open(segment.name) }
    return this.#open.file
  }

  async #close(): Promise<void> {
    const file = this.#open?.file
    this.#open = undefined
    this.#forget()
    await file?.close().catch(() => {})
  }

  #forget(): void {
    freeChunk(this.#chunk)
    this.#chunk = NO_BYTES
    this.#window = NO_BYTES
  }

  /** Closes a segment: a removed file occupies disk space while it is open. */
  async closeSegment({ number }: Segment): Promise<void> {
    if (this.#open?.number === number) await this.#close()
  }

  async close(): Promise<void> {
    await this.#close()
  }
}

/** A segment in another format. */
export class ForeignSegment extends Error {
  readonly code = 'SLUICE_BUFFER_FOREIGN'
}
