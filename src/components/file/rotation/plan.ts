import { basename } from 'node:path'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { type Format, formatOf, formatOfName, isReadable, isWide, type Wide } from '../compression.js'
import { ALIKE_BYTES, CLOCK_MS } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import { type Displaced, wasCopyAhead } from '../saved.js'
import { type Place, SETTLE_MS, type Unreadable } from './candidates.js'
import type { Claim, MatchedFile } from './match.js'
import { compareAge, isRotatedName, stemOf, stemsWithin } from './names.js'
import { type Listed, mayBeMadeBy, type Owners } from './owners.js'
import { nameOfEntry, type Subject, TWIN_MS } from './subjects.js'

/**
 * Decides about the files of a folder. These functions read nothing and change nothing. Times are wall clock in
 * milliseconds.
 */

/**
 * What to do with a known file of a folder. `continue`: the place is a copy that has the rest of the file. `end`: the
 * place is a copy that has no more than what was read. `note`: the place is a copy of a file that still exists.
 * `claim`: set which file is its copy. No file of the folder has more of it: `release`, or `lose` if its rest is lost.
 * `seek`: a compressed file that was never seen may be its copy. `hide`: the rest may be in a file that cannot be read
 * now. `miss`: nothing can be said.
 */
export type Step = { readonly file: Pick<Subject, 'tailer' | 'entry'> } & (
  | { readonly do: 'note' | 'continue' | 'end'; readonly file: Subject; readonly place: Place }
  | { readonly do: 'claim'; readonly claimed: string | undefined }
  | { readonly do: 'seek'; readonly name: string; readonly since: number }
  | { readonly do: 'hide'; readonly hiding: readonly Unreadable[] }
  | { readonly do: 'release' | 'lose' | 'miss' }
)

/** What a look at a folder showed. */
export interface Looked {
  readonly subjects: readonly Subject[]
  /** Those that the folder does not have any more. */
  readonly missing: ReadonlySet<Subject>
  /** The keys of the places that are not being read. */
  readonly free: ReadonlySet<string>
  readonly claims: readonly Claim<Subject, Place>[]
  /** The files that are read from compressed copies. */
  readonly readers: readonly Tailer[]
  readonly listed: readonly Listed[]
  readonly byKey: ReadonlyMap<string, Listed>
  /** If the folder cannot be listed, nothing there counts as gone. */
  readonly isListed: boolean
  /** Whether the folder is gone, too. It may be on a file system that is not mounted. */
  readonly isGone: boolean
  /** The paths that could not be examined. */
  readonly unexamined: ReadonlySet<string>
  readonly unreadable: readonly Unreadable[]
  readonly owners: Owners
}

/** Decides what to do with the known files of a folder. */
export function* planOf(looked: Looked): Iterable<Step> {
  const { claims, subjects, missing, free, readers } = looked
  // The inode of the copy belongs to another file now.
  for (const tailer of readers)
    if (tailer.claimed !== undefined && free.has(tailer.claimed))
      yield { do: 'claim', file: { tailer }, claimed: undefined }
  const claimed = new Map(subjects.map(file => [file, file.claimed]))
  function setClaim(file: Subject, key: string | undefined): Step {
    claimed.set(file, key)
    return { do: 'claim', file, claimed: key }
  }
  const claimants = new Map<string, Subject[]>()
  for (const file of subjects)
    if (file.claimed !== undefined) claimants.set(file.claimed, [...(claimants.get(file.claimed) ?? []), file])
  // The oldest copy is read first.
  for (const { file, candidate: place, relation } of [...claims].sort(
    (a, b) => a.candidate.changedAt - b.candidate.changedAt,
  )) {
    yield { do: 'note', file, place }
    if (!missing.has(file)) continue
    const isRest = relation === 'rest' || (relation === 'whole' && !place.isCompressed)
    yield { do: isRest ? 'continue' : 'end', file, place }
    claimed.set(file, place.key)
    if (isRest) continue
    yield setClaim(file, place.key)
    // The copy is compressed now, and another file may get its inode.
    if (file.entry && file.claimed !== undefined)
      for (const one of claimants.get(file.claimed)!) if (one !== file) yield setClaim(one, place.key)
  }
  const owners = new Map(claims.map(({ candidate, file }) => [candidate.key, file]))
  const claiming = new Set(owners.values())
  for (const file of missing) if (file.tailer || !claiming.has(file)) yield* withoutRest(file, looked)
  // If the copy of a file is gone, its inode may belong to another file's copy now.
  for (const [file, key] of claimed) {
    if (key === undefined || !free.has(key)) continue
    const owner = owners.get(key)
    if (owner === file || (owner?.entry && wasCopyAhead(owner.entry, file.tailer?.known ?? file.entry!))) continue
    yield setClaim(file, undefined)
  }
}

/** What follows if no copy has the rest of a missing file. */
function withoutRest(file: Subject, looked: Looked): Step[] {
  const { tailer, entry } = file
  if (entry?.away !== undefined) return []
  const name = tailer ? (tailer.origin.path ?? tailer.path) : nameOfEntry(entry!)
  if (!looked.isListed || unexaminedOf(name, looked.unexamined).length > 0)
    return [tailer ? { do: 'miss', file } : { do: 'hide', file, hiding: [] }]
  if (tailer) {
    const { head, birth, changedAt, size, truncatedSince } = tailer
    const wasOpened = head.bytes > 0 || truncatedSince !== undefined
    // An empty file may have been written, compressed and removed since the last look.
    const mayHaveBytes = size > 0 || !looked.byKey.has(tailer.key)
    const from = birth || changedAt
    const isSought = !wasOpened && mayHaveBytes && mayBeCompressed(name, from, looked)
    return isSought ? [{ do: 'seek', file, name, since: Number(from) / 1e6 }] : [{ do: 'release', file }]
  }
  // The file may have been missing already when the last run ended, so its copy may be older.
  const known = { ...file, since: undefined }
  const hiding = looked.unreadable.filter(one => mayHide(one, known))
  if (hiding.length > 0) return [{ do: 'hide', file, hiding }]
  if ((entry!.size ?? 0) <= entry!.offset || looked.isGone) return []
  const isSought = entry!.head.bytes === 0 && mayBeCompressed(name, BigInt(entry!.birth), looked)
  return isSought ? [{ do: 'seek', file, name, since: Number(entry!.birth) / 1e6 }] : [{ do: 'lose', file }]
}

/** Of the paths that could not be examined, those that may lead to a file that had this name. */
export function unexaminedOf(name: string, unexamined: ReadonlySet<string>): string[] {
  return [...unexamined].filter(path => path === name || isRotatedName(basename(path), basename(name)))
}

/** Whether a file that cannot be read may be the copy of a missing file. */
export function mayHide(
  { name, stat }: Unreadable,
  { names, birth, since = 0, uids }: Pick<MatchedFile, 'names' | 'birth' | 'since' | 'uids'>,
): boolean {
  return (
    names.some(of => isRotatedName(name, of)) &&
    mayBeMadeBy(stat.uid, uids) &&
    Number(stat.ctimeNs) / 1e6 >= Math.max(birth, since)
  )
}

/**
 * Whether a compressed file exists that may be a copy of a file that was never read, because it is not older. `from`:
 * the birth of the file or, if that is unknown, its last known change.
 */
function mayBeCompressed(name: string, from: bigint, { listed, owners }: Looked): boolean {
  if (from === 0n) return false
  return listed.some(
    ({ name: found, stat: { birthtimeNs, mtimeNs, uid } }) =>
      formatOfName(found) !== undefined &&
      isRotatedName(found, basename(name)) &&
      owners.allow(basename(name), uid) &&
      Number(birthtimeNs || mtimeNs) / 1e6 >= Number(from) / 1e6 - CLOCK_MS,
  )
}

/** Splits displaced names. `names`: those that an unknown file may have had since. `over`: the others. */
export async function splitNames(all: readonly Displaced[], unknown: readonly Listed[], slices: TimeSlices) {
  // Compare only the newest changes, because there may be many files and many displaced names.
  const newest = new Map(all.map(({ path }) => [stemOf(basename(path)), Number.NEGATIVE_INFINITY]))
  await slices.each(all.length > 0 ? unknown : [], ({ name, stat }) => {
    const changedAt = Number(stat.mtimeNs) / 1e6
    for (const stem of stemsWithin(name, newest)) if (changedAt > newest.get(stem)!) newest.set(stem, changedAt)
  })
  const names: Displaced[] = []
  const over: Displaced[] = []
  await slices.each(all, one => (newest.get(stemOf(basename(one.path)))! >= one.since ? names : over).push(one))
  return { names, over }
}

/** A file that is read, and may have copies in the folder. */
export interface PossibleOriginal {
  readonly tailer: Pick<Tailer, 'birth' | 'isNew' | 'head'>
  /** Its first bytes; undefined if they cannot be read now. */
  readonly first: Buffer | undefined
}

/**
 * Whether `content` has the first bytes of the original, but too few to recognize a copy. A copy may be in progress. If
 * the original cannot be read now, this content may be its beginning.
 */
function beginsLike({ first, tailer }: PossibleOriginal, content: Buffer): boolean {
  const { length } = content
  if (length === 0 || length >= ALIKE_BYTES) return false
  return first ? first.subarray(0, length).equals(content) : length < tailer.head.bytes
}

/** Files that had a displaced name: unclaimed ones to read, the oldest first, and those that cannot be read now. */
export interface FoundContinuation {
  readonly read: readonly Place[]
  readonly hidden: readonly Unreadable[]
}

/**
 * Decides which files had a displaced name. Returns undefined if one of them may be incomplete. `current`: the file that
 * has the name now. `now`: a time after the look.
 */
export function unseenOf(
  { path, since }: Displaced,
  current: PossibleOriginal | undefined,
  unclaimed: readonly Place[],
  unreadable: readonly Unreadable[],
  now: number,
): FoundContinuation | undefined {
  // If both files have the same birth time or none, the current file is older if it was already known or read.
  const isFormer = ({ stat }: Place) =>
    !current ||
    (stat.birthtimeNs === current.tailer.birth ? current.tailer.isNew : stat.birthtimeNs < current.tailer.birth)
  const isLate = ({ name, stat }: Listed) =>
    isRotatedName(name, basename(path)) &&
    Number(stat.mtimeNs) / 1e6 >= since &&
    (stat.birthtimeNs === 0n || Number(stat.birthtimeNs) / 1e6 >= since)
  // The file server's clock may be ahead, or the clock may have been set back.
  const mayGrow = ({ stat }: Place) => {
    const changedAt = Number(stat.ctimeNs) / 1e6
    return changedAt > now - SETTLE_MS && changedAt <= now + CLOCK_MS
  }
  // A program may still write to an empty file. But if it is younger than the current file, it is a copy in progress.
  const read = unclaimed.filter(one => isLate(one) && one.changedAt >= since && (one.first.length > 0 || isFormer(one)))
  const mayBeCopy = ({ isCompressed, first }: Place) => isCompressed || (current && beginsLike(current, first))
  if (read.some(one => mayBeCopy(one) && mayGrow(one))) return undefined
  const sorted = read.sort((a, b) => a.changedAt - b.changedAt || compareAge(a.path, b.path))
  return { read: sorted, hidden: unreadable.filter(isLate) }
}

/** A new file whose name or first bytes suggest that it is a copy. */
export interface Newcomer {
  readonly size: bigint
  /** For how long it has been seen with this size and modification time. */
  readonly quietMs: number
  /** Its first bytes as they are stored; undefined if they cannot be read. */
  readonly first: Buffer | undefined
  /** The names that its original may have. */
  readonly names: readonly string[]
  /** The files that have one of these names. */
  readonly originals: readonly PossibleOriginal[]
  /** The name of the known file that claims it. */
  readonly of: string | undefined
  /** Whether it must wait for a search for one of these names. */
  readonly isDelayed: boolean
  /** Whether it was compared with all known files. */
  readonly isCompared: boolean
  readonly isRead: boolean
  readonly isAtRest: boolean
  /** Whether it existed before the time since which compressed files are read. */
  readonly isOld: boolean
  /** The first bytes of its content, if it is compressed and was examined. */
  readonly inflated: Buffer | undefined
  /** Whether it was examined as a compressed file, and no known file claims it. */
  readonly isUnclaimed: boolean
}

/**
 * What to do with a new file. `wait`: nothing can be said yet. `copy`: it is a copy, or a copy in progress, so it is not
 * read as long as it does not change. `new`: it is not a copy. `unread`: it could not be read. `inflate`: it is a new
 * compressed file. The others say why it is not read.
 */
export type NewFileVerdict = 'wait' | 'copy' | 'new' | 'unread' | 'inflate' | Wide | 'format' | 'old'

export function verdictOf(file: Newcomer): NewFileVerdict {
  const { size, quietMs, first, names, originals, of } = file
  if (file.isDelayed) return 'wait'
  const format = first && formatOf(first)
  if (format) return of === undefined ? verdictOfCompressed(file, format) : 'copy'
  // A copy may be in progress that is still empty or short.
  if (size === 0n && originals.length > 0) return 'copy'
  if (!first) return 'unread'
  if (of !== undefined) return names.includes(of) || quietMs < TWIN_MS ? 'copy' : 'new'
  if (quietMs < SETTLE_MS && originals.some(one => beginsLike(one, first))) return 'copy'
  // A file that was found or became readable during the search must be compared first.
  return size === 0n || file.isCompared || file.isRead ? 'new' : 'wait'
}

function verdictOfCompressed({ isAtRest, isOld, inflated, isUnclaimed }: Newcomer, format: Format): NewFileVerdict {
  // Such a file may be written all the time.
  if (isWide(format)) return format
  if (!isAtRest) return 'wait'
  if (!isReadable(format)) return 'format'
  if (isOld) return 'old'
  const inner = inflated && formatOf(inflated)
  if (isWide(inner)) return inner
  if (inflated?.length === 0) return 'copy'
  return isUnclaimed ? 'inflate' : 'wait'
}
