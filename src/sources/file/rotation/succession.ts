import { dirname } from 'node:path'
import type { Tailer } from '../reading/tailer.js'
import type { Tracked } from '../reading/tracked.js'

export interface SuccessionOptions {
  /** Whether the tailer is still in use. */
  isRead(tailer: Tailer): boolean
  /** Called when a new file took the name of `former`. */
  onRotated(path: string, tailer: Tailer, former: Tailer): void
}

/** Maps names to files, and determines which file comes before which. */
export class Succession {
  readonly #options: SuccessionOptions
  readonly #paths = new Map<string, Tailer>()
  /** The file that had a name before it was renamed or deleted; the next file with this name follows it. */
  readonly #former = new Map<string, Tailer>()
  /** Targets of symbolic links, where watches report appends. */
  readonly #targets = new Map<string, Tailer>()

  constructor(options: SuccessionOptions) {
    this.#options = options
  }

  /** The current names. */
  get paths(): ReadonlyMap<string, Tailer> {
    return this.#paths
  }

  /** The file last found under this name. */
  at(path: string): Tailer | undefined {
    return this.#paths.get(path) ?? this.#targets.get(path)
  }

  /** The target folders of symbolic links. */
  *targetFolders(): Iterable<string> {
    for (const target of this.#targets.keys()) yield dirname(target)
  }

  /** Records that `path`, possibly a link, resolves to `target`. */
  setTarget(path: string, target: string, tailer: Tailer): void {
    if (target === path) return
    tailer.target = target
    this.#targets.set(target, tailer)
  }

  /** Assigns the name to this file. */
  set(path: string, tailer: Tailer): void {
    if (this.#paths.get(path) !== tailer) this.vacate(path)
    this.#paths.set(path, tailer)
    const former = this.#former.get(path)
    if (former) this.#succeed(path, former)
  }

  /** The name no longer refers to its file. */
  vacate(path: string): void {
    const tailer = this.#paths.get(path)
    if (!tailer) return
    this.#paths.delete(path)
    this.#former.set(path, tailer)
  }

  /** Records that this file had the name before. */
  setFormer(path: string, tailer: Tailer): void {
    this.#former.set(path, tailer)
  }

  /** Puts new files after those that had their names. */
  succeed(): void {
    for (const [path, tailer] of this.#former) this.#succeed(path, tailer)
  }

  #succeed(path: string, former: Tailer): void {
    const tailer = this.#paths.get(path)
    if (tailer && tailer !== former && tailer.isNew) {
      if (!former.waitsFor(tailer)) {
        tailer.after = former
        tailer.former = former
        if (!former.former?.isOpen) former.former = undefined
      }
      this.#options.onRotated(path, tailer, former)
    }
    if (tailer || !this.#options.isRead(former)) this.#former.delete(path)
  }

  /** Puts the tailer before the current file of this name, and after the earlier ones. */
  precede(name: string, tailer: Tailer): void {
    const now = this.#paths.get(name)
    const before = now?.isNew ? (now.after ?? this.#former.get(name)) : this.#former.get(name)
    if (before?.isNewerThan(tailer)) {
      insert(tailer, before)
      return
    }
    if (before && before !== tailer && !before.waitsFor(tailer)) tailer.after ??= before
    if (now?.isNew) {
      if (!tailer.waitsFor(now)) now.after = tailer
    } else this.#former.set(name, tailer)
  }

  /** Transfers the names of one tailer to another. */
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

/** Puts the tailer before `newer`, and after what came before that and is older. */
function insert(tailer: Tailer, newer: Tracked): void {
  let next = newer
  while (next.after?.isNewerThan(tailer)) next = next.after
  if (tailer.waitsFor(next)) return
  if (next.after && next.after !== tailer && !next.after.waitsFor(tailer)) tailer.after ??= next.after
  next.after = tailer
}
