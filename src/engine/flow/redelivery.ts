import type { Output } from '../../core/component.js'
import type { Ack } from '../../core/event/ack.js'

/** Ids in one confirmation. */
const MOST_AT_ONCE = 1000

/**
 * What a server gave to a source that `redelivers`, by ids, until the server knows that it was delivered. What is given
 * back is forgotten: the server gives it again.
 */
export class Redelivery {
  readonly #confirm: (ids: readonly string[]) => Promise<unknown>
  /** Until the server knows. */
  readonly #open = new Set<string>()
  #delivered: string[] = []
  #confirming: Promise<void> | undefined
  #gaveBack = false

  /** `confirm` says to the server that these are delivered. If it rejects, it is called with them again later. */
  constructor(confirm: (ids: readonly string[]) => Promise<unknown>) {
    this.#confirm = confirm
  }

  /** Whether it is on its way, or delivered and the server does not know that: it must not be sent again. */
  has(id: string): boolean {
    return this.#open.has(id)
  }

  /** What the server must give to nobody else. */
  get open(): Iterable<string> {
    return this.#open
  }

  /** The ack of a batch. `ends`: where in its bytes the content of each id ends. */
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

  /** Whether something was given back since this was asked last: it has to be read again. */
  takeBack(): boolean {
    const gaveBack = this.#gaveBack
    this.#gaveBack = false
    return gaveBack
  }

  /** Resolves when the server knows of all that is delivered, or a confirmation has failed. */
  confirm(): Promise<void> {
    this.#confirming ??= this.#tell().finally(() => {
      this.#confirming = undefined
    })
    return this.#confirming
  }

  async #tell(): Promise<void> {
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
