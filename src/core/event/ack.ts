/**
 * The acknowledgement of a batch. Every holder of the batch either passes the batch on, or settles the acknowledgement
 * once. After the last holder has settled it, `onSettled` is called once, with the worst of all statuses.
 */

/** A range of the bytes of a batch as it was sent. */
export type ByteRange = readonly [from: number, to: number]

/**
 * If the status is `errored`: the source need not read the first `before` bytes of the batch again. `again`: the ranges
 * that the holders gave back, in any order.
 */
export type OnSettled = (status: AckStatus, before?: number, again?: readonly ByteRange[]) => void

/**
 * `errored`: not accepted, to be read again. `rejected`: rejected permanently, and counted. If holders differ, the
 * status later in this list wins.
 */
export type AckStatus = 'delivered' | 'rejected' | 'errored'

const RANK: Record<AckStatus, number> = { delivered: 0, rejected: 1, errored: 2 }

export class Ack {
  /**
   * Releases the original chunk. Code that may read the chunk after the batch has settled must hold the chunk itself.
   */
  release: (() => void) | undefined
  #holders = 1
  #status: AckStatus = 'delivered'
  #again: ByteRange[] | undefined
  readonly #onSettled: OnSettled
  readonly #onShrink: ((bytes: number) => void) | undefined
  readonly #onErrored: (() => void) | undefined

  /**
   * `onShrink` receives the bytes of memory that the batch released before it settled. `onErrored` is called as soon as
   * one holder settles the batch as `errored`, even if other holders have not settled it yet.
   */
  constructor(onSettled: OnSettled, onShrink?: (bytes: number) => void, onErrored?: () => void) {
    this.#onSettled = onSettled
    this.#onShrink = onShrink
    this.#onErrored = onErrored
  }

  /** Whether a holder has settled the batch as `errored`, or will do so. */
  get isErrored(): boolean {
    return this.#status === 'errored'
  }

  /** A single holder may change the bytes. */
  isHeldBy(holders: number): boolean {
    return this.#holders === holders
  }

  fork(): void {
    if (this.#holders === 0) throw new Error('a settled batch was forked')
    this.#holders++
  }

  /**
   * If the status is `errored`, the source must again read the events in the range [`from`, `to`) of the sent batch.
   */
  settle(status: AckStatus, from = 0, to = Number.POSITIVE_INFINITY): void {
    if (this.#holders === 0) throw new Error('a batch was settled twice')
    if (status === 'errored') {
      ;(this.#again ??= []).push([from, to])
      this.willError()
    }
    if (RANK[status] > RANK[this.#status]) this.#status = status
    if (--this.#holders > 0) return
    this.#release()
    const again = this.#again
    // If the start of a range is unknown (NaN), `before` is 0.
    const before = again ? again.reduce((least, [first]) => Math.min(least, first), Number.POSITIVE_INFINITY) : 0
    this.#onSettled(this.#status, before > 0 ? before : 0, again)
  }

  /** Reports that a holder will settle the batch as `errored`. */
  willError(): void {
    if (this.isErrored) return
    this.#status = 'errored'
    this.#onErrored?.()
  }

  /** Reports that the batch now holds `bytes` fewer bytes of memory. */
  shrink(bytes: number): void {
    this.#release()
    this.#onShrink?.(bytes)
  }

  #release(): void {
    const { release } = this
    this.release = undefined
    release?.()
  }
}

/** A share of a batch's acknowledgement. Only the first call of `settle` has an effect. */
export class Share {
  readonly #ack: Ack
  readonly #settled: (share: Share) => void
  #open = true

  constructor(ack: Ack, settled: (share: Share) => void) {
    ack.fork()
    this.#ack = ack
    this.#settled = settled
  }

  willError(): void {
    if (this.#open) this.#ack.willError()
  }

  settle(status: AckStatus): void {
    if (!this.#open) return
    this.#open = false
    this.#settled(this)
    this.#ack.settle(status)
  }
}
