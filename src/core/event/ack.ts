/**
 * The settlement of a batch. Invariants: every holder settles once; `onSettled` is called once, when the last holder
 * has settled, with the worst status any of them gave. Nobody settles and passes on.
 */

/** `errored`: not taken, to be read again. `rejected`: finally refused and accounted for. The later in this order wins. */
export type AckStatus = 'delivered' | 'rejected' | 'errored'

const RANK: Record<AckStatus, number> = { delivered: 0, rejected: 1, errored: 2 }

export class Ack {
  /**
   * Lets go of the chunk that the batch was born with: called as soon as nobody needs that. Not after `errored`: then
   * a write that was given up may still be reading it.
   */
  letGo: (() => void) | undefined
  #holders = 1
  #status: AckStatus = 'delivered'
  readonly #onSettled: (status: AckStatus) => void
  readonly #onShrink: ((bytes: number) => void) | undefined

  /** `onShrink` gets the bytes of memory that the batch released before it settled. */
  constructor(onSettled: (status: AckStatus) => void, onShrink?: (bytes: number) => void) {
    this.#onSettled = onSettled
    this.#onShrink = onShrink
  }

  /** Whether one holder is left: then its bytes are nobody else's. */
  get sole(): boolean {
    return this.#holders === 1
  }

  /** Adds holders: one for each further copy. */
  fork(copies = 1): void {
    if (this.#holders === 0) throw new Error('a settled batch was forked')
    this.#holders += copies
  }

  settle(status: AckStatus): void {
    if (this.#holders === 0) throw new Error('a batch was settled twice')
    if (RANK[status] > RANK[this.#status]) this.#status = status
    if (--this.#holders > 0) return
    if (this.#status !== 'errored') this.#letGo()
    this.#onSettled(this.#status)
  }

  /** The batch holds so much less by now. */
  shrink(bytes: number): void {
    this.#letGo()
    this.#onShrink?.(bytes)
  }

  #letGo(): void {
    const { letGo } = this
    this.letGo = undefined
    letGo?.()
  }
}
