/**
 * The acknowledgement of a batch. Invariants: every holder settles it once. `onSettled` is called once, after the last
 * holder has settled, with the worst status of all. A holder that settles does not pass the batch on.
 */

/** `before`: if it is errored, how many bytes at the beginning of the batch need not be read again. */
export type OnSettled = (status: AckStatus, before?: number) => void

/** `errored`: not accepted, to be read again. `rejected`: permanently refused and accounted for. Later ones win. */
export type AckStatus = 'delivered' | 'rejected' | 'errored'

const RANK: Record<AckStatus, number> = { delivered: 0, rejected: 1, errored: 2 }

export class Ack {
  /** Releases the original chunk. Whoever may read it after the batch has settled holds it separately. */
  release: (() => void) | undefined
  #holders = 1
  #status: AckStatus = 'delivered'
  #before = Number.POSITIVE_INFINITY
  readonly #onSettled: OnSettled
  readonly #onShrink: ((bytes: number) => void) | undefined

  /** `onShrink` receives the number of bytes of memory that the batch released before it settled; negative: took. */
  constructor(onSettled: OnSettled, onShrink?: (bytes: number) => void) {
    this.#onSettled = onSettled
    this.#onShrink = onShrink
  }

  /** Whether there is only one holder, which may then change the bytes. */
  get sole(): boolean {
    return this.#holders === 1
  }

  /** Whether a holder has settled it as `errored`. */
  get isErrored(): boolean {
    return this.#status === 'errored'
  }

  /** Whether there are exactly so many holders. */
  isHeldBy(holders: number): boolean {
    return this.#holders === holders
  }

  /** Adds a holder for each further copy. */
  fork(copies = 1): void {
    if (this.#holders === 0) throw new Error('a settled batch was forked')
    this.#holders += copies
  }

  /** `before`: if it is errored, how many bytes of the batch as it was sent come before the first event to be read again. */
  settle(status: AckStatus, before = 0): void {
    if (this.#holders === 0) throw new Error('a batch was settled twice')
    // Not a number where that is unknown: then the result is none, either.
    if (status === 'errored') this.#before = Math.min(this.#before, before)
    if (RANK[status] > RANK[this.#status]) this.#status = status
    if (--this.#holders > 0) return
    this.#release()
    this.#onSettled(this.#status, this.#status === 'errored' && this.#before > 0 ? this.#before : 0)
  }

  /** Reports that the batch now holds this many bytes less. */
  shrink(bytes: number): void {
    this.#release()
    this.#onShrink?.(bytes)
  }

  /** Reports that so many bytes besides the chunk, such as a copy of the lines, are held until the batch is settled. */
  grow(bytes: number): void {
    this.#onShrink?.(-bytes)
  }

  #release(): void {
    const { release } = this
    this.release = undefined
    release?.()
  }
}
