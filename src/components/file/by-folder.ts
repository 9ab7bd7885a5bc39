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

/** A map whose keys are names of files, which also knows the names of each file. */
export class Names<F, V = F> extends Map<string, V> {
  readonly #fileOf: (value: V) => F
  readonly #names = new Grouped<F, string>()

  constructor(fileOf: (value: V) => F) {
    super()
    this.#fileOf = fileOf
  }

  override set(name: string, value: V): this {
    const before = this.get(name)
    if (before) this.#names.delete(this.#fileOf(before), name)
    this.#names.add(this.#fileOf(value), name)
    return super.set(name, value)
  }

  override delete(name: string): boolean {
    const before = this.get(name)
    if (before) this.#names.delete(this.#fileOf(before), name)
    return super.delete(name)
  }

  of(file: F): readonly string[] {
    return [...this.#names.in(file)]
  }
}

export class Grouped<G, T> {
  readonly #groups = new Map<G, Set<T>>()

  add(group: G, one: T): void {
    const there = this.#groups.get(group)
    if (there) there.add(one)
    else this.#groups.set(group, new Set([one]))
  }

  /** Returns whether it was there. */
  delete(group: G, one: T): boolean {
    const there = this.#groups.get(group)
    if (!there?.delete(one)) return false
    if (there.size === 0) this.#groups.delete(group)
    return true
  }

  has(group: G): boolean {
    return this.#groups.has(group)
  }

  in(group: G): Iterable<T> {
    return this.#groups.get(group) ?? []
  }

  get groups(): Iterable<G> {
    return this.#groups.keys()
  }
}

/** Things by the folder of their path. */
export class ByFolder<T> {
  readonly #folders = new Grouped<string, T>()

  add(path: string, one: T): this {
    this.#folders.add(dirname(path), one)
    return this
  }

  /** Returns whether it was there. */
  delete(path: string, one: T): boolean {
    return this.#folders.delete(dirname(path), one)
  }

  in(folder: string): Iterable<T> {
    return this.#folders.in(folder)
  }

  get folders(): Iterable<string> {
    return this.#folders.groups
  }
}
