import { dirname } from 'node:path'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { ByFolder, Names } from '../by-folder.js'
import { Lineage } from '../lineage.js'
import type { Tailer } from '../reading/tailer.js'
import type { Displaced } from '../saved.js'

interface Former {
  readonly tailer: Tailer
  /** When the name last referred to the file, wall clock in milliseconds. */
  readonly since: number
  /** Where the last sweep found the file. */
  readonly found: string
}

/**
 * The files that are read, by inode, by folder and by name. Maps each name to the file that has it now, and remembers
 * the file that had the name before. Invariant: there is one tailer per inode, even if it has several names.
 */
export abstract class Registry {
  /** By the file name in their events. */
  readonly lineages = new Map<string, Lineage<Tailer>>()
  readonly #tailers = new Map<string, Tailer>()
  readonly #inFolders = new ByFolder<Tailer>()
  /** The files that have a name now. */
  readonly #named = new Names<Tailer>(tailer => tailer)
  /** The file that had a name before it was renamed or deleted. The next file with this name follows this file. */
  readonly #former = new Names<Tailer, Former>(({ tailer }) => tailer)
  /** Targets of symbolic links, where watches report appends. */
  readonly #targets = new Names<Tailer>(tailer => tailer)

  /** Wall clock in milliseconds. All files that had this name before this time were seen under it. */
  abstract lookedAtName(path: string): number
  /** Whether a file with this name is or was read. */
  abstract isName(path: string): boolean
  /** Called when the name refers to another file than before. */
  abstract displace(path: string, since?: number): void
  /** Called when a new file took the name of `former`. */
  protected abstract rotated(path: string, tailer: Tailer, former: Tailer): void

  get tailers(): Iterable<Tailer> {
    return this.#tailers.values()
  }

  get size(): number {
    return this.#tailers.size
  }

  /** The file with this device and inode. */
  byKey(key: string): Tailer | undefined {
    return this.#tailers.get(key)
  }

  reads(tailer: Tailer): boolean {
    return this.#tailers.get(tailer.key) === tailer
  }

  in(folder: string): Iterable<Tailer> {
    return this.#inFolders.in(folder)
  }

  /** The file that has this name now. */
  named(path: string): Tailer | undefined {
    return this.#named.get(path)
  }

  /** The names that files have now. */
  get names(): Iterable<string> {
    return this.#named.keys()
  }

  /** The file last found under this name, or at the target of a link. */
  at(path: string): Tailer | undefined {
    return this.#named.get(path) ?? this.#targets.get(path)
  }

  /** The file that has or, before it was renamed or deleted, had this name. */
  protected last(path: string): Tailer | undefined {
    return this.#named.get(path) ?? this.#former.get(path)?.tailer
  }

  /** Names that no file has now, and since when. Other files may have had them meanwhile. */
  protected get vacant(): Displaced[] {
    const vacant = [...this.#former].filter(([path]) => !this.#named.has(path))
    return vacant.map(([path, { since }]) => ({ path, since }))
  }

  /** Since when no file has the name that a file had before; undefined if a file has it. Wall clock in milliseconds. */
  protected vacantSince(path: string): number | undefined {
    return this.#named.has(path) ? undefined : this.#former.get(path)?.since
  }

  get targetFolders(): Iterable<string> {
    return new Set(Array.from(this.#targets.keys(), path => dirname(path)))
  }

  /** `isNewest`: the file just took its name. */
  protected add(tailer: Tailer, isNewest: boolean): void {
    this.#tailers.set(tailer.key, tailer)
    this.#inFolders.add(tailer.path, tailer)
    const name = tailer.origin.path!
    const lineage = this.lineages.get(name) ?? new Lineage<Tailer>()
    this.lineages.set(name, lineage)
    tailer.join(lineage)
    if (isNewest) lineage.append(tailer)
    else lineage.insert(tailer, this.#named.get(name))
  }

  /** Forgets the file. The files that follow it under its names still follow it. */
  protected remove(tailer: Tailer): void {
    const { key, path, found, target, origin, lineage } = tailer
    this.#tailers.delete(key)
    this.#inFolders.delete(path, tailer)
    lineage?.remove(tailer)
    if (lineage?.isEmpty) this.lineages.delete(origin.path!)
    if (this.#targets.get(target) === tailer) this.#targets.delete(target)
    for (const name of [path, found]) if (this.#named.get(name) === tailer) this.#named.delete(name)
  }

  moved(tailer: Tailer, before: string): void {
    if (this.#inFolders.delete(before, tailer)) this.#inFolders.add(tailer.path, tailer)
  }

  /** Called when the file has another key than before. */
  protected rekeyed(tailer: Tailer, before: string): void {
    this.#tailers.delete(before)
    this.#tailers.set(tailer.key, tailer)
  }

  /** Records that `path`, possibly a link, resolves to `target`. */
  protected setTarget(path: string, target: string, tailer: Tailer): void {
    if (target === path) return
    tailer.setNames({ found: tailer.found, target })
    this.#targets.set(target, tailer)
  }

  protected setName(path: string, tailer: Tailer): void {
    if (this.#named.get(path) !== tailer) this.vacate(path)
    const former = this.#former.get(path)
    // Another file had the name, and was not opened in this run.
    if (!former && tailer.isNew && !this.#named.has(path) && this.isName(path)) this.displace(path)
    this.#named.set(path, tailer)
    if (former) this.#succeed(path, former)
  }

  /** Records that the name no longer refers to its file. */
  protected vacate(path: string): void {
    const tailer = this.#named.get(path)
    if (!tailer) return
    this.#named.delete(path)
    this.setFormer(path, tailer)
    this.displace(path, this.#former.get(path)!.since)
  }

  protected setFormer(path: string, tailer: Tailer): void {
    const { since = this.lookedAtName(path) } = this.#former.get(path) ?? {}
    this.#former.set(path, { tailer, since, found: tailer.found })
  }

  /** Records that this file had the name, unless the name refers to a new file now. */
  protected precede(path: string, tailer: Tailer): void {
    if (!this.#named.get(path)?.isNew) this.setFormer(path, tailer)
  }

  /** Gives the names of a file that was truncated to the tailer of its new content. */
  protected replace(former: Tailer, tailer: Tailer): void {
    tailer.setNames(former)
    for (const names of [this.#named, this.#targets]) for (const name of names.of(former)) names.set(name, tailer)
    for (const name of this.#former.of(former)) this.setFormer(name, tailer)
  }

  protected async succeed(slices: TimeSlices): Promise<void> {
    await slices.each(this.#former, ([path, former]) => {
      this.#succeed(path, former)
    })
  }

  #succeed(path: string, { tailer: former, since, found }: Former): void {
    const tailer = this.#named.get(path)
    const isSucceeded = tailer && tailer !== former && tailer.isNew
    const waits = !tailer && this.reads(former)
    if (waits && former.found === found) return
    if (isSucceeded) this.rotated(path, tailer, former)
    // If the former file of a vacant name was renamed once more by a rotation, other files had the name in between.
    if (waits) this.setFormer(path, former)
    else this.#former.delete(path)
    if (!tailer || isSucceeded) this.displace(path, since)
  }
}
