import { dirname } from 'node:path'
import type { Tailer } from '../reading/tailer.js'

export interface SuccessionOptions {
  /** Whether the tailer still reads. */
  isRead(tailer: Tailer): boolean
  /** A new file took the name of `former`. */
  onRotated(path: string, tailer: Tailer, former: Tailer): void
}

/** Which name leads to which file, and which file comes before which. */
export class Succession {
  readonly #options: SuccessionOptions
  readonly #paths = new Map<string, Tailer>()
  /** Which file had a name before it was renamed or deleted: what comes next under that name takes its place. */
  readonly #former = new Map<string, Tailer>()
  /** Where symbolic links lead: that is where appends are seen. */
  readonly #targets = new Map<string, Tailer>()

  constructor(options: SuccessionOptions) {
    this.#options = options
  }

  /** The names that lead to files now. */
  get paths(): ReadonlyMap<string, Tailer> {
    return this.#paths
  }

  /** The file that was found under this name last. */
  at(path: string): Tailer | undefined {
    return this.#paths.get(path) ?? this.#targets.get(path)
  }

  /** The folders that symbolic links lead to. */
  *targetFolders(): Iterable<string> {
    for (const target of this.#targets.keys()) yield dirname(target)
  }

  /** The path, that of a link perhaps, leads to the one without links. */
  setTarget(path: string, target: string, tailer: Tailer): void {
    if (target === path) return
    tailer.target = target
    this.#targets.set(target, tailer)
  }

  /** The name leads to this file. */
  set(path: string, tailer: Tailer): void {
    if (this.#paths.get(path) !== tailer) this.vacate(path)
    this.#paths.set(path, tailer)
    const former = this.#former.get(path)
    if (former) this.#succeed(path, former)
  }

  /** The name leads to another file now, or to none. */
  vacate(path: string): void {
    const tailer = this.#paths.get(path)
    if (!tailer) return
    this.#paths.delete(path)
    this.#former.set(path, tailer)
  }

  /** This file had the name before. */
  setFormer(path: string, tailer: Tailer): void {
    this.#former.set(path, tailer)
  }

  /** New files come after those that had their names. */
  succeed(): void {
    for (const [path, tailer] of this.#former) this.#succeed(path, tailer)
  }

  #succeed(path: string, former: Tailer): void {
    const tailer = this.#paths.get(path)
    if (tailer && tailer !== former && tailer.isNew) {
      if (!former.waitsFor(tailer)) tailer.after = former
      this.#options.onRotated(path, tailer, former)
    }
    if (tailer || !this.#options.isRead(former)) this.#former.delete(path)
  }

  /** Its lines come before those of the file that has the name now, and after those of the ones that had it before. */
  precede(name: string, tailer: Tailer): void {
    const now = this.#paths.get(name)
    const before = now?.isNew ? (now.after ?? this.#former.get(name)) : this.#former.get(name)
    if (before && before !== tailer && !before.waitsFor(tailer)) tailer.after ??= before
    if (now?.isNew) {
      if (!tailer.waitsFor(now)) now.after = tailer
    } else this.#former.set(name, tailer)
  }

  /** Names that led to the one lead to the other. */
  replace(former: Tailer, tailer: Tailer): void {
    tailer.found = former.found
    tailer.target = former.target
    for (const names of [this.#paths, this.#targets, this.#former]) {
      for (const [name, at] of names) if (at === former) names.set(name, tailer)
    }
  }

  forget(tailer: Tailer): void {
    const { path, found, target } = tailer
    if (this.#targets.get(target) === tailer) this.#targets.delete(target)
    for (const name of [path, found]) if (this.#paths.get(name) === tailer) this.#paths.delete(name)
  }
}
