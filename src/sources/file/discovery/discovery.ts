import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { SilentFileSystem } from '../../../lib/files/remote/file-systems.js'
import { type Entry, readdirSync, statSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import type { Clock } from '../../../lib/time.js'
import type { PathProblems } from '../path-problems.js'
import type { Slices } from '../slices.js'
import { ANY_DEPTH, compileExclude, compileGlobs, type GlobMatch, matchName, matchPath, type Segment } from './glob.js'
import type { Remote } from './remote.js'

/** A pattern like `/**` must not walk a whole machine for ever. */
const MAX_FOLDERS = 20_000
const MAX_FILES = 200_000

/** A folder's time of change says that nothing came or went only when it lay so far back when the names were read. */
const TRUSTED_MS = 2000
/** Every so many walks all names are read again, whatever the times say. */
const FULL_EVERY = 10

/**
 * What stands behind a name. `same`: what the last walk found, since nothing came or went in its folder.
 * `unknown`: nobody looked, it may be a link, or missing.
 */
export type NameKind = 'plain' | 'link' | 'same' | 'unknown'

export interface Found {
  /** Paths that match. */
  readonly files: Map<string, NameKind>
  /** Folders where a new name could match. */
  readonly folders: Set<string>
  /** Paths of `files` that may lead elsewhere. */
  readonly links: string[]
  /** Whether folders were left out, because their file system does not answer. */
  isBlocked: boolean
}

interface Step {
  readonly folder: string
  readonly segments: readonly Segment[]
  readonly at: number
}

interface Listing {
  readonly entries: Entry[]
  /** The folder itself and its time of change; undefined: not to be trusted. */
  readonly stamp: string | undefined
  /** The number of the walk that read the names. */
  readonly walk: number
}

/** Finds the files that `include` and `exclude` name. */
export class Discovery {
  readonly #globs: Segment[][]
  readonly #excluded: (path: string, name: string) => boolean
  readonly #problems: PathProblems
  readonly #clock: Clock
  readonly #remote: Remote
  #listings = new Map<string, Listing>()
  #walk = 0

  constructor(
    include: readonly string[],
    exclude: readonly string[],
    { problems, clock, remote }: { readonly problems: PathProblems; readonly clock: Clock; readonly remote: Remote },
  ) {
    this.#clock = clock
    this.#remote = remote
    this.#globs = compileGlobs(include)
    this.#excluded = compileExclude(exclude)
    this.#problems = problems
  }

  /** Whether `path` is to be read, or is a folder that may hold such files. */
  match(path: string): GlobMatch {
    let result: GlobMatch = 'no'
    for (const segments of this.#globs) {
      const match = matchPath(path, segments)
      if (match === 'whole') return this.#excluded(path, path.slice(path.lastIndexOf('/') + 1)) ? 'no' : 'whole'
      if (match === 'prefix') result = match
    }
    return result
  }

  /** Folders are read slice by slice. Symbolic links are followed, but not below `**`: a loop would have no end. */
  async walk(slices: Slices): Promise<Found> {
    const found: Found = { files: new Map(), folders: new Set(), links: [], isBlocked: false }
    const known = this.#walk++ % FULL_EVERY === 0 ? new Map<string, Listing>() : this.#listings
    this.#listings = new Map()
    const steps: Step[] = this.#globs.map(segments => ({ folder: '/', segments, at: 0 }))
    for (let step = steps.pop(); step; step = steps.pop()) {
      if (slices.due) await slices.pause()
      if (found.folders.size >= MAX_FOLDERS || found.files.size >= MAX_FILES) {
        const limit = new Error(`more than ${MAX_FOLDERS} folders or ${MAX_FILES} files match; use narrower patterns`)
        this.#problems.failed(step.folder, 'list', limit)
        break
      }
      const place = belowNames(step)
      if (this.#remote.has(place.folder) && !(await slices.without(() => this.#remote.answers(place.folder))))
        found.isBlocked = true
      else if (!this.#step(place, steps, found, known)) {
        found.isBlocked = true
        // To have waited for it is no work.
        slices.restart()
      }
    }
    return found
  }

  /** False: its file system does not answer any more. */
  #step(step: Step, steps: Step[], found: Found, known: Map<string, Listing>): boolean {
    try {
      this.#take(step, steps, found, known)
      return true
    } catch (error) {
      if (error instanceof SilentFileSystem) return false
      throw error
    }
  }

  #take({ folder, segments, at }: Step, steps: Step[], found: Found, known: Map<string, Listing>): void {
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
      listing = this.#list(folder, known.get(folder))
      this.#listings.set(folder, listing)
    }
    const plain: NameKind = listing.walk === this.#walk ? 'plain' : 'same'
    for (const entry of listing.entries) {
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

  #add(folder: string, name: string, kind: NameKind, found: Found): void {
    const path = folder === '/' ? `/${name}` : `${folder}/${name}`
    if (this.#excluded(path, name)) return
    found.files.set(path, kind)
    if (kind === 'link' || kind === 'unknown') found.links.push(path)
  }

  #list(folder: string, known: Listing | undefined): Listing {
    try {
      const stat = statSync(folder, { bigint: true })
      const stamp = stampOf(stat)
      if (known?.stamp === stamp) return known
      const settled = this.#clock.wall() - Number(stat.mtimeMs) > TRUSTED_MS
      return {
        entries: readdirSync(folder, { withFileTypes: true }),
        stamp: settled ? stamp : undefined,
        walk: this.#walk,
      }
    } catch (error) {
      unlessSilent(error)
      const code = errorCode(error)
      if (code !== 'ENOENT' && code !== 'ENOTDIR') this.#problems.failed(folder, 'list', error)
      return { entries: [], stamp: undefined, walk: this.#walk }
    }
  }
}

/** The same step in the folder that the next segments name. */
function belowNames({ folder, segments, at }: Step): Step {
  for (; at < segments.length - 1; at++) {
    const segment = segments[at]!
    if (typeof segment !== 'string') break
    folder = join(folder, segment)
  }
  return { folder, segments, at }
}

function stampOf(stat: BigIntStats): string {
  return `${stat.dev}:${stat.ino}:${stat.mtimeNs}`
}
