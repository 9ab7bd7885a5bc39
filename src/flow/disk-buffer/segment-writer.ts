import type { BufferFile, BufferFolder } from './files.js'
import { HEAD_SIZE, type Place, placeBehind, seal } from './frame.js'
import type { Incoming } from './segment-reader.js'
import { type Segment, type Segments, TITLE } from './segments.js'

/** A record to be written: its bytes with room for the head in front, and what it is of. */
export interface Outgoing {
  readonly framed: Buffer
  readonly events: number
  readonly bytes: number
  /** Its memory can be used again. */
  readonly letGo: () => void
  /** Set at the same moment that the writer's place moves behind it. */
  isSafe: boolean
}

interface Open {
  readonly segment: Segment
  readonly file: BufferFile
}

/**
 * Appends records to the newest segment. Invariants: what `append` resolved for is synced, the names of its files
 * too; what it rejected for does not count, and is cut off where that is possible. After any failure a new segment is
 * begun, since what the disk keeps of the old one behind its last sync is not known.
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

  /** Behind all that is safe on the disk. */
  get place(): Place {
    return this.#place
  }

  /** The segment that is written to. */
  get current(): Segment | undefined {
    return this.#open?.segment
  }

  /**
   * Writes the first of `records`, as many as fit in the segment; resolves with how many, when they are safe. `safe` is called with
   * them at the moment that the place moves behind them; it lets go of them, or sees to it that somebody does.
   */
  async append(records: readonly Outgoing[], safe: (written: readonly Incoming[]) => void): Promise<number> {
    const open = (this.#open ??= await this.#begin())
    const { segment, file } = open
    const parts: Buffer[] = segment.end === 0 ? [TITLE] : []
    const written: Incoming[] = []
    let offset = segment.end === 0 ? TITLE.length : segment.end
    let place = this.#place
    for (const { framed, events, bytes, letGo } of records) {
      if (written.length > 0 && offset >= this.#segmentBytes) break
      seal(framed, place, events, bytes)
      parts.push(framed)
      offset += framed.length
      const cursor = { segment: segment.number, offset }
      written.push({ record: framed.subarray(HEAD_SIZE), place, events, bytes, cursor, letGo })
      place = placeBehind({ place, events, bytes })
    }
    try {
      await file.write(parts, segment.end)
      await file.sync()
      if (segment.end === 0) await this.#folder.sync()
      if (this.#open !== open) throw new Error('the segment was set aside while it was written to')
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

  /** Lets go of a segment that a write failed in: what is behind its last sync goes, and it is not written to again. */
  async #abandon({ segment, file }: Open): Promise<void> {
    this.#open = undefined
    if (segment.end > 0) await file.truncate(segment.end).catch(() => {})
    await file.close().catch(() => {})
    if (segment.end === 0) await this.#folder.remove(segment.name).catch(() => {})
  }

  /** Ends the segment: what follows goes into a new one. */
  async finish(): Promise<void> {
    const file = this.#open?.file
    this.#open = undefined
    // All of it is synced: an error says nothing about that.
    await file?.close().catch(() => {})
  }
}
