/** A larger body is not worth keeping its memory for the next. */
const LARGEST = 2 * 1024 * 1024
const MOST_KEPT = 4
const STEP = 64 * 1024

/**
 * Memory for the bodies of requests. Fresh memory for each would cost a garbage collection every few dozen requests.
 * Invariant: it is used again only after a moment when nothing waited to be sent.
 */
export class BodyMemory {
  readonly #kept: Buffer[] = []
  /** Given back, while something may still have been read from them. */
  #lent: Buffer[] = []
  readonly #flushed: () => boolean

  /** `flushed`: whether nothing waits to be sent, so that what was given back is read by nobody any more. */
  constructor(flushed: () => boolean) {
    this.#flushed = flushed
  }

  /** The parts in one piece. */
  join(parts: readonly Buffer[], bytes: number): Buffer {
    this.#settle()
    const kept = this.#kept.pop()
    const memory = kept && kept.length >= bytes ? kept : Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP)
    let at = 0
    for (const part of parts) at += part.copy(memory, at)
    return memory.subarray(0, at)
  }

  /** No request needs this body any more. */
  giveBack(body: Buffer): void {
    const memory = Buffer.from(body.buffer)
    if (memory.length > LARGEST || this.#kept.length + this.#lent.length >= MOST_KEPT) return
    this.#lent.push(memory)
    this.#settle()
  }

  #settle(): void {
    if (this.#lent.length === 0 || !this.#flushed()) return
    this.#kept.push(...this.#lent)
    this.#lent = []
  }
}
