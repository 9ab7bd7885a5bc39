import type { BigIntStats } from 'node:fs'
import type { Config } from '../config/load.js'

/** How many files that are no longer written to are remembered. */
const MOST_FORMER = 1000

interface Written {
  readonly destinations: Set<string>
  readonly birth: bigint
  writers: number
}

/**
 * The files that destinations write to, by device and inode, even after rotation. A source must not read a file that
 * its own events reach, which would make them circulate forever. Cycles visible in the configuration are refused when
 * it is loaded; this class detects those hidden by links.
 */
export class OwnOutputs {
  readonly #files = new Map<string, Written>()
  /** The components that events of a source reach. */
  readonly #reached = new Map<string, ReadonlySet<string>>()

  connect({ sources, processors, destinations }: Config): void {
    this.#reached.clear()
    const readers = [...processors, ...destinations]
    for (const { id } of sources) {
      const reached = new Set([id])
      // The set grows during the iteration.
      for (const from of reached) {
        for (const reader of readers)
          if (reader.inputs.some(input => input.split('.')[0] === from)) reached.add(reader.id)
      }
      this.#reached.set(id, reached)
    }
  }

  /** Registers `destination` as a writer of this file until the returned function is called. */
  writes(destination: string, { dev, ino, birthtimeNs }: Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>): () => void {
    const key = `${dev}:${ino}`
    const known = this.#files.get(key)
    const written =
      known?.birth === birthtimeNs ? known : { destinations: new Set<string>(), birth: birthtimeNs, writers: 0 }
    written.destinations.add(destination)
    written.writers++
    this.#files.delete(key)
    this.#files.set(key, written)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      written.writers--
      // Without a birth time, a later file with the same inode could not be distinguished.
      if (written.writers === 0 && birthtimeNs === 0n && this.#files.get(key) === written) this.#files.delete(key)
      if (this.#files.size > MOST_FORMER) this.#forget()
    }
  }

  /** Whether the file, given as `device:inode`, contains events of this source. */
  isOwn(source: string, key: string, birth: bigint): boolean {
    const written = this.#files.get(key)
    // While the file is open, its inode is not reused.
    if (!written || (written.writers === 0 && written.birth !== birth)) return false
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
