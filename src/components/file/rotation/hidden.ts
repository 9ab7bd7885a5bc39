import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import { statOrNone, withFile } from '../../../lib/files/disk/disk.js'
import type { Remote } from '../discovery/remote.js'
import { keyOf } from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import { type Entry, entryKey } from '../saved.js'
import type { Listed, Unreadable } from './candidates.js'
import type { Known } from './match.js'
import { isRotatedName } from './names.js'
import { mayBeMadeBy } from './owners.js'

/** Files that cannot be read now, and missing files whose rest may be in such a file. Neither kind counts as lost. */
export class Hidden {
  readonly #problems: PathProblems
  readonly #remote: Remote
  /** Entries of files whose rest may be in another file, which cannot be read. */
  readonly #entries = new Set<Entry>()
  /** Keys of files that have a saved position and could not be opened. */
  readonly #unopened = new Set<string>()
  readonly #unreadables = new Map<string, readonly Unreadable[]>()
  /** The unreadable files that may have the rest of a missing file, by path. */
  readonly #hiding = new Map<string, Unreadable>()

  constructor({ problems, remote }: { readonly problems: PathProblems; readonly remote: Remote }) {
    this.#problems = problems
    this.#remote = remote
  }

  /** Starts a search. A thorough search examines all files with a position again. */
  begin(isThorough: boolean): void {
    this.#entries.clear()
    if (isThorough) this.#unopened.clear()
  }

  /** Whether the file of the entry, or another file that may hold the rest of that file, cannot be read now. */
  has(entry: Entry): boolean {
    return this.#entries.has(entry) || this.#unopened.has(entryKey(entry))
  }

  hasUnopened(entries: readonly Entry[]): boolean {
    return this.#unopened.size > 0 && entries.some(entry => this.#unopened.has(entryKey(entry)))
  }

  addUnopened(file: Pick<BigIntStats, 'dev' | 'ino'> | Pick<Entry, 'dev' | 'ino'>): void {
    this.#unopened.add(`${file.dev}:${file.ino}`)
  }

  /** Records a damaged copy that was read as far as possible. Its folder is searched again when it has changed. */
  addCut({ path, name, stat }: Listed): void {
    this.#hiding.set(path, { path, name, stat, error: undefined })
  }

  setUnreadable(folder: string, files: readonly Unreadable[]): void {
    this.#unreadables.set(folder, files)
  }

  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#unreadables.keys()) if (!folders.has(folder)) this.#unreadables.delete(folder)
  }

  /** Whether a file that cannot be read may be the copy of a missing file. Reports each such file. */
  mayHide(
    folder: string,
    { names, birth, since = 0, uids }: Pick<Known, 'names' | 'birth' | 'since' | 'uids'>,
  ): boolean {
    let hides = false
    for (const one of this.#unreadables.get(folder) ?? []) {
      const isIt =
        names.some(name => isRotatedName(one.name, name)) &&
        mayBeMadeBy(one.stat.uid, uids) &&
        Number(one.stat.ctimeNs) / 1e6 >= Math.max(birth, since)
      if (!isIt) continue
      this.#problems.hidden(one.path, one.error)
      this.#hiding.set(one.path, one)
      hides = true
    }
    return hides
  }

  /** Like `mayHide`, but for the file of an entry. If this returns true, `has` also returns true for the entry. */
  mayHideRestOf(entry: Entry, known: Pick<Known, 'names' | 'birth' | 'since' | 'uids'>): boolean {
    const hides = this.mayHide(dirname(entry.path), known)
    if (hides) this.#entries.add(entry)
    return hides
  }

  /** The folders to search again, because a possible copy in them has changed, became readable or is gone. */
  *uncovered(): Iterable<string> {
    for (const [path, { stat: before, error }] of this.#hiding) {
      if (this.#remote.isSilent(path)) continue
      const stat = statOrNone(path)
      const isSame =
        stat !== undefined &&
        keyOf(stat) === keyOf(before) &&
        stat.size === before.size &&
        stat.mtimeNs === before.mtimeNs
      if (isSame && (!isOfSystem(error) || !withFile(path, () => true))) continue
      this.#hiding.delete(path)
      if (stat) this.#problems.over(path)
      yield dirname(path)
    }
  }
}
