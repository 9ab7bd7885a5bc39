interface Member<F> {
  /** Whether the file was read in this run. */
  readonly isBegun: boolean
  isNewerThan(other: F): boolean
}

/**
 * The files whose events have the same file name, in the order in which they are read. Each file is in one lineage and
 * waits only for files before it. So no two files can wait for each other.
 */
export class Lineage<F extends Member<F>> {
  readonly #files: F[] = []

  get isEmpty(): boolean {
    return this.#files.length === 0
  }

  /** Adds a file that has just taken the name. */
  append(file: F): void {
    this.#files.push(file)
  }

  /**
   * Inserts a file by its age, but not before a file that was read in this run. `now`: the newest file, which is the
   * file that has the name now.
   */
  insert(file: F, now: F | undefined): void {
    let at = this.#files.length
    for (; at > 0; at--) {
      const before = this.#files[at - 1]!
      if (before.isBegun || !(before === now || before.isNewerThan(file))) break
    }
    this.#files.splice(at, 0, file)
  }

  remove(file: F): void {
    const at = this.#files.indexOf(file)
    if (at !== -1) this.#files.splice(at, 1)
  }

  /** The files that must be read before `file`. */
  before(file: F): readonly F[] {
    return this.#files[0] === file ? [] : this.#files.slice(0, Math.max(0, this.#files.indexOf(file)))
  }
}
