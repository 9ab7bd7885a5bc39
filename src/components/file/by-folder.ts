import { dirname } from 'node:path'

/** A map whose keys are paths, which also knows the paths in each folder. */
export class PathMap<V> extends Map<string, V> {
  readonly #inFolders = new ByFolder<string>()

  override set(path: string, value: V): this {
    if (!this.has(path)) this.#inFolders.add(path, path)
    return super.set(path, value)
  }

  override delete(path: string): boolean {
    this.#inFolders.delete(path, path)
    return super.delete(path)
  }

  in(folder: string): readonly string[] {
    return [...this.#inFolders.in(folder)]
  }

  get folders(): Iterable<string> {
    return this.#inFolders.folders
  }
}

/** Things by the folder of their path. */
export class ByFolder<T> {
  readonly #folders = new Map<string, Set<T>>()

  add(path: string, one: T): this {
    const folder = dirname(path)
    const there = this.#folders.get(folder)
    if (there) there.add(one)
    else this.#folders.set(folder, new Set([one]))
    return this
  }

  /** Returns whether it was there. */
  delete(path: string, one: T): boolean {
    const folder = dirname(path)
    const there = this.#folders.get(folder)
    if (!there?.delete(one)) return false
    if (there.size === 0) this.#folders.delete(folder)
    return true
  }

  in(folder: string): Iterable<T> {
    return this.#folders.get(folder) ?? []
  }

  get folders(): Iterable<string> {
    return this.#folders.keys()
  }
}
