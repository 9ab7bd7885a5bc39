import type { Ack, AckStatus } from './ack.js'

/** A share in the acknowledgement of a batch. Only the first call of `settle` counts. */
export class Share {
  readonly #ack: Ack
  readonly #settled: (share: Share) => void
  #open = true

  constructor(ack: Ack, settled: (share: Share) => void) {
    ack.fork()
    this.#ack = ack
    this.#settled = settled
  }

  settle(status: AckStatus): void {
    if (!this.#open) return
    this.#open = false
    this.#settled(this)
    this.#ack.settle(status)
  }
}
