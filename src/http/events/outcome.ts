import type { AckStatus } from '../../core/ack.js'

const RANK: Record<AckStatus, number> = { delivered: 0, rejected: 1, errored: 2 }

/** What became of the parts of a request: the worst of it, once all of them are settled. */
export class Outcome {
  #open = 1
  #worst: AckStatus = 'delivered'
  #resolve: (worst: AckStatus) => void = () => {}
  readonly #whole = new Promise<AckStatus>(resolve => {
    this.#resolve = resolve
  })

  /** One more part; the returned function settles it. */
  part(): (status: AckStatus) => void {
    this.#open++
    return status => this.#settle(status)
  }

  /** No part follows. To be called once. */
  whole(): Promise<AckStatus> {
    this.#settle('delivered')
    return this.#whole
  }

  #settle(status: AckStatus): void {
    if (RANK[status] > RANK[this.#worst]) this.#worst = status
    if (--this.#open === 0) this.#resolve(this.#worst)
  }
}
