/** The keys of one pipeline. */
export interface KeptKeys {
  readonly size: number
  readonly older: number
  /** Returns how many were forgotten. */
  forgetOlder(): number
}

/** Bounds the memory that the idempotency keys of an account take: the oldest ones are forgotten first. */
export class AccountKeys {
  readonly #most: number
  readonly #forgotten: (keys: number) => void
  readonly #pipelines = new Set<KeptKeys>()

  constructor(most: number, forgotten: (keys: number) => void) {
    this.#most = most
    this.#forgotten = forgotten
  }

  get size(): number {
    let size = 0
    for (const keys of this.#pipelines) size += keys.size
    return size
  }

  /** Keys that one generation of a pipeline may have: two of them from each pipeline have room. */
  get generationKeys(): number {
    return Math.max(1, Math.floor(this.#most / (2 * Math.max(1, this.#pipelines.size))))
  }

  add(keys: KeptKeys): void {
    this.#pipelines.add(keys)
    this.trim()
  }

  remove(keys: KeptKeys): void {
    this.#pipelines.delete(keys)
  }

  /** Makes room: the pipeline with the most old keys forgets these; where none has old keys, the one with the most keys. */
  trim(): void {
    let forgotten = 0
    while (this.size > this.#most) {
      const all = [...this.#pipelines]
      const old = all.some(({ older }) => older > 0)
      const amount = (keys: KeptKeys) => (old ? keys.older : keys.size)
      forgotten += all.reduce((most, keys) => (amount(keys) > amount(most) ? keys : most)).forgetOlder()
    }
    if (forgotten > 0) this.#forgotten(forgotten)
  }

  /** A pipeline forgot keys early, to leave room to others. */
  forgot(keys: number): void {
    this.#forgotten(keys)
  }
}
