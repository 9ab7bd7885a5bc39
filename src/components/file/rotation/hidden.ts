import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { closeSync, statOrNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Remote } from '../discovery/remote.js'
import { keyOf } from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Displaced, type Entry, entryKey } from '../saved.js'
import type { Unreadable } from './candidates.js'
import type { Listed } from './owners.js'
import { mayHide } from './plan.js'
import { ofTailer } from './subjects.js'

interface HiddenOptions {
  readonly problems: PathProblems
  readonly remote: Remote
  open(path: string): number
}

/** If there is no `stat`, the file could not be examined. */
type Hiding = Partial<Pick<Unreadable, 'stat' | 'error'>> & { readonly displaced?: ReadonlyMap<string, number> }

/** Files that cannot be read now, and missing files whose rest may be in such a file. Neither kind counts as lost. */
export class Hidden {
  readonly #options: HiddenOptions
  /** Entries of files whose rest may be in another file, which cannot be read. */
  readonly #entries = new Set<Entry>()
  /** Keys of files that have a saved position and could not be opened. */
  readonly #unopened = new Set<string>()
  readonly #unreadables = new Map<string, readonly Unreadable[]>()
  /** The files that may have the rest of a missing file, or had a displaced name, by path. */
  readonly #hiding = new Map<string, Hiding>()

  constructor(options: HiddenOptions) {
    this.#options = options
  }

  /** The displaced names that unreadable files may have had. */
  get displaced(): Displaced[] {
    const all = [...this.#hiding.values()].flatMap(({ displaced }) => [...(displaced ?? [])])
    return all.map(([path, since]) => ({ path, since }))
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

  hasUnopened(entries: Iterable<Entry>): boolean {
    return this.#unopened.size > 0 && [...entries].some(entry => this.#unopened.has(entryKey(entry)))
  }

  addUnopened(file: Pick<BigIntStats, 'dev' | 'ino'> | Pick<Entry, 'dev' | 'ino'>): void {
    this.#unopened.add(`${file.dev}:${file.ino}`)
  }

  /** Records that these files may have the rest of the entry's file. If there are none, they are not known yet. */
  add(entry: Entry, hiding: readonly Unreadable[]): void {
    if (hiding.length === 0) this.addUnopened(entry)
    else this.#entries.add(entry)
    this.#addHiding(hiding)
  }

  #addHiding(hiding: readonly Unreadable[]): void {
    for (const one of hiding) {
      this.#options.problems.hidden(one.path, one.error)
      this.#hiding.set(one.path, { ...this.#hiding.get(one.path), ...one })
    }
  }

  /** Records a damaged copy that was read as far as possible. Its folder is searched again when it has changed. */
  addCut({ path, stat }: Listed): void {
    this.#hiding.set(path, { stat })
  }

  /** Records that the file at `path`, which cannot be opened or examined now, may have had a displaced name. */
  addDisplaced(path: string, { path: name, since }: Displaced): void {
    const { displaced, ...before } = this.#hiding.get(path) ?? {}
    const earliest = Math.min(since, displaced?.get(name) ?? since)
    this.#hiding.set(path, { ...before, displaced: new Map(displaced).set(name, earliest) })
  }

  setUnreadable(folder: string, files: readonly Unreadable[]): void {
    this.#unreadables.set(folder, files)
  }

  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#unreadables.keys()) if (!folders.has(folder)) this.#unreadables.delete(folder)
  }

  /** Whether the tailer's file, or another one, cannot be read and may hold the rest. Reports each other file. */
  mayHideRestOf(tailer: Tailer): boolean {
    // The next searches look for it, and read it as soon as that is possible.
    const isThere = tailer.fd !== undefined && !tailer.unlinked
    if (isThere) this.#unopened.add(tailer.key)
    const known = ofTailer(tailer)
    const hiding = (this.#unreadables.get(dirname(tailer.path)) ?? []).filter(one => mayHide(one, known))
    this.#addHiding(hiding)
    return isThere || hiding.length > 0
  }

  /** The files that have changed, became readable or are gone, so that their folders must be searched again. */
  *uncovered(): Iterable<{ readonly path: string; readonly displaced?: Hiding['displaced'] | undefined }> {
    const { problems, remote, open } = this.#options
    for (const [path, { stat: before, error, displaced }] of this.#hiding) {
      if (remote.isSilent(path)) continue
      const stat = statOrNone(path)
      const isSame =
        before && stat && keyOf(stat) === keyOf(before) && stat.size === before.size && stat.mtimeNs === before.mtimeNs
      // Other errors are in the content of the file.
      if (isSame && !displaced && !isOfSystem(error)) continue
      try {
        if (isSame || !before) closeSync(open(path))
      } catch (error) {
        unlessSilent(error)
        if (errorCode(error) !== 'ENOENT') {
          if (displaced) problems.failed(path, 'open', error)
          continue
        }
      }
      this.#hiding.delete(path)
      if (stat) problems.over(path)
      yield { path, displaced }
    }
  }
}
