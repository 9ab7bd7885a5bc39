import type { BigIntStats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { statSync } from '../../../lib/files/remote/guarded-fs.js'
import type { NameKind } from '../discovery/discovery.js'
import type { Tailer } from '../reading/tailer.js'
import type { Slices } from '../slices.js'
import { originalNames } from './names.js'
import type { Rotated } from './rotated.js'

export interface PossibleCopiesOptions {
  readonly rotated: Rotated
  /** Whether a file of this name is or was read. */
  isName(path: string): boolean
  /** The file being read under this name. */
  at(path: string): Tailer | undefined
  /** Whether the copies of the file of this name are all matched. */
  isSettled(path: string): boolean
  /** Reads the file as one of its own. */
  examine(path: string, kind: NameKind): void
}

interface Seen {
  readonly of: Tailer
  readonly size: bigint
  readonly changedAt: bigint
}

/**
 * New files whose names may be those of copies. A copy is created before its original is truncated, and until then its
 * content is read from the original. So it waits until the original is truncated, and then its rest is read; or until
 * it has different content, and then it is read as a file of its own.
 */
export class PossibleCopies {
  readonly #options: PossibleCopiesOptions
  readonly #waiting = new Map<string, NameKind>()
  /** Copies that were examined, with the state in which they need no further examination. */
  readonly #copies = new Map<string, Seen>()

  constructor(options: PossibleCopiesOptions) {
    this.#options = options
  }

  /** Whether files wait to be examined. */
  get wait(): boolean {
    return this.#waiting.size > 0
  }

  /** Whether the name is that of a copy. If so, it waits for `takeUp`. */
  add(path: string, kind: NameKind): boolean {
    if (!originalsOf(path).some(original => this.#options.isName(original))) return false
    this.#waiting.set(path, kind)
    return true
  }

  /** Reads the files that are not copies. Call when the copies of truncated files are known. */
  async takeUp(slices: Slices): Promise<void> {
    for (const [path, kind] of [...this.#waiting]) {
      if (slices.due) await slices.pause()
      this.#waiting.delete(path)
      const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
      if (!stat?.isFile()) continue
      const state = this.#stateOf(path, stat)
      if (state === 'later') this.#waiting.set(path, kind)
      else if (state === 'new') this.#options.examine(path, kind)
    }
    for (const [path, { of }] of this.#copies)
      if (!originalsOf(path).some(name => this.#options.at(name) === of)) this.#copies.delete(path)
  }

  /** `later`: it may contain the rest of an original that was truncated. */
  #stateOf(path: string, stat: BigIntStats): 'copy' | 'later' | 'new' {
    const { at, isSettled, rotated } = this.#options
    for (const original of originalsOf(path)) {
      if (!isSettled(original)) return 'later'
      const tailer = at(original)
      if (!tailer || tailer.copy || tailer.fd === undefined) continue
      // A copy that has just been created.
      if (stat.size === 0n) return 'copy'
      const seen = this.#copies.get(path)
      if (seen?.of === tailer && seen.size === stat.size && seen.changedAt === stat.mtimeNs) return 'copy'
      if (!rotated.isCopyOf(path, tailer.fd)) {
        // The original may have been truncated during the comparison.
        if (!isSettled(original)) return 'later'
        continue
      }
      this.#copies.set(path, { of: tailer, size: stat.size, changedAt: stat.mtimeNs })
      return 'copy'
    }
    this.#copies.delete(path)
    return 'new'
  }
}

/** The paths of files that, by its name alone, the file at `path` may be a copy of. */
export function originalsOf(path: string): string[] {
  const folder = dirname(path)
  return [...originalNames(basename(path))].map(name => join(folder, name))
}
