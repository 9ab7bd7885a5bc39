import type { BigIntStats } from 'node:fs'

/** Maximum number of remembered files that nobody writes any more. */
const MOST_FORMER = 1000

type FileIdentity = Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>

interface Written {
  readonly destinations: Set<string>
  readonly file: FileIdentity
  writers: number
}

interface Graph {
  readonly sources: readonly { readonly id: string }[]
  readonly processors: readonly { readonly id: string; readonly inputs: readonly string[] }[]
  readonly destinations: readonly { readonly id: string; readonly inputs: readonly string[] }[]
}

/**
 * The files that destinations write, by device and inode, even after rotation. A source must not read a file to which
 * its own events are written, because these events would circulate forever. Cycles that are visible in the
 * configuration are rejected at loading. This class finds cycles that links in the file system hide.
 */
export class OwnOutputs {
  readonly #files = new Map<string, Written>()
  readonly #reached = new Map<string, ReadonlySet<string>>()

  connect({ sources, processors, destinations }: Graph): void {
    this.#reached.clear()
    const readers = [...processors, ...destinations]
    for (const { id } of sources) {
      const reached = new Set([id])
      // The set grows during this loop.
      for (const from of reached) {
        for (const reader of readers)
          if (reader.inputs.some(input => input.split('.')[0] === from)) reached.add(reader.id)
      }
      this.#reached.set(id, reached)
    }
  }

  reaches(source: string, component: string): boolean {
    return this.#reached.get(source)?.has(component) === true
  }

  /** Registers `destination` as a writer of this file, until the returned function is called. */
  writes(destination: string, file: FileIdentity): () => void {
    const { dev, ino, birthtimeNs } = file
    const key = `${dev}:${ino}`
    const known = this.#files.get(key)
    const written =
      known?.file.birthtimeNs === birthtimeNs ? known : { destinations: new Set<string>(), file, writers: 0 }
    written.destinations.add(destination)
    written.writers++
    this.#files.delete(key)
    this.#files.set(key, written)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      written.writers--
      // Without a birth time, a later file with the same inode would look like this one.
      if (written.writers === 0 && birthtimeNs === 0n && this.#files.get(key) === written) this.#files.delete(key)
      if (this.#files.size > MOST_FORMER) this.#forget()
    }
  }

  /** Whether a file contains events of this source. `key`: `device:inode`. */
  isOwn(source: string, key: string, birth: bigint): boolean {
    const written = this.#files.get(key)
    // While a destination writes the file, the file is open, so its inode is not reused.
    if (!written || (written.writers === 0 && written.file.birthtimeNs !== birth)) return false
    const reached = this.#reached.get(source)
    return reached !== undefined && [...written.destinations].some(id => reached.has(id))
  }

  #forget(): void {
    for (const [key, { writers }] of this.#files) {
      if (this.#files.size <= MOST_FORMER) return
      if (writers === 0) this.#files.delete(key)
    }
  }
}
