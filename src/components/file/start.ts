import type { BigIntStats } from 'node:fs'
import { newReading } from '../../core/event/event-id.js'
import { type BirthTimes, byteBefore, FINGERPRINT_BYTES, fingerprint, fingerprintAt, firstBytes } from './identity.js'
import { emptyStart, type Position } from './positions.js'
import { Trail } from './rotation/trail.js'
import type { Entry, Saved } from './saved.js'
import type { Sweeps } from './sweeps.js'

const LF = 0x0a

/** The position at which to resume a file. */
export function positionOf({
  offset,
  continues,
  carry = 0,
  head,
  tail,
  marks = [],
  reading = newReading(),
}: Entry): Position {
  return { offset, continues, carry, tail, content: { head, reading }, marks }
}

/** The same for an open file, whose head may have grown. */
export function resumeOf(fd: number, entry: Entry): Position {
  return entry.offset === 0 ? beginningOf(fd, entry.reading) : positionOf(entry)
}

/** Where to start a file without a position. `fromEnd`: at its end, if it existed when the source first started. */
export function startOf(
  fd: number,
  stat: BigIntStats,
  path: string,
  fromEnd: boolean,
  saved: Saved,
  births: BirthTimes,
): Position {
  if (fromEnd && wasThere(stat, path, saved, births)) return endOf(fd, Number(stat.size))
  return beginningOf(fd)
}

/** Reads the head at once, because it may be gone before any line is delivered. */
export function beginningOf(fd: number, reading = newReading()): Position {
  const first = firstBytes(fd)
  const trail = new Trail()
  trail.begin(first)
  return { ...emptyStart(), content: { head: fingerprint(first, 0, first.length), reading }, marks: trail.marks }
}

/** Whether what a file without a position has was written before the source started. */
export function precedesStart(stat: BigIntStats, { isFirst, startedAt }: Sweeps): boolean {
  return isFirst || Number(stat.mtimeMs) < startedAt
}

/** Whether the file existed when the source first started. In doubt it did not, and is read completely. */
function wasThere(stat: BigIntStats, path: string, saved: Saved, births: BirthTimes): boolean {
  if (saved.has(path) || saved.unreadable > 0) return false
  if (saved.savedAt === undefined) return true
  return births.kept(stat) && Number(stat.birthtimeMs) < saved.savedAt
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
