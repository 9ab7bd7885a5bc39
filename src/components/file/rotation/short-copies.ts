import { crc32 } from 'node:zlib'
import { fstatSync, readSync, withFile } from '../../../lib/files/disk/disk.js'
import {
  ALIKE_BYTES,
  begins,
  COPY_ONLY,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprint,
  fingerprintAt,
  keyOf,
  NO_BYTES,
  same,
} from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry } from '../saved.js'
import type { Candidate } from './copy.js'
import { FIRST_MARK, type Mark, type Trail } from './growth.js'
import { Inflated } from './inflated.js'
import { isStrong, type UnseenSibling } from './siblings.js'

type Place = UnseenSibling | Candidate

export interface ShortCopy {
  /** The position at its end. */
  readonly entry: Entry
  readonly of: Tailer
}

/**
 * Finds copies of files that were truncated which are shorter than what was read of them: lines were written, and read,
 * after the copy was made and before the truncation. `places`: files that nobody has read as far as is known. Returns
 * those that have nothing but what was read.
 */
export async function shortCopies(
  path: string,
  tailers: readonly Tailer[],
  places: readonly Place[],
): Promise<Map<Place, ShortCopy>> {
  const found = new Map<Place, ShortCopy>()
  for (const tailer of tailers) {
    if (!misses(tailer, path)) continue
    const { sought, growth } = tailer
    for (const place of places) {
      const size = sizeOf(place)
      if (found.has(place) || size > sought.offset) continue
      const ends = size < FIRST_MARK ? await endsOfSmall(place, size, growth.trail) : await endsOf(place, size, tailer)
      if (!ends) continue
      const position = { offset: size, continues: false, ...ends }
      found.set(place, { entry: { path: place.path, file: path, ...identityOf(place), ...position }, of: tailer })
      break
    }
  }
  return found
}

/** Whether it had the name when it was truncated, and no copy of it was found. */
function misses(tailer: Tailer, name: string): boolean {
  const { truncatedSince, origin, path, copy, copyKey } = tailer
  return truncatedSince !== undefined && origin.path === name && path === name && !copy && copyKey === undefined
}

function sizeOf(place: Place): number {
  return 'stat' in place ? Number(place.stat.size) : place.size
}

/** When it was written tells how long its position is kept. */
function identityOf(place: Place): Pick<Entry, 'dev' | 'ino' | 'birth' | 'gone' | 'away'> {
  if (!('stat' in place)) {
    const { changedAt } = place
    return { ...COPY_ONLY, birth: String(changedAt), gone: true, away: Number(changedAt) / 1e6 }
  }
  const { dev, ino, birthtimeNs, mtimeNs } = place.stat
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs), away: Number(mtimeNs) / 1e6 }
}

type Ends = Pick<Entry, 'head' | 'tail'>

/** What identifies its content; undefined if the file that was read did not begin with it. */
async function endsOf(place: Place, size: number, { sought: { head }, growth }: Tailer): Promise<Ends | undefined> {
  const mark = growth.trail.within(size)
  // Little of it may be the same in another file.
  if (!mark || !isStrong({ head, tail: mark.tail }) || !begins(place.first, head)) return undefined
  const tail = await ('stat' in place ? tailOfPlain(place, mark) : tailOfCompressed(place, mark))
  return tail && { head, tail }
}

/** The same for a copy that is compared whole. */
async function endsOfSmall(place: Place, size: number, trail: Trail): Promise<Ends | undefined> {
  if (size < ALIKE_BYTES) return undefined
  const head = fingerprint(place.first, 0, place.first.length)
  if (!('stat' in place)) {
    const tail = trail.began(size, place.crc) ? await tailOfCompressed(place) : undefined
    return tail && { head, tail }
  }
  return withKnown(place.path, keyOf(place.stat), fd => {
    const all = Buffer.alloc(size)
    if (readSync(fd, all, 0, size, 0) < size || !trail.began(size, crc32(all))) return undefined
    return { head, tail: fingerprint(all, Math.max(0, size - FINGERPRINT_BYTES), size) }
  })
}

/** The fingerprint of its last bytes; undefined if it does not have those of the mark. */
function tailOfPlain({ path, stat }: UnseenSibling, { offset, tail }: Mark): Fingerprint | undefined {
  return withKnown(path, keyOf(stat), fd => {
    if (!same(fingerprintAt(fd, offset - tail.bytes, offset), tail)) return undefined
    const size = Number(stat.size)
    return fingerprintAt(fd, size - FINGERPRINT_BYTES, size)
  })
}

async function tailOfCompressed({ path, key, size }: Candidate, mark?: Mark): Promise<Fingerprint | undefined> {
  const inflated = withKnown(path, key, fd => new Inflated(fd), true)
  if (!inflated) return undefined
  try {
    inflated.budget = Number.POSITIVE_INFINITY
    if (mark && !same(await lastUpTo(inflated, mark.offset), mark.tail)) return undefined
    const tail = await lastUpTo(inflated, size)
    return inflated.at === size ? tail : undefined
  } finally {
    inflated.close()
  }
}

async function lastUpTo(inflated: Inflated, to: number): Promise<Fingerprint> {
  await inflated.skip(to)
  if (inflated.at !== to) return NO_BYTES
  const room = Buffer.alloc(FINGERPRINT_BYTES)
  inflated.last(room)
  return fingerprint(room, 0, room.length)
}

/** Undefined if the file is gone, cannot be read, or is another one now. */
function withKnown<T>(path: string, key: string, use: (fd: number) => T, keeps?: boolean): T | undefined {
  return withFile(path, fd => (keyOf(fstatSync(fd, { bigint: true })) === key ? use(fd) : undefined), { keeps })
}
