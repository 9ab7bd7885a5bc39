import { basename } from 'node:path'
import { lacksDescriptor } from '../../../core/errors.js'
import { fstatSync, openToRead, orNone } from '../../../lib/files/disk/disk.js'
import { CLOCK_MS, FINGERPRINT_BYTES, type Fingerprint, fingerprintAt, firstBytes } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry } from '../saved.js'
import { withKnown } from './candidates.js'
import type { MatchedFile } from './match.js'
import type { Listed } from './owners.js'
import type { Mark } from './trail.js'
import { Trail } from './trail.js'

/** An original is truncated right after it was copied. If this takes longer, a similar file is not a copy. */
export const TWIN_MS = 10_000

/** A known file, which has a tailer or only a saved position. */
export interface Subject extends MatchedFile {
  readonly tailer?: Tailer
  readonly entry?: Entry
}

export function nameOfEntry({ file, path }: Entry): string {
  return file ?? path
}

/** Birth time; 0 for a file found to be a copy, because its content and other copies may be older than the file. */
function bornAt(birth: bigint | string, key: string, claimed: string | undefined): number {
  return `${key}:`.startsWith(`${claimed}:`) ? 0 : Number(birth) / 1e6
}

/** Describes a tailer that does not read a compressed copy. `there`: where the tailer's file was found. */
export function ofTailer(tailer: Tailer, there?: Listed): Subject {
  const { origin, path, birth, changedAt, uid, fd, head, at, tail, trail, claimed, truncatedSince } = tailer
  const position = { offset: at, tail }
  // When `size` or `markIn` is called, the file may be closed, and the descriptor may belong to another file.
  const read: Read = use =>
    fd !== undefined && tailer.fd === fd ? orNone(() => use(fd)) : there && withClosed(there.path, tailer.key, use)
  const known: Content = { isThere: false, size: () => Math.max(tailer.size, at), ...marksOf(position, head, trail) }
  return {
    tailer,
    names: [basename(origin.path ?? path), basename(path)],
    isNamed: there?.path === origin.path || truncatedSince !== undefined,
    // A copy may have kept the time of its original, which is before the birth of the copy.
    birth: Math.min(bornAt(birth, tailer.key, claimed), Number(changedAt) / 1e6),
    uids: new Set([uid]),
    head,
    position,
    since: truncatedSince,
    claimed,
    ...(fd !== undefined || there ? whole(read, known, there !== undefined) : known),
  }
}

export function ofEntry(entry: Entry, lookedAt: number | undefined, there?: Listed): Subject {
  const { dev, ino, birth, uid, offset, size = offset, head, tail, path, claimed, marks = [] } = entry
  const { sure = lookedAt } = entry
  const since = sure && sure - CLOCK_MS
  const position = { offset, tail }
  const known: Content = { isThere: false, size: () => size, ...marksOf(position, head, new Trail(marks)) }
  return {
    entry,
    names: [basename(nameOfEntry(entry)), basename(path)],
    birth: bornAt(birth, `${dev}:${ino}`, claimed),
    uids: new Set([uid]),
    head,
    position,
    since,
    // At the time `since`, the file may already have been copied and not yet truncated.
    notBefore: since && since - TWIN_MS,
    claimed,
    ...(there ? whole(use => withClosed(there.path, there.key, use), known, true) : known),
  }
}

/** Finds marks in the part that was read. Of the unread part, only the first bytes are known. */
function marksOf(
  position: Mark,
  head: Fingerprint,
  trail: Trail,
): Pick<MatchedFile, 'markIn' | 'lineIn' | 'beginning'> {
  return {
    markIn: size =>
      (size < head.bytes ? trail.within(size) : undefined) ?? (size >= position.offset ? position : trail.within(size)),
    lineIn: size => trail.lineIn(size),
    beginning: () => [position, ...trail.marks],
  }
}

type Content = Pick<MatchedFile, 'isThere' | 'size' | 'markIn' | 'lineIn' | 'beginning'>
/**
 * Calls `use` with a descriptor of the file. Returns undefined if the file is gone or cannot be read. Throws if no more
 * files can be opened now, because this says nothing about the file.
 */
type Read = <T>(use: (fd: number) => T) => T | undefined

function withClosed<T>(path: string, key: string, use: (fd: number) => T): T | undefined {
  let refused: unknown
  const open = (path: string) => {
    try {
      return openToRead(path)
    } catch (error) {
      refused = error
      throw error
    }
  }
  const result = withKnown(path, key, use, { keeps: false, open })
  if (lacksDescriptor(refused)) throw refused
  return result
}

/** `known`: what is known if the file cannot be read, or was truncated. */
function whole(read: Read, known: Content, isNamed: boolean): Content {
  return {
    isThere: true,
    size() {
      const [size = -1, before] = [read(fd => fstatSync(fd).size), known.size()]
      if (size >= before) return size
      // A copy may be longer than what is known of this file. A file that is gone has one copy.
      return isNamed ? Number.POSITIVE_INFINITY : before
    },
    markIn(size) {
      const tail = read(fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size))
      return tail?.bytes === Math.min(size, FINGERPRINT_BYTES) ? { offset: size, tail } : known.markIn(size)
    },
    beginning: () => read(firstBytes) ?? known.beginning(),
  }
}
