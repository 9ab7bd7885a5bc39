import type { BufferFile, BufferFolder } from './files.js'
import { HEAD_SIZE, type Place, placeBehind, seal } from './frame.js'
import type { Incoming } from './segment-reader.js'
import { type Segment, type Segments, TITLE } from './segments.js'

/** A record to write: its bytes, with room for the header, and their amount. */
export interface Outgoing {
  readonly framed: Buffer
  readonly events: number
  readonly bytes: number
  /** Releases the memory of the record. */
  readonly release: () => void
  /** Set at the moment when the writer's place moves past it. */
  isSafe: boolean
}

interface Open {
  readonly segment: Segment
  readonly file: BufferFile
}

/**
 * Appends records to the newest segment. Invariants: when `append` resolves, the records and the names of their files
 * are synced. Records for which it rejected do not count, and are cut off if possible. After any failure a new segment
 * is started, because the state of the old one after its last sync is unknown.
 */
export class SegmentWriter {
  readonly #folder: BufferFolder
  readonly #segments: Segments
  readonly #segmentBytes: number
  #place: Place
  #open: Open | undefined
  #made = false

  constructor(folder: BufferFolder, segments: Segments, place: Place, segmentBytes: number) {
    this.#folder = folder
    this.#segments = segments
    this.#place = place
    this.#segmentBytes = segmentBytes
  }

  /** The end of all records that are safe on disk. */
  get place(): Place {
    return this.#place
  }

  /** The segment being written. */
  get current(): Segment | undefined {
    return this.#open?.segment
  }

  /**
   * Writes the first of `records`, as many as fit in the segment. Resolves with their number when they are safe. Calls
   * `safe` with them when the place moves past them; `safe` is responsible for releasing their memory.
   */
  async append(records: readonly Outgoing[], safe: (written: readonly Incoming[]) => void): Promise<number> {
    const open = (this.#open ??= await this.#begin())
    const { segment, file } = open
    const parts: Buffer[] = segment.end === 0 ? [TITLE] : []
    const written: Incoming[] = []
    let offset = segment.end === 0 ? TITLE.length : segment.end
    let place = this.#place
    for (const { framed, events, bytes, release } of records) {
      if (written.length > 0 && offset >= this.#segmentBytes) break
      seal(framed, place, events, bytes)
      parts.push(framed)
      const start = { segment: segment.number, offset }
      offset += framed.length
      const cursor = { segment: segment.number, offset }
      written.push({ record: framed.subarray(HEAD_SIZE), place, events, bytes, start, cursor, release })
      place = placeBehind({ place, events, bytes })
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
    if (segment.end === 0) this.#segments.add(segment)
    segment.end = offset
    this.#place = place
    for (let i = 0; i < written.length; i++) records[i]!.isSafe = true
    safe(written)
    if (offset >= this.#segmentBytes) await this.finish()
    return written.length
  }

  async #begin(): Promise<Open> {
    const segment = this.#segments.next()
    try {
      if (!this.#made) await this.#folder.make()
      this.#made = true
      return { segment, file: await this.#folder.create(segment.name) }
    } catch (error) {
      this.#made = false
      throw error
    }
  }

  /** Closes a segment after a failed write. Bytes after its last sync are cut off, and it is not written again. */
  async #abandon({ segment, file }: Open): Promise<void> {
    this.#open = undefined
    if (segment.end > 0) await file.truncate(segment.end).catch(() => {})
    await file.close().catch(() => {})
    if (segment.end === 0) await this.#folder.remove(segment.name).catch(() => {})
  }

  /** Finishes the segment; later records go into a new one. */
  async finish(): Promise<void> {
    const file = this.#open?.file
    this.#open = undefined
    // Everything is synced, so an error here does not matter.
    await file?.close().catch(() => {})
  }
}
