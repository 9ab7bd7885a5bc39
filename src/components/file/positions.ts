import type { BigIntStats } from 'node:fs'
import { newReading } from '../../core/event/event-id.js'
import type { ReadFrom } from '../../core/event/sent-offsets.js'
import type { Reach } from '../../core/options/reach.js'
import { type Frame, LINE_END } from '../../lib/lines/line-splitter.js'
import {
  byteBefore,
  CLOCK_MS,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprint,
  fingerprintAt,
  firstBytes,
  keyOf,
  NO_BYTES,
} from './identity.js'
import { openWithinSync } from './opening.js'
import { withKnown } from './rotation/candidates.js'
import type { Listed } from './rotation/owners.js'
import type { Mark } from './rotation/trail.js'
import { FIRST_MARK, Trail } from './rotation/trail.js'
import type { Entry, Saved } from './saved.js'

const LF = 0x0a

/** The content of a file between two truncations. `head` grows until it covers FINGERPRINT_BYTES. */
export interface Content {
  head: Fingerprint
  /** Identifies this content in event ids. */
  readonly reading: string
}

/** The offset up to which a file was delivered. A position is never within an undelivered line. */
export interface Position {
  readonly offset: number
  /** Whether the beginning of the line at this position was delivered. */
  readonly continues: boolean
  /** State of the splitter at this position (lib/lines/record-splitter.ts). */
  readonly carry: number
  readonly tail: Fingerprint
  readonly content: Content
  /** Marks before the position, saved by an earlier run. */
  readonly marks?: readonly Mark[]
}

export function emptyStart(reading = newReading()): Position {
  return { offset: 0, continues: false, carry: 0, tail: NO_BYTES, content: { head: NO_BYTES, reading } }
}

export function positionOf({
  offset,
  continues,
  carry = 0,
  head,
  tail,
  marks = [],
  reading = newReading(),
}: Entry): Position {
  // `Trail.saved` leaves out the mark at the position. Add it, because a copy may end there.
  const trail = new Trail(marks)
  if (offset < FIRST_MARK && tail.bytes === Math.min(offset, FINGERPRINT_BYTES)) trail.insert({ offset, tail })
  return { offset, continues, carry, tail, content: { head, reading }, marks: trail.marks }
}

/** Like `positionOf`, for an open file whose head may have grown. */
export function resumeOf(fd: number, entry: Entry): Position {
  if (entry.offset === 0) return beginningOf(fd, entry.reading)
  // The file could not be opened when its position was saved.
  return entry.head.bytes === 0 ? endOf(fd, entry.offset) : positionOf(entry)
}

/** Like `resumeOf`, for the file at `place`. Undefined if the file must be opened for this, and cannot be opened. */
export function restOf({ path, stat }: Listed, entry: Entry, reach: Reach | undefined): Position | undefined {
  if (entry.head.bytes > 0 || entry.offset === 0) return positionOf(entry)
  const options = { keeps: false, open: (at: string) => openWithinSync(reach, at) }
  return withKnown(path, keyOf(stat), fd => resumeOf(fd, entry), options)
}

/**
 * The position at which to start a file that has no saved position. With `fromEnd`, this is the end if the file existed
 * when the source first started.
 */
export function startOf(fd: number, stat: BigIntStats, path: string, fromEnd: boolean, saved: Saved): Position {
  if (fromEnd && wasThere(stat, path, saved)) return endOf(fd, Number(stat.size))
  return beginningOf(fd)
}

/** The position at the beginning of a file. Reads the head now, because the content may be gone before delivery. */
export function beginningOf(fd: number, reading = newReading()): Position {
  const first = firstBytes(fd)
  const trail = new Trail()
  trail.begin(first)
  const start = emptyStart(reading)
  start.content.head = fingerprint(first, 0, first.length)
  return { ...start, marks: trail.marks }
}

/**
 * Whether the file existed when the source first started. In doubt, returns false, so that the file is read completely.
 */
export function wasThere(stat: BigIntStats, path: string, saved: Saved): boolean {
  if (saved.has(path) || saved.unreadable > 0) return false
  if (saved.savedAt === undefined) return true
  return stat.birthtimeNs !== 0n && Number(stat.birthtimeNs) / 1e6 < saved.lookedAt! - CLOCK_MS
}

function endOf(fd: number, size: number): Position {
  const before = byteBefore(fd, size)
  return {
    offset: size,
    continues: before !== undefined && before !== LF,
    carry: 0,
    tail: fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size),
    content: { head: fingerprintAt(fd, 0, Math.min(size, FINGERPRINT_BYTES)), reading: newReading() },
  }
}

/**
 * Returns a function that finds the position of an event from the number of bytes before it in the frame; undefined if
 * the lines in the file and the frame differ. The position has no tail, because the bytes of the tail may be gone
 * later. The head is enough to identify the file. The function does not keep the frame, because its columns may be
 * gone, too.
 */
export function positionsIn(frame: Frame, from: Position, to: Position): ((before: number) => Position) | undefined {
  const { length, bytes, isRun } = frame
  if (!isRun || length === 1 || from.continues || to.offset - from.offset !== bytes) return undefined
  const { content } = to
  return before => ({ offset: from.offset + before, continues: false, carry: 0, tail: NO_BYTES, content })
}

/**
 * The place in the content at which a frame that ends at `to` begins. Undefined if the lines in the file and in the
 * frame differ.
 */
export function readFrom({ bytes, length, starts, ends, flags, read }: Frame, to: Position): ReadFrom | undefined {
  const span = ends[length - 1]! + (flags[length - 1]! & LINE_END) - starts[0]!
  // Skipped bytes, such as a byte order mark, are before the first line.
  if ((read && !read.starts) || span !== bytes) return undefined
  return { reading: to.content.reading, at: to.offset - bytes, ...(read?.starts && { lines: read.starts }) }
}
