/** A larger body is not worth keeping its memory for the next. */
const LARGEST = 2 * 1024 * 1024
const MOST_KEPT = 4
const STEP = 64 * 1024

/**
 * Memory for the bodies of requests. Fresh memory for each would cost a garbage collection every few dozen requests.
 * What is given back must not be read by anybody any more.
 */
export class BodyMemory {
  readonly #kept: Buffer[] = []

  /** The parts in one piece. */
  join(parts: readonly Buffer[], bytes: number): Buffer {
    const kept = this.#kept.pop()
    const memory = kept && kept.length >= bytes ? kept : Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP)
    let at = 0
    for (const part of parts) at += part.copy(memory, at)
    return memory.subarray(0, at)
  }

  giveBack(body: Buffer): void {
    const memory = Buffer.from(body.buffer)
    if (memory.length <= LARGEST && this.#kept.length < MOST_KEPT) this.#kept.push(memory)
  }
}
