import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import { z } from 'zod'
import type { Origin } from '../../core/event/origin.js'
import { refuseNewer } from '../../core/unreadable.js'
import { type BirthTimes, goneKey, keyOf } from './identity.js'
import type { Position } from './positions.js'

/**
 * The checkpoint document of a file source, and the entries in it that no open file stands for: files that are gone,
 * or not found yet. An entry leaves when its file is taken up again, or long after its file was last seen.
 */

/** Of the document. */
const VERSION = 1
/** How long a file may be away before its position is forgotten. */
const FORGET_MS = 7 * 24 * 3_600_000
/** No more entries than this of files that are away. */
const MAX_AWAY = 10_000

/** Beyond every carry there is: what is shifted must stay a small number. */
const MOST_CARRY = 0xfffff

const bytes = z.int().min(0)
const digits = z.string().regex(/^\d{1,20}$/)
const fingerprint = z.object({ bytes, hash: bytes })

const entrySchema = z.object({
  path: z.string(),
  /** The name its events carry, where that is another: it was renamed while it was read. */
  file: z.string().optional(),
  dev: digits,
  ino: digits,
  birth: digits,
  offset: bytes,
  continues: z.boolean(),
  /** Where the position is not between events only: see positions.ts. */
  carry: z.int().min(0).max(MOST_CARRY).optional(),
  head: fingerprint,
  tail: fingerprint,
  /** The file itself is gone, or holds something else: it is known by its content only, and may be in a copy. */
  gone: z.literal(true).optional(),
  /** When it was found to be away, wall clock in milliseconds. */
  away: z.number().optional(),
  /** Of one that is gone, or was not delivered to its end: how many bytes it was seen to have. */
  size: bytes.optional(),
})
export type Entry = z.output<typeof entrySchema>

/** A name that led to another file than before, and since when at the earliest, wall clock in milliseconds. */
const displacedSchema = z.object({ path: z.string(), since: z.number() })
export type Displaced = z.output<typeof displacedSchema>

const documentSchema = z.object({
  version: z.literal(VERSION),
  saved: z.number(),
  /** What was rotated before this time, wall clock in milliseconds, was seen. */
  looked: z.number().optional(),
  /** What had these names in between is still to be looked for. */
  displaced: z.array(displacedSchema).optional(),
  files: z.array(z.unknown()),
})

export interface SavedDocument {
  readonly version: typeof VERSION
  readonly saved: number
  readonly looked: number
  readonly displaced: readonly Displaced[]
  readonly files: readonly Entry[]
}

export class Saved {
  /** When the document was written; undefined: the source runs for the first time. */
  readonly savedAt: number | undefined
  /** What was rotated before this time was seen. */
  readonly lookedAt: number | undefined
  readonly displaced: readonly Displaced[] = []
  /** Entries, or whole documents, that could not be understood. */
  readonly unreadable: number = 0
  readonly #entries = new Map<string, Entry>()
  /** The last entry of each path. */
  readonly #paths = new Map<string, Entry>()

  /** `document`: what was saved; undefined for nothing, anything else that is none for something lost. */
  constructor(document: unknown) {
    if (document === undefined) return
    refuseNewer((document as { version?: unknown } | null)?.version, VERSION)
    const parsed = documentSchema.safeParse(document)
    if (!parsed.success) {
      this.unreadable = 1
      return
    }
    const { saved, looked = saved, displaced = [] } = parsed.data
    this.savedAt = saved
    this.lookedAt = looked
    this.displaced = displaced
    for (const item of parsed.data.files) {
      const entry = entrySchema.safeParse(item)
      if (entry.success) this.put(entry.data)
      else this.unreadable++
    }
  }

  get size(): number {
    return this.#entries.size
  }

  put(entry: Entry): void {
    const former = entry.gone ? undefined : this.#entries.get(entryKey(entry))
    // Its inode was given to the file of this entry.
    if (former && former.birth !== entry.birth) {
      this.remove(former)
      this.put({ ...former, gone: true })
    }
    this.#entries.set(entryKey(entry), entry)
    // One that is there is found by its path, where its device got another number.
    if (!entry.gone || !this.#paths.has(entry.path)) this.#paths.set(entry.path, entry)
  }

  /** Takes this entry out. */
  remove(entry: Entry): void {
    this.#entries.delete(entryKey(entry))
    if (this.#paths.get(entry.path) === entry) this.#paths.delete(entry.path)
  }

  /** The entry of a file: the one under its device and inode, or, when devices were renumbered, its path. */
  find(dev: bigint, ino: bigint, path: string): Entry | undefined {
    const entry = this.#entries.get(`${dev}:${ino}`)
    if (entry) return entry
    const there = this.#paths.get(path)
    return there?.ino === String(ino) && there.head.bytes > 0 && !there.gone ? there : undefined
  }

  /** Whether there is a position in this file. */
  knows(stat: BigIntStats, births: BirthTimes): boolean {
    const entry = this.#entries.get(keyOf(stat))
    return entry !== undefined && !births.differ(stat, BigInt(entry.birth))
  }

  /** Whether a file of this name was read. */
  has(path: string): boolean {
    return this.#paths.has(path)
  }

  entries(): Iterable<Entry> {
    return this.#entries.values()
  }

  /** The entries by the folder that their files were in. */
  byFolder(): Map<string, Entry[]> {
    const folders = new Map<string, Entry[]>()
    for (const entry of this.#entries.values()) {
      const folder = dirname(entry.path)
      const list = folders.get(folder)
      if (list) list.push(entry)
      else folders.set(folder, [entry])
    }
    return folders
  }

  /** Dates what is away, and forgets what has been for long, and the oldest when there are too many. */
  prune(now: number): void {
    for (const entry of [...this.#entries.values()]) {
      if (entry.away === undefined) {
        this.remove(entry)
        this.put({ ...entry, away: now })
      } else if (now - entry.away > FORGET_MS) this.remove(entry)
    }
    if (this.#entries.size <= MAX_AWAY) return
    const oldest = [...this.#entries.values()].sort((a, b) => (a.away ?? now) - (b.away ?? now))
    for (const entry of oldest.slice(0, oldest.length - MAX_AWAY)) this.remove(entry)
  }
}

/** What is saved of a file that was delivered up to its committed position. `size`: how many bytes it was seen to have. */
export function entryOf(
  of: { path: string; origin: Origin; key: string; birth: bigint; committed: Position },
  size: number,
  gone: boolean,
): Entry {
  const { path, origin, key, birth, committed } = of
  const { offset, continues, carry, tail, content } = committed
  const [dev, ino] = key.split(':', 2) as [string, string]
  return {
    path,
    ...(origin.path === path ? {} : { file: origin.path }),
    dev,
    ino,
    birth: String(birth),
    offset,
    continues,
    ...(carry === 0 ? {} : { carry }),
    head: content.head,
    tail,
    ...(gone ? { gone } : {}),
    // By its size alone nothing could be found again.
    ...(gone || (size > offset && content.head.bytes > 0) ? { size } : {}),
  }
}

const goneKeys = new WeakMap<Entry, string>()

/** What the file of an entry is known by, as long as the entry is not replaced by another. */
export function entryKey(entry: Entry): string {
  return entry.gone ? goneKeyOf(entry) : `${entry.dev}:${entry.ino}`
}

/** The same when the file is gone. */
export function goneKeyOf(entry: Entry): string {
  let key = goneKeys.get(entry)
  if (!key) goneKeys.set(entry, (key = goneKey(`${entry.dev}:${entry.ino}`)))
  return key
}
