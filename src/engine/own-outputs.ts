import type { BigIntStats } from 'node:fs'
import type { Config } from '../config/load.js'

/** More files than this are not remembered once nobody writes to them any more. */
const MOST_FORMER = 1000

interface Written {
  readonly destinations: Set<string>
  readonly birth: bigint
  writers: number
}

/**
 * The files that destinations write to, by device and inode, also after they were rotated. A source does not read those
 * that its own events come to: each would come round for ever. What a configuration shows is refused when it is
 * loaded; here is seen what links hide.
 */
export class OwnOutputs {
  readonly #files = new Map<string, Written>()
  /** The destinations that events of a source reach. */
  readonly #reached = new Map<string, ReadonlySet<string>>()

  /** The components are connected like this from now on. */
  connect({ sources, processors, destinations }: Config): void {
    this.#reached.clear()
    const readers = [...processors, ...destinations]
    for (const { id } of sources) {
      const reached = new Set([id])
      // Grows while it is gone through.
      for (const from of reached) {
        for (const reader of readers)
          if (reader.inputs.some(input => input.split('.')[0] === from)) reached.add(reader.id)
      }
      this.#reached.set(id, reached)
    }
  }

  /** `destination` writes to this file from now on, until the result is called. */
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
      // Without a time of birth another file that gets its inode could not be distinguished from it.
      if (written.writers === 0 && birthtimeNs === 0n && this.#files.get(key) === written) this.#files.delete(key)
      if (this.#files.size > MOST_FORMER) this.#forget()
    }
  }

  /** Whether the file, known as `device:inode`, has events of this source. */
  isOwn(source: string, key: string, birth: bigint): boolean {
    const written = this.#files.get(key)
    // While it is open nobody else gets its inode.
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
