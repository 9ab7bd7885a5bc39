import { dirname } from 'node:path'
import type { Tailer } from '../reading/tailer.js'
import type { Tracked } from '../reading/tracked.js'

export interface SuccessionOptions {
  /** Whether the tailer is still in use. */
  isRead(tailer: Tailer): boolean
  /** Called when a new file took the name of `former`. */
  onRotated(path: string, tailer: Tailer, former: Tailer): void
  /** Time before which all rotations were observed, wall clock in milliseconds. */
  lookedAt(): number
  /** Called when files may have come and gone under this name since a time, wall clock in milliseconds. */
  onGap(path: string, since: number): void
}

interface Former {
  readonly tailer: Tailer
  /** When the name last referred to it, wall clock in milliseconds. */
  readonly since: number
}

/** Maps names to files, and determines which file comes before which. */
export class Succession {
  readonly #options: SuccessionOptions
  readonly #paths = new Map<string, Tailer>()
  /** The file that had a name before it was renamed or deleted; the next file with this name follows it. */
  readonly #former = new Map<string, Former>()
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

  /** Whether a file has this name, or had it and is still read. */
  knows(path: string): boolean {
    return this.#paths.has(path) || this.#former.has(path)
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
    this.setFormer(path, tailer)
    this.#options.onGap(path, this.#former.get(path)!.since)
  }

  /** Records that this file had the name before. */
  setFormer(path: string, tailer: Tailer): void {
    const { since = this.#options.lookedAt() } = this.#former.get(path) ?? {}
    this.#former.set(path, { tailer, since })
  }

  /** Puts new files after those that had their names. */
  succeed(): void {
    for (const [path, former] of this.#former) this.#succeed(path, former)
  }

  #succeed(path: string, { tailer: former, since }: Former): void {
    const tailer = this.#paths.get(path)
    if (tailer && tailer !== former && tailer.isNew) {
      if (!former.waitsFor(tailer)) {
        tailer.after = former
        tailer.former = former
        if (!former.former?.isOpen) former.former = undefined
      }
      this.#options.onRotated(path, tailer, former)
      this.#options.onGap(path, since)
    }
    if (!tailer && this.#options.isRead(former)) return
    this.#former.delete(path)
    if (!tailer) this.#options.onGap(path, since)
  }

  /** Puts the tailer before the current file of this name, and after the earlier ones. */
  precede(name: string, tailer: Tailer): void {
    const now = this.#paths.get(name)
    const before = now?.isNew ? (now.after ?? this.#former.get(name)?.tailer) : this.#former.get(name)?.tailer
    if (before?.isNewerThan(tailer)) {
      insert(tailer, before)
      return
    }
    if (before && before !== tailer && !before.waitsFor(tailer)) tailer.after ??= before
    if (now?.isNew) {
      if (tailer.waitsFor(now)) return
      now.after = tailer
      // Programs may still write to it, unless it is a copy.
      if (!tailer.copy) now.former = tailer
    } else this.setFormer(name, tailer)
  }

  /** Transfers the names of one tailer to another. */
  replace(former: Tailer, tailer: Tailer): void {
    tailer.found = former.found
    tailer.target = former.target
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

/** Puts the tailer before `newer`, and after what came before that and is older. */
function insert(tailer: Tailer, newer: Tracked): void {
  let next = newer
  while (next.after?.isNewerThan(tailer)) next = next.after
  if (tailer.waitsFor(next)) return
  if (next.after && next.after !== tailer && !next.after.waitsFor(tailer)) tailer.after ??= next.after
  next.after = tailer
}
