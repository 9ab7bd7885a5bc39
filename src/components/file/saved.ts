import type { BigIntStats } from 'node:fs'
import { z } from 'zod'
import { refuseNewer } from '../../core/unreadable.js'
import { existsSync } from '../../lib/files/disk/disk.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { Beginnings } from './beginnings.js'
import { ByFolder, Grouped } from './by-folder.js'
import { ALIKE_BYTES, goneKey, isOther, keyOf, same } from './identity.js'

/**
 * The checkpoint document of a file source, and the entries of files that are not open, because they are gone or not
 * found yet. An entry is removed when its file is read again, or long after the file was last seen.
 */

const VERSION = 1
const DAY_MS = 24 * 3_600_000
/** How long the position of a missing file is kept. */
const FORGET_MS = 7 * DAY_MS
const MAX_AWAY = 10_000

/** Larger than any `carry`, because a `carry` must still be a small number after it is shifted. */
const MOST_CARRY = 0xfffff

const bytes = z.int().min(0)
/** Inodes above 2^63 are negative in the stats of Node.js. */
const digits = z.string().regex(/^-?\d{1,20}$/)
const fingerprint = z.object({ bytes, hash: bytes })

const entrySchema = z.object({
  path: z.string(),
  /** Where the file is if `path` is a link from another folder. */
  target: z.string().optional(),
  /** The file name in the events, if it differs from `path` because the file was renamed during reading. */
  file: z.string().optional(),
  dev: digits,
  ino: digits,
  birth: digits,
  /** The owner of the file. Entries of earlier versions do not have this field. */
  uid: bytes.optional(),
  offset: bytes,
  continues: z.boolean(),
  /** Present if the position is within an event: see positions.ts. */
  carry: z.int().min(0).max(MOST_CARRY).optional(),
  head: fingerprint,
  tail: fingerprint,
  /** Identifies the content: see positions.ts. Undefined if the file was seen only as a copy. */
  reading: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  /** The file is gone, or its content was replaced. Only the content identifies the file. A copy of it may exist. */
  gone: z.literal(true).optional(),
  /** When the file was found to be missing, wall clock in milliseconds. */
  away: z.number().optional(),
  /** Device and inode of the file that was found to be a copy of this one. */
  claimed: z.string().optional(),
  /** The damaged copy that was read as far as possible: see `versionOf` in copy.ts. */
  cut: z.string().optional(),
  /** Some places up to which the file was read: see trail.ts. */
  marks: z
    .array(z.object({ offset: bytes, tail: fingerprint, isCopied: z.literal(true).optional() }))
    .readonly()
    .optional(),
  /** Until when the file surely held what was read, if that is before `looked`, wall clock in milliseconds. */
  sure: z.number().optional(),
  /** Last known size, if the file is gone or was not delivered completely. */
  size: bytes.optional(),
})
export type Entry = z.output<typeof entrySchema>

/** A file, and the file that was found to be its copy. */
export type Original = Pick<Entry, 'claimed' | 'offset' | 'head' | 'tail' | 'marks'>

/** A name that now refers to another file, and the earliest time of this change, wall clock in milliseconds. */
const displacedSchema = z.object({ path: z.string(), since: z.number() })
export type Displaced = z.output<typeof displacedSchema>

const documentSchema = z.object({
  version: z.literal(VERSION),
  saved: z.number(),
  looked: z.number().optional(),
  displaced: z.array(displacedSchema).optional(),
  compressed: z.number().optional(),
  files: z.array(z.unknown()),
})

export type SavedDocument = Omit<z.input<typeof documentSchema>, 'files'> & { readonly files: Iterable<Entry> }

export class Saved {
  /** When the document was written; undefined on the first run. */
  readonly savedAt: number | undefined
  /** All rotations before this time were observed. */
  readonly lookedAt: number | undefined
  readonly displaced: readonly Displaced[] = []
  /** Compressed files before this time are not read. Undefined on the first run. */
  readonly compressedSince: number | undefined
  /** Number of invalid entries, or 1 for an invalid document. */
  readonly unreadable: number = 0
  readonly names: ReadonlySet<string> = new Set()
  /** When `prune` was first called, wall clock in milliseconds. */
  #prunedSince: number | undefined
  readonly #entries = new Map<string, Entry>()
  readonly #paths = new Map<string, Entry>()
  /** By the file name in events. */
  readonly #byName = new Grouped<string, Entry>()
  readonly #beginnings = new Beginnings<Entry>()

  /** `document`: the saved document; undefined if nothing was saved, any invalid value if the document was lost. */
  constructor(document: unknown) {
    if (document === undefined) return
    refuseNewer((document as { version?: unknown } | null)?.version, VERSION)
    const parsed = documentSchema.safeParse(document)
    if (!parsed.success) {
      this.unreadable = 1
      return
    }
    const { saved, looked = saved, displaced = [], compressed } = parsed.data
    this.savedAt = saved
    this.lookedAt = looked
    this.displaced = displaced
    this.compressedSince = compressed
    for (const item of parsed.data.files) {
      const entry = entrySchema.safeParse(item)
      if (entry.success) this.put(entry.data)
      else this.unreadable++
    }
    // The position of a copy is at the end of the copy, even if some of its content was not delivered. Such a copy must
    // be searched again.
    const claimants = new Map<string, Entry[]>()
    for (const entry of this.#entries.values())
      if (entry.claimed !== undefined) claimants.set(entry.claimed, [...(claimants.get(entry.claimed) ?? []), entry])
    for (const [claimed, files] of claimants)
      for (const file of files) if (claimed !== `${file.dev}:${file.ino}`) this.releaseCopy(file, files)
    this.names = new Set([...this.#entries.values()].map(({ file, path }) => file ?? path))
  }

  put(entry: Entry): void {
    const former = entry.gone ? undefined : this.#entries.get(entryKey(entry))
    // The inode of `former` now belongs to the file of this entry. Without birth times, only a difference in the first
    // bytes, or an earlier position, shows this.
    const isOther =
      former && (former.birth !== entry.birth || differ(former.head, entry.head) || entry.offset < former.offset)
    if (isOther) {
      this.remove(former)
      this.put({ ...former, gone: true })
    }
    const key = entryKey(entry)
    const before = this.#entries.get(key)
    if (before) this.#forget(before)
    this.#entries.set(key, entry)
    this.#beginnings.add(entry.head, entry)
    this.#byName.add(entry.file ?? entry.path, entry)
    // If device numbers change, an existing file is found by its path.
    if (!entry.gone || !this.#paths.has(entry.path)) this.#paths.set(entry.path, entry)
  }

  /** Whether the entry was neither removed nor replaced. */
  holds(entry: Entry): boolean {
    return this.#entries.get(entryKey(entry)) === entry
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key)
  }

  /** Removes a copy's position if it is ahead of the position of `file`. The copy must be searched again. */
  releaseCopy(file: Original, claimants?: readonly Entry[]): void {
    if (file.claimed === undefined) return
    const copy = this.#entries.get(file.claimed)
    if (copy && isCopyAhead(copy, file)) this.remove(copy)
    const all = claimants ?? [...this.#entries.values()].filter(one => one.claimed === file.claimed)
    for (const one of all) if (wasCopyAhead(one, file)) this.remove(one)
  }

  replace(entry: Entry, by: Entry): void {
    this.remove(entry)
    this.put(by)
  }

  remove(entry: Entry): void {
    // Another file may have its inode.
    if (this.holds(entry)) {
      this.#entries.delete(entryKey(entry))
      this.#forget(entry)
    }
    if (this.#paths.get(entry.path) === entry) this.#paths.delete(entry.path)
  }

  #forget(entry: Entry): void {
    this.#beginnings.delete(entry.head, entry)
    this.#byName.delete(entry.file ?? entry.path, entry)
  }

  /** Finds a file's entry by device and inode or, if devices were renumbered, by path. */
  find(dev: bigint, ino: bigint, path: string): Entry | undefined {
    const entry = this.#entries.get(`${dev}:${ino}`)
    if (entry) return entry
    const there = this.#paths.get(path)
    return there?.ino === String(ino) && there.head.bytes > 0 && !there.gone ? there : undefined
  }

  /** The entry that has this file's inode; undefined if the entry describes another file. */
  known(stat: BigIntStats): Entry | undefined {
    const entry = this.#entries.get(keyOf(stat))
    return entry && !isOther(stat, BigInt(entry.birth)) ? entry : undefined
  }

  /** Whether a file has this path, or had it when it was read first. */
  has(path: string): boolean {
    return this.#paths.has(path) || this.#byName.has(path)
  }

  /** The entries whose known first bytes are the beginning of `first`, and are enough to show a copy. */
  *like(first: Buffer): Iterable<Entry> {
    for (const entry of this.#beginnings.of(first)) if (entry.head.bytes >= ALIKE_BYTES) yield entry
  }

  entries(): Iterable<Entry> {
    return this.#entries.values()
  }

  byFolder(): ByFolder<Entry> {
    const folders = new ByFolder<Entry>()
    for (const entry of this.#entries.values()) folders.add(entry.path, entry).add(entry.target ?? entry.path, entry)
    return folders
  }

  /**
   * Records the time since which files are missing. Removes entries of files that were missing for too long and, if
   * there are too many entries, the oldest ones. The time counts from when `isKept` last accepted the entry.
   */
  prune(now: number, isKept: (entry: Entry) => boolean = () => false): void {
    // A file system that is mounted late must not cost the positions of its files. So nothing is removed before a day.
    const start = (this.#prunedSince ??= now)
    const missing: { readonly entry: Entry; readonly away: number }[] = []
    for (const entry of [...this.#entries.values()]) {
      const { away } = entry
      if (isKept(entry)) {
        if (away !== undefined && now - away > DAY_MS) this.replace(entry, { ...entry, away: now })
      } else if (away === undefined) this.replace(entry, { ...entry, away: now })
      else if (now - Math.max(away, start + DAY_MS - FORGET_MS) > FORGET_MS) this.remove(entry)
      else missing.push({ entry, away })
    }
    missing.sort((a, b) => a.away - b.away)
    for (const { entry } of missing.slice(0, Math.max(0, missing.length - MAX_AWAY))) this.remove(entry)
  }
}

/** Whether the first bytes of two files differ. False if their lengths differ, because files grow. */
function differ(a: Entry['head'], b: Entry['head']): boolean {
  return a.bytes === b.bytes && a.hash !== b.hash
}

/** Whether `copy` was read further than its original, and may contain all that was read of the original. */
export function isCopyAhead(copy: Entry, file: Original): boolean {
  // A copy claims itself or, if it was found compressed, the compressed file.
  return (copy.claimed === file.claimed || copy.head.bytes === file.head.bytes) && isAhead(copy, file)
}

/** Like `isCopyAhead`, for a copy that was compressed later: `copy` and `file` both claim the compressed file. */
export function wasCopyAhead(copy: Entry, file: Original): boolean {
  // The copy of a small file may lack some of the file's first bytes. A mark then shows the first bytes of the copy.
  const marks = [{ offset: file.head.bytes, tail: file.head }, ...(file.marks ?? [])]
  const isAlike = marks.some(({ offset, tail }) => offset === copy.head.bytes && same(tail, copy.head))
  return isAlike && isAhead(copy, file)
}

function isAhead(copy: Entry, { offset, head, tail }: Original): boolean {
  const mark = copy.marks?.find(one => one.offset === offset)
  return copy.offset > offset && !differ(copy.head, head) && !(mark && differ(mark.tail, tail))
}

/** Paths of files that this document's source has started to read. Only existing files that `selects` accepts. */
export function startedFiles(document: unknown, selects: (path: string) => boolean): string[] {
  const isThere = (path: string) => fileSystems.silentAt(path) !== undefined || existsSync(path)
  const read = [...new Saved(document).entries()].filter(({ gone, offset }) => !gone && offset > 0)
  return read.map(({ path }) => path).filter(path => selects(path) && isThere(path))
}

const goneKeys = new WeakMap<Entry, string>()

/** The key of an entry's file. If the file is gone, replacing the entry changes the key. */
export function entryKey(entry: Entry): string {
  const key = `${entry.dev}:${entry.ino}`
  if (!entry.gone) return key
  let gone = goneKeys.get(entry)
  if (!gone) goneKeys.set(entry, (gone = goneKey(key)))
  return gone
}
