import type { Output } from '../../core/component.js'
import type { Ack } from '../../core/event/ack.js'

const MOST_AT_ONCE = 1000

/**
 * For a source that `redelivers`. Tracks the ids that a server sent, until the server knows that they were delivered.
 * If an id comes back undelivered, the id is forgotten, because the server will send it again.
 */
export class Redelivery {
  readonly #confirm: (ids: readonly string[]) => Promise<unknown>
  /** Ids whose delivery is in progress or is not yet known to the server. */
  readonly #open = new Set<string>()
  #delivered: string[] = []
  #confirming: Promise<void> | undefined
  #gaveBack = false

  /** `confirm` reports delivered ids to the server. If it rejects, the same ids are reported again later. */
  constructor(confirm: (ids: readonly string[]) => Promise<unknown>) {
    this.#confirm = confirm
  }

  /** Whether an id is being delivered, or is delivered but not confirmed yet. If so, do not send the id again. */
  has(id: string): boolean {
    return this.#open.has(id)
  }

  /** Ids that the server must not give to another client. */
  get open(): Iterable<string> {
    return this.#open
  }

  /** Creates the ack of a batch. `ends`: where the content of each id ends in the bytes of the batch. */
  ack(output: Output, ids: readonly string[], ends: readonly number[]): Ack {
    for (const id of ids) this.#open.add(id)
    return output.ack((status, _before, again) => {
      const isBack = (n: number) =>
        status === 'errored' && (!again || again.some(([from, to]) => !(from >= ends[n]! || to <= (ends[n - 1] ?? 0))))
      for (const [n, id] of ids.entries()) {
        if (!isBack(n)) this.#delivered.push(id)
        else this.#gaveBack = this.#open.delete(id)
      }
      void this.confirm()
    })
  }

  /** Whether any id was given back since the last call. If so, the content of this id must be read again. */
  takeBack(): boolean {
    const gaveBack = this.#gaveBack
    this.#gaveBack = false
    return gaveBack
  }

  /** Resolves when the server knows all delivered ids, or confirming failed. */
  confirm(): Promise<void> {
    this.#confirming ??= this.#confirmAll().finally(() => {
      this.#confirming = undefined
    })
    return this.#confirming
  }

  async #confirmAll(): Promise<void> {
    while (this.#delivered.length > 0) {
      const ids = this.#delivered.splice(0, MOST_AT_ONCE)
      try {
        await this.#confirm(ids)
        for (const id of ids) this.#open.delete(id)
      } catch {
        this.#delivered = ids.concat(this.#delivered)
        return
      }
    }
  }
}
