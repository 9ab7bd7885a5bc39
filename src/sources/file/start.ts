import type { BigIntStats } from 'node:fs'
import { type BirthTimes, byteBefore, FINGERPRINT_BYTES, fingerprintAt, judge, type Verdict } from './identity.js'
import { emptyStart, type Position } from './positions.js'
import type { Entry, Saved } from './saved.js'

const LF = 0x0a

/** Whether the open file is still the one that the entry is about, content and all. */
export function judgeEntry(fd: number, stat: BigIntStats, entry: Entry, births: BirthTimes): Verdict {
  const { offset, head, tail, birth } = entry
  return judge(fd, stat, { offset, head, tail, birth: BigInt(birth) }, births)
}

/** Where to go on with a file that was read before. */
export function positionOf({ offset, continues, carry = 0, head, tail }: Entry): Position {
  return { offset, continues, carry, tail, content: { head } }
}

/** The same of the open file. More of its first bytes may be there by now. */
export function resumeOf(fd: number, entry: Entry): Position {
  return entry.offset === 0 ? beginningOf(fd) : positionOf(entry)
}

/** Where to begin with a file of which nothing is known. `fromEnd`: the options ask for it, and it may be that old. */
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

/** The first bytes are known at once: they may be gone before anything of them is delivered. */
export function beginningOf(fd: number): Position {
  return { ...emptyStart(), content: { head: fingerprintAt(fd, 0, FINGERPRINT_BYTES) } }
}

/** Whether the file was there when the source was first started. In doubt it was not: then it is read whole. */
function wasThere(stat: BigIntStats, path: string, saved: Saved, births: BirthTimes): boolean {
  if (saved.has(path) || saved.unreadable > 0) return false
  if (saved.savedAt === undefined) return true
  return births.kept(stat) && Number(stat.birthtimeMs) < saved.savedAt
}

/** The position at the end of what a file holds. */
function endOf(fd: number, size: number): Position {
  const before = byteBefore(fd, size)
  return {
    offset: size,
    continues: before !== undefined && before !== LF,
    carry: 0,
    tail: fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size),
    content: { head: fingerprintAt(fd, 0, Math.min(size, FINGERPRINT_BYTES)) },
  }
}
