import { dirname } from 'node:path'
import type { Slices } from '../../../lib/slices.js'
import type { OpenFiles } from '../open-files.js'
import type { Tailer } from '../reading/tailer.js'
import type { Displaced } from '../saved.js'

interface Former {
  readonly tailer: Tailer
  /** When the name last referred to the file, wall clock in milliseconds. */
  readonly since: number
  /** Where the last sweep found the file. */
  readonly found: string
}

/** Maps each name to the file that has it now, and remembers the file that had the name before. */
export class CurrentNames {
  readonly #files: OpenFiles
  readonly #paths = new Map<string, Tailer>()
  /** The file that had a name before it was renamed or deleted. The next file with this name follows this file. */
  readonly #former = new Map<string, Former>()
  /** Targets of symbolic links, where watches report appends. */
  readonly #targets = new Map<string, Tailer>()

  constructor(files: OpenFiles) {
    this.#files = files
  }

  get paths(): ReadonlyMap<string, Tailer> {
    return this.#paths
  }

  /** Names that no file has now, and since when. Other files may have had them meanwhile. */
  get vacant(): Displaced[] {
    const vacant = [...this.#former].filter(([path]) => !this.#paths.has(path))
    return vacant.map(([path, { since }]) => ({ path, since }))
  }

  at(path: string): Tailer | undefined {
    return this.#paths.get(path) ?? this.#targets.get(path)
  }

  /** The file that has or, before it was renamed or deleted, had this name. */
  last(path: string): Tailer | undefined {
    return this.#paths.get(path) ?? this.#former.get(path)?.tailer
  }

  /** Whether a file has this name, or a file that had it is still being read. */
  knows(path: string): boolean {
    return this.#paths.has(path) || this.#former.has(path)
  }

  /** Since when no file has the name that a file had before; undefined if a file has it. Wall clock in milliseconds. */
  vacantSince(path: string): number | undefined {
    return this.#paths.has(path) ? undefined : this.#former.get(path)?.since
  }

  *targetFolders(): Iterable<string> {
    for (const target of this.#targets.keys()) yield dirname(target)
  }

  /** Records that `path`, possibly a link, resolves to `target`. */
  setTarget(path: string, target: string, tailer: Tailer): void {
    if (target === path) return
    tailer.setTarget(target)
    this.#targets.set(target, tailer)
  }

  set(path: string, tailer: Tailer): void {
    if (this.#paths.get(path) !== tailer) this.vacate(path)
    const former = this.#former.get(path)
    // Another file had the name, and was not opened in this run.
    if (!former && tailer.isNew && !this.#paths.has(path) && this.#files.isName(path)) this.#files.displace(path)
    this.#paths.set(path, tailer)
    if (former) this.#succeed(path, former)
  }

  /** Records that the name no longer refers to its file. */
  vacate(path: string): void {
    const tailer = this.#paths.get(path)
    if (!tailer) return
    this.#paths.delete(path)
    this.setFormer(path, tailer)
    this.#files.displace(path, this.#former.get(path)!.since)
  }

  setFormer(path: string, tailer: Tailer): void {
    const { since = this.#files.lookedAtName(path) } = this.#former.get(path) ?? {}
    this.#former.set(path, { tailer, since, found: tailer.found })
  }

  async succeed(slices: Slices): Promise<void> {
    for (const [path, former] of this.#former) {
      if (slices.due) await slices.pause()
      this.#succeed(path, former)
    }
  }

  #succeed(path: string, { tailer: former, since, found }: Former): void {
    const tailer = this.#paths.get(path)
    const isSucceeded = tailer && tailer !== former && tailer.isNew
    const waits = !tailer && this.#files.reads(former)
    if (waits && former.found === found) return
    if (isSucceeded) this.#files.rotated(path, tailer, former)
    // If the former file of a vacant name was renamed once more by a rotation, other files had the name in between.
    if (waits) this.setFormer(path, former)
    else this.#former.delete(path)
    if (!tailer || isSucceeded) this.#files.displace(path, since)
  }

  /** Records that this file had the name, unless the name refers to a new file now. */
  precede(path: string, tailer: Tailer): void {
    if (!this.#paths.get(path)?.isNew) this.setFormer(path, tailer)
  }

  replace(former: Tailer, tailer: Tailer): void {
    tailer.takeNames(former)
    for (const names of [this.#paths, this.#targets]) {
      for (const [name, at] of names) if (at === former) names.set(name, tailer)
    }
    for (const [name, { tailer: at }] of this.#former) if (at === former) this.setFormer(name, tailer)
  }

  forget(tailer: Tailer): void {
    const { path, found, target } = tailer
    if (this.#targets.get(target) === tailer) this.#targets.delete(target)
    for (const name of [path, found]) if (this.#paths.get(name) === tailer) this.#paths.delete(name)
  }
}
