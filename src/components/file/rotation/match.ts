import { Beginnings } from '../beginnings.js'
import { ALIKE_BYTES, FINGERPRINT_BYTES, type Fingerprint, same } from '../identity.js'
import { mayBeMadeBy, type Uids } from './owners.js'
import type { Mark } from './trail.js'

/**
 * Decides which files of a folder are copies of known files. Compares their first bytes and the bytes before the
 * position. A missing file claims at most one candidate, but an existing file claims all of its copies. At most one
 * file claims a candidate. A candidate that no file claims was never seen before. These functions do not read files. If
 * a decision needs more bytes, they yield a question. Times are wall clock in milliseconds.
 */

/** What is known about a file. A file is the content of one inode between two truncations. */
export interface MatchedFile {
  /** The first name under which the file was read, and its last known name. A copy may be named after either name. */
  readonly names: readonly string[]
  /** Whether the file has the first name in `names`, or had it until it was truncated. */
  readonly isNamed?: boolean
  /** 0 if unknown. */
  readonly birth: number
  /** The owners of the log; undefined if unknown. */
  readonly uids?: Uids | undefined
  readonly head: Fingerprint
  readonly position: Mark
  /** The last size at which the file certainly contained what was read. */
  size(): number
  /** Whether the file's own bytes can be read. If so, copies are not longer than it, and their ends are compared. */
  readonly isThere: boolean
  /** When the file was last known to be whole. */
  readonly since?: number | undefined
  /** No plain copy of the file was made before this time. */
  readonly notBefore?: number | undefined
  /**
   * Key of the candidate found earlier to be the file's copy. Only this candidate can be a copy of a part of the file.
   */
  readonly claimed?: string | undefined
  /**
   * The last mark in the first `size` bytes of the file. If another file of `size` bytes has this mark, that other file
   * contains only these bytes.
   */
  markIn(size: number): Mark | undefined
  /** The last mark within the file's first `size` bytes. Most marks are at the end of a line. */
  lineIn?(size: number): Mark | undefined
  /** The first bytes of the file or, if they cannot be read, the marks in them. */
  beginning(): Buffer | readonly Mark[]
}

export interface Candidate {
  readonly key: string
  readonly name: string
  readonly isCompressed: boolean
  /** Uncompressed size. gzip: size of the last member modulo 4 GiB. zstd: Infinity, because only inflating shows it. */
  readonly size: number
  /** 0 if unknown. */
  readonly birth: number
  readonly changedAt: number
  readonly uid: number
  readonly crc?: number
  /** The first FINGERPRINT_BYTES bytes, as far as they exist. */
  readonly first: Buffer
  /** The fingerprint of the candidate's first bytes: `bytes` bytes, or all bytes if there are fewer. */
  head(bytes: number): Fingerprint
}

/**
 * `prefix`: the candidate is shorter than the part of the file that was read. `whole`: equally long. `rest`: longer.
 */
export type Relation = 'other' | 'prefix' | 'whole' | 'rest'

/** Asks for the fingerprint of `bytes` bytes before `offset`. */
export interface MatchQuestion {
  readonly candidate: Candidate
  readonly offset: number
  readonly bytes: number
}

/**
 * `end`: where the content, or its undamaged part, ends; set only if that is before `offset`. If the answer is
 * undefined, the bytes cannot be read.
 */
export type MatchAnswer =
  | { readonly tail: Fingerprint; readonly end?: number; readonly isDamaged?: boolean | undefined }
  | undefined

/** Yields undefined now and then during long work, so that other work gets its turn. */
type Asking<T> = Generator<MatchQuestion | undefined, T, MatchAnswer>

export interface Claim<F extends MatchedFile, C extends Candidate> {
  readonly file: F
  readonly candidate: C
  readonly relation: Exclude<Relation, 'other'>
}

const GZIP_SIZES = 2 ** 32
const UNKNOWN = Number.POSITIVE_INFINITY
/** Number of files after which other work may run. */
const AT_ONCE = 64

/** Whether the fingerprints cover enough bytes to exclude a match by chance. */
export function isStrong({ head, position }: Pick<MatchedFile, 'head' | 'position'>): boolean {
  return head.bytes === FINGERPRINT_BYTES && position.tail.bytes === FINGERPRINT_BYTES
}

/** `others`: all candidates that begin like this one. */
export function* relationOf(file: MatchedFile, one: Candidate, others: readonly Candidate[]): Asking<Relation> {
  const { head, position } = file
  const first = one.head(head.bytes)
  if (head.bytes === 0 || first.bytes === 0) return 'other'
  if (first.bytes < head.bytes) return relationOfBeginning(file, one, first)
  if (!same(first, head) || !mayBeCopy(file, one)) return 'other'
  if (one.isCompressed) {
    // If the whole file was read, candidates of its size are inflated only if they differ from each other.
    const isClear = others.every(other => other.size !== one.size || other.crc === one.crc)
    if (file.size() === position.offset && one.size === sizeIn(one, position.offset) && isClear) return 'whole'
    if (one.size < position.offset || one.size === UNKNOWN) return yield* relationOfUnsized(file, one)
  }
  return yield* compare(file, one, one.size)
}

/** `content`: the whole content of the candidate. It is shorter than the known beginning of the file. */
function relationOfBeginning(file: MatchedFile, one: Candidate, content: Fingerprint): Relation {
  if (content.bytes < ALIKE_BYTES && !isBeingMade(file, one)) return 'other'
  const mark = file.markIn(content.bytes)
  if (mark?.offset === content.bytes && same(mark.tail, content)) return relationBySize(file, one, content.bytes)
  // A copy may end within a line. If only lines that are whole in the copy were delivered, a wrong match loses no line.
  const line = file.lineIn?.(content.bytes)
  const isRest = line && line.offset >= Math.max(ALIKE_BYTES, file.position.offset) && mayBePart(file, one)
  return isRest && same(one.head(line.offset), line.tail) ? 'rest' : 'other'
}

/**
 * Whether the candidate may be a copy in progress: the file still has its first name, the name of the candidate begins
 * with this name, and the candidate is not older than the file.
 */
function isBeingMade({ isNamed, birth, names }: MatchedFile, one: Candidate): boolean {
  return isNamed === true && one.birth > 0 && one.birth >= birth && one.name.startsWith(names[0]!)
}

/** The relation if all bytes of the candidate, which has this size, are also in the file. */
function relationBySize(file: MatchedFile, one: Candidate, size: number): Relation {
  const { offset } = file.position
  if (size >= offset) return size === offset ? 'whole' : 'rest'
  return mayBePart(file, one) ? 'prefix' : 'other'
}

function mayBeCopy(file: MatchedFile, one: Candidate): boolean {
  if (one.key === file.claimed) return true
  const { birth, notBefore = 0 } = file
  // A restored compressed file may have lost its times.
  if (one.isCompressed) return isStrong(file) || one.changedAt >= birth
  // If only a little of the file was read, other files may begin with the same bytes.
  if (isStrong(file)) return one.birth === 0 || one.birth >= birth
  return (one.birth || one.changedAt) >= Math.max(birth, notBefore)
}

function mayBePart({ claimed }: MatchedFile, one: Candidate): boolean {
  return claimed === undefined || claimed === one.key
}

/** The relation if the content size is unknown, because of several gzip members, more than 4 GiB, or zstd. */
function* relationOfUnsized(file: MatchedFile, one: Candidate): Asking<Relation> {
  const offset = Math.max(file.size(), file.position.offset) + 1
  const answer = yield { candidate: one, offset, bytes: 0 }
  const { end = UNKNOWN, isDamaged } = answer ?? { isDamaged: true }
  return isDamaged && end === UNKNOWN ? 'other' : yield* compare(file, one, end)
}

function* compare(file: MatchedFile, one: Candidate, size: number): Asking<Relation> {
  const { head } = file
  if (file.isThere && size > file.size()) return 'other'
  const mark = file.markIn(size)
  if (!mark) return 'other'
  // If an existing file cannot be read, a few bytes do not show its copy.
  if (file.isThere && Math.max(mark.offset, head.bytes) < Math.min(size, ALIKE_BYTES)) return 'other'
  const relation = relationBySize(file, one, size)
  if (relation === 'other' || mark.offset <= head.bytes) return relation
  const answer = yield { candidate: one, offset: mark.offset, bytes: mark.tail.bytes }
  // Only the bytes before the damage can be compared.
  if (answer?.isDamaged && answer.end! < mark.offset) return yield* compare(file, one, answer.end!)
  const isSame = answer && (answer.end ?? mark.offset) >= mark.offset && same(answer.tail, mark.tail)
  return isSame ? relation : 'other'
}

export function* assign<F extends MatchedFile, C extends Candidate>(
  files: readonly F[],
  candidates: readonly C[],
): Asking<Claim<F, C>[]> {
  const claims: Claim<F, C>[] = []
  const free = new Set(candidates)
  const others = new Map<F, Set<C>>()
  const alikes = yield* alikeOf(files, candidates)
  let looks = 0
  function* claim(file: F, isWanted: (one: C, size: number) => boolean): Asking<boolean> {
    if (++looks % AT_ONCE === 0) yield undefined
    const alike = alikes.get(file) ?? []
    if (alike.length === 0) return false
    const size = file.size()
    const refused = others.get(file) ?? new Set()
    others.set(file, refused)
    const open = alike.filter(one => free.has(one) && !refused.has(one) && isWanted(one, sizeIn(one, size)))
    for (const candidate of open.sort(
      (a, b) => rank(a, file, size) - rank(b, file, size) || a.changedAt - b.changedAt,
    )) {
      const relation = yield* relationOf(file, candidate, alike)
      if (relation === 'other') {
        refused.add(candidate)
        continue
      }
      claims.push({ file, candidate, relation })
      free.delete(candidate)
      if (!file.isThere) return true
    }
    return false
  }
  // Files with longer heads come first, because longer heads exclude more candidates.
  const sorted = [...files].sort((a, b) => b.head.bytes - a.head.bytes || b.position.offset - a.position.offset)
  const gone = new Set(sorted.filter(({ isThere }) => !isThere))
  for (const file of gone) if (yield* claim(file, ({ key }) => key === file.claimed)) gone.delete(file)
  // First, missing files claim candidates of equal size. Then existing files are compared fully and claim copies.
  for (const file of gone) if (yield* claim(file, (one, size) => one.size === size)) gone.delete(file)
  for (const file of sorted) if (file.isThere) yield* claim(file, () => true)
  for (const file of gone) yield* claim(file, () => true)
  return claims
}

/** A size, in the form of the candidate's size. If the candidate is compressed, this is modulo 4 GiB. */
function sizeIn({ isCompressed }: Candidate, size: number): number {
  return isCompressed ? size % GZIP_SIZES : size
}

/**
 * For each file, the candidates that begin like it. The bytes of a short candidate, or those up to one of its lines, are
 * the beginning of the file.
 */
function* alikeOf<F extends MatchedFile, C extends Candidate>(
  files: readonly F[],
  candidates: readonly C[],
): Asking<ReadonlyMap<F, readonly C[]>> {
  const heads = new Beginnings<F>()
  const marks = new Beginnings<F>()
  const short = new Beginnings<C>()
  const alikes = new Map<F, Set<C>>()
  const add = (file: F, one: C) => {
    if (!mayBeMadeBy(one.uid, file.uids)) return
    const alike = alikes.get(file)
    if (alike) alike.add(one)
    else alikes.set(file, new Set([one]))
  }
  for (const [n, one] of candidates.entries()) {
    if ((n + 1) % AT_ONCE === 0) yield undefined
    if (one.first.length > 0 && one.first.length < FINGERPRINT_BYTES) short.add(one.head(FINGERPRINT_BYTES), one)
  }
  for (const [n, file] of files.entries()) {
    if ((n + 1) % AT_ONCE === 0) yield undefined
    if (file.head.bytes === 0) continue
    heads.add(file.head, file)
    const beginning = file.beginning()
    if (!Buffer.isBuffer(beginning)) {
      for (const { offset, tail } of beginning) if (tail.bytes === offset) marks.add(tail, file)
    } else for (const one of short.of(beginning)) if (one.first.length < file.head.bytes) add(file, one)
  }
  for (const [n, one] of candidates.entries()) {
    if ((n + 1) % AT_ONCE === 0) yield undefined
    for (const file of heads.of(one.first)) add(file, one)
    for (const file of marks.of(one.first)) if (one.first.length < file.head.bytes) add(file, one)
  }
  return new Map([...alikes].map(([file, alike]) => [file, [...alike]]))
}

/** Candidates with a lower rank are compared first with the file. */
function rank(one: Candidate, { since = 0, birth, names, claimed }: MatchedFile, size: number): number {
  if (one.key === claimed) return -1
  const full = sizeIn(one, size)
  return (
    (one.size < full ? 32 : 0) +
    (one.isCompressed ? 16 : 0) +
    (one.changedAt >= since ? 0 : 8) +
    (one.changedAt >= birth ? 0 : 4) +
    (one.size === full ? 0 : 2) +
    (names.some(name => one.name.startsWith(name)) ? 0 : 1)
  )
}
