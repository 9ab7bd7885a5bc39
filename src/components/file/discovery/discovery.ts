import type { BigIntStats } from 'node:fs'
import { dirname, join } from 'node:path'
import { isMissing } from '../../../core/errors.js'
import { type FolderEntry, readdirSync, statSync, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { CheckTimes } from '../checks.js'
import { isMangled, type PathProblems } from '../path-problems.js'
import {
  ANY_DEPTH,
  compileExclude,
  compileGlobs,
  type GlobMatch,
  type GlobSegment,
  matchName,
  matchPath,
} from './glob.js'
import type { Remote } from './remote.js'

/** Limits of a walk, so that a pattern like `/**` does not search a whole machine. */
const MAX_FOLDERS = 20_000
const MAX_FILES = 200_000

/** A folder's modification time is trusted only if it was at least this old when the names in the folder were read. */
const TRUSTED_MS = 2000
/** After this many walks, all names are read again regardless of modification times. */
const FULL_EVERY = 10

/**
 * The type of a path. `same`: not examined, because the path's folder is unchanged since the last walk. `unknown`: not
 * examined; the path may be a link or missing.
 */
export type NameKind = 'plain' | 'link' | 'same' | 'unknown'

export interface FoundFile {
  readonly files: Map<string, NameKind>
  /** Folders in which a new name could match. */
  readonly folders: Set<string>
  /** Paths in `files` that may be links. */
  readonly links: string[]
  /** Folders that could not be listed. `files` may lack new names in these folders and below. */
  readonly unlisted: Set<string>
  /** Whether folders were skipped because their file system does not respond. */
  isBlocked: boolean
  isCut: boolean
  /** Whether it is certain that no folder has changed since the previous walk. */
  readonly isSame: boolean
}

interface Step {
  readonly folder: string
  readonly segments: readonly GlobSegment[]
  readonly at: number
}

interface Listing {
  readonly entries: FolderEntry[]
  /** Identifies the folder and its modification time; undefined if that time is not trusted. */
  readonly stamp: string | undefined
  readonly walk: number
}

export class Discovery {
  readonly #globs: GlobSegment[][]
  readonly #excluded: (path: string, name: string) => boolean
  readonly #problems: PathProblems
  readonly #clock: Clock
  readonly #remote: Remote
  #listings = new Map<string, Listing>()
  #walk = 0
  /** Whether this walk reads all names again. */
  #isFull = false
  /** The result of the last walk, if it stays valid until a folder changes; otherwise undefined. */
  #settled: FoundFile | undefined
  /** On the monotonic clock: when a walk last found that folders were added, removed or changed. */
  #changedAt = 0
  readonly checks: CheckTimes

  constructor(
    include: readonly string[],
    exclude: readonly string[],
    { problems, clock, remote }: { readonly problems: PathProblems; readonly clock: Clock; readonly remote: Remote },
  ) {
    this.#clock = clock
    this.checks = new CheckTimes(clock)
    this.#remote = remote
    this.#globs = compileGlobs(include)
    this.#excluded = compileExclude(exclude)
    this.#problems = problems
  }

  /** Whether `path` is selected, or is a folder that may contain selected files. */
  match(path: string): GlobMatch {
    let result: GlobMatch = 'no'
    for (const segments of this.#globs) {
      const match = matchPath(path, segments)
      if (match === 'whole') return this.#excluded(path, path.slice(path.lastIndexOf('/') + 1)) ? 'no' : 'whole'
      if (match === 'prefix') result = match
    }
    return result
  }

  /**
   * Walks the folders in slices. Follows symbolic links except below `**`, where they could form a loop. `areWatched`:
   * changes of names are reported to `checks`. Throws if a file system falls silent during the walk.
   */
  async walk(slices: TimeSlices, areWatched = false): Promise<FoundFile> {
    const isFull = this.#walk++ % FULL_EVERY === 0
    this.#isFull = isFull
    if (!isFull && this.#settled && (await this.#isUnchanged(slices, areWatched))) return copyOf(this.#settled)
    const before = this.#listings
    const found = await this.#walkAll(slices)
    const isSame =
      !(found.isBlocked || found.isCut) &&
      this.#listings.size === before.size &&
      [...this.#listings].every(([folder, { stamp }]) => stamp !== undefined && stamp === before.get(folder)?.stamp)
    if (!isSame) this.#changedAt = this.#clock.now()
    // Files whose names were read again must be examined once, so this result is not kept.
    this.#settled = isSame && !isFull ? { ...copyOf(found), isSame } : undefined
    return found
  }

  /** Whether all folders are local, and unchanged since their names were read. */
  async #isUnchanged(slices: TimeSlices, areWatched: boolean): Promise<boolean> {
    if (areWatched && this.checks.suffice(this.#changedAt)) return true
    this.checks.check()
    for (const [folder, { stamp }] of this.#listings) {
      if (slices.due) await slices.pause()
      if (this.#remote.has(folder) || stampAt(folder) !== stamp) return false
    }
    return true
  }

  async #walkAll(slices: TimeSlices): Promise<FoundFile> {
    const found: FoundFile = {
      files: new Map(),
      folders: new Set(),
      links: [],
      unlisted: new Set(),
      isBlocked: false,
      isCut: false,
      isSame: false,
    }
    const before = this.#listings
    this.#listings = new Map()
    const steps: Step[] = this.#globs.map(segments => ({ folder: '/', segments, at: 0 }))
    // A pattern with several `**` can reach a step in many ways, but each step runs once.
    const taken = new Map<readonly GlobSegment[], Set<string>>(
      this.#globs.map(segments => [segments, new Set<string>()]),
    )
    for (let step = steps.pop(); step; step = steps.pop()) {
      if (slices.due) await slices.pause()
      if (found.folders.size >= MAX_FOLDERS || found.files.size >= MAX_FILES) {
        const limit = new Error(`more than ${MAX_FOLDERS} folders or ${MAX_FILES} files match; use narrower patterns`)
        // Not the folder where the walk ends: that can be another one each time, and would be logged each time.
        const { folder } = belowNames({ ...step, folder: '/', at: 0 })
        this.#problems.failed(folder, 'list', limit)
        found.isCut = true
        break
      }
      const place = belowNames(step)
      const key = `${place.at}${place.folder}`
      if (taken.get(place.segments)!.has(key)) continue
      taken.get(place.segments)!.add(key)
      if (this.#remote.has(place.folder) && !(await slices.without(() => this.#remote.answers(place.folder))))
        found.isBlocked = true
      else await this.#take(place, steps, found, before, slices)
    }
    return found
  }

  /** `before`: the listings of the last walk. */
  async #take(
    { folder, segments, at }: Step,
    steps: Step[],
    found: FoundFile,
    before: ReadonlyMap<string, Listing>,
    slices: TimeSlices,
  ): Promise<void> {
    const segment = segments[at]!
    const last = segments.length - 1
    found.folders.add(folder)
    if (typeof segment === 'string') {
      this.#add(folder, segment, 'unknown', found)
      return
    }
    if (segment === ANY_DEPTH && at < last) steps.push({ folder, segments, at: at + 1 })
    let listing = this.#listings.get(folder)
    if (!listing) {
      listing = this.#list(folder, before.get(folder), found)
      this.#listings.set(folder, listing)
    }
    const plain: NameKind = listing.walk === this.#walk ? 'plain' : 'same'
    for (const entry of listing.entries) {
      if (slices.due) await slices.pause()
      const { name } = entry
      if (segment === ANY_DEPTH) {
        if (name.startsWith('.')) continue
        if (entry.isDirectory()) steps.push({ folder: join(folder, name), segments, at })
        else if (at === last) this.#add(folder, name, entry.isSymbolicLink() ? 'link' : plain, found)
      } else if (matchName(segment, name)) {
        if (at === last) {
          if (!entry.isDirectory()) this.#add(folder, name, entry.isSymbolicLink() ? 'link' : plain, found)
        } else if (entry.isDirectory() || entry.isSymbolicLink()) {
          steps.push({ folder: join(folder, name), segments, at: at + 1 })
        }
      }
    }
  }

  #add(folder: string, name: string, kind: NameKind, found: FoundFile): void {
    const path = folder === '/' ? `/${name}` : `${folder}/${name}`
    if (this.#excluded(path, name)) return
    found.files.set(path, kind)
    if (kind === 'link' || kind === 'unknown') found.links.push(path)
  }

  #list(folder: string, before: Listing | undefined, { unlisted }: FoundFile): Listing {
    try {
      const stat = statSync(folder, { bigint: true })
      const stamp = stampOf(stat)
      if (!this.#isFull && before?.stamp === stamp) return before
      const settled = this.#clock.wall() - Number(stat.mtimeMs) > TRUSTED_MS
      return {
        entries: readdirSync(folder, { withFileTypes: true }),
        stamp: settled ? stamp : undefined,
        walk: this.#walk,
      }
    } catch (error) {
      unlessSilent(error)
      const isGone = isMissing(error)
      if (!isGone) {
        unlisted.add(folder)
        this.#problems.failed(folder, 'list', error)
      } else if (isMangled(folder)) this.#problems.mangled(folder, 'list')
      // The files of a folder that cannot be listed may still be there. Each is examined by its path.
      return { entries: isGone ? [] : (before?.entries ?? []), stamp: undefined, walk: this.#walk }
    }
  }
}

/** Whether a walk did not find this path, but may have missed it, because it could not list a folder above. */
export function mayMiss({ files, unlisted }: Pick<FoundFile, 'files' | 'unlisted'>, path: string): boolean {
  if (unlisted.size === 0 || files.has(path)) return false
  for (let at = path, folder = dirname(at); folder !== at; at = folder, folder = dirname(at))
    if (unlisted.has(folder)) return true
  return false
}

/** Moves a step into the folder that its next literal segments name. */
function belowNames({ folder, segments, at }: Step): Step {
  for (; at < segments.length - 1; at++) {
    const segment = segments[at]!
    if (typeof segment !== 'string') break
    folder = join(folder, segment)
  }
  return { folder, segments, at }
}

/** Copies a result, because the caller may add folders to it. */
function copyOf(found: FoundFile): FoundFile {
  return { ...found, folders: new Set(found.folders) }
}

function stampAt(folder: string): string | undefined {
  try {
    const stat = statSync(folder, { bigint: true, throwIfNoEntry: false })
    return stat && stampOf(stat)
  } catch {
    return undefined
  }
}

function stampOf(stat: BigIntStats): string {
  return `${stat.dev}:${stat.ino}:${stat.mtimeNs}`
}
