import { type Dirent, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../../core/errors.js'
import { ANY_DEPTH, compileExclude, compileGlobs, type GlobMatch, matchName, matchPath, type Segment } from './glob.js'
import type { Slices } from './slices.js'
import type { Troubles } from './troubles.js'

/** A pattern like `/**` must not walk a whole machine for ever. */
const MAX_FOLDERS = 20_000
const MAX_FILES = 200_000

export interface Found {
  /** Paths that match, and whether the name is a symbolic link (undefined: not looked at). */
  readonly files: Map<string, boolean | undefined>
  /** Folders where a new name could match. */
  readonly folders: Set<string>
}

interface Step {
  readonly folder: string
  readonly segments: readonly Segment[]
  readonly at: number
}

/** Finds the files that `include` and `exclude` name. */
export class Discovery {
  readonly #globs: Segment[][]
  readonly #excluded: (path: string, name: string) => boolean
  readonly #troubles: Troubles

  constructor(include: readonly string[], exclude: readonly string[], troubles: Troubles) {
    this.#globs = compileGlobs(include)
    this.#excluded = compileExclude(exclude)
    this.#troubles = troubles
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
    const found: Found = { files: new Map(), folders: new Set() }
    const listings = new Map<string, Dirent[]>()
    const steps: Step[] = this.#globs.map(segments => ({ folder: '/', segments, at: 0 }))
    for (let step = steps.pop(); step; step = steps.pop()) {
      if (slices.due) await slices.pause()
      if (found.folders.size >= MAX_FOLDERS || found.files.size >= MAX_FILES) {
        const limit = new Error(`more than ${MAX_FOLDERS} folders or ${MAX_FILES} files match; use narrower patterns`)
        this.#troubles.failed(step.folder, 'list', limit)
        break
      }
      this.#step(step, steps, found, listings)
    }
    return found
  }

  #step({ folder, segments, at }: Step, steps: Step[], found: Found, listings: Map<string, Dirent[]>): void {
    let segment = segments[at]!
    const last = segments.length - 1
    while (typeof segment === 'string' && at < last) {
      folder = join(folder, segment)
      segment = segments[++at]!
    }
    found.folders.add(folder)
    if (typeof segment === 'string') {
      this.#add(folder, segment, undefined, found)
      return
    }
    if (segment === ANY_DEPTH && at < last) steps.push({ folder, segments, at: at + 1 })
    let listing = listings.get(folder)
    if (!listing) {
      listing = this.#list(folder)
      listings.set(folder, listing)
    }
    for (const entry of listing) {
      const { name } = entry
      if (segment === ANY_DEPTH) {
        if (name.startsWith('.')) continue
        if (entry.isDirectory()) steps.push({ folder: join(folder, name), segments, at })
        else if (at === last) this.#add(folder, name, entry.isSymbolicLink(), found)
      } else if (matchName(segment, name)) {
        if (at === last) {
          if (!entry.isDirectory()) this.#add(folder, name, entry.isSymbolicLink(), found)
        } else if (entry.isDirectory() || entry.isSymbolicLink()) {
          steps.push({ folder: join(folder, name), segments, at: at + 1 })
        }
      }
    }
  }

  #add(folder: string, name: string, link: boolean | undefined, found: Found): void {
    const path = folder === '/' ? `/${name}` : `${folder}/${name}`
    if (!this.#excluded(path, name)) found.files.set(path, link)
  }

  #list(folder: string): Dirent[] {
    try {
      return readdirSync(folder, { withFileTypes: true })
    } catch (error) {
      const code = errorCode(error)
      if (code !== 'ENOENT' && code !== 'ENOTDIR') this.#troubles.failed(folder, 'list', error)
      return []
    }
  }
}
