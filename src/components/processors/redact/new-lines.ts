import type { EventBatch } from '../../../core/event/batch.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { writeBytes } from '../../../lib/formats/json-string.js'
import { LINE_END } from '../../../lib/lines/line-splitter.js'

/** Replaces lines of a batch. Copies all lines into a new chunk. */
export class NewLines {
  readonly #text = new GrowingBytes()
  /** The changed events, in order, and where their new lines end in `#text`. */
  readonly #events: number[] = []
  readonly #ends: number[] = []

  begin(): void {
    this.#text.clear()
    this.#events.length = 0
    this.#ends.length = 0
  }

  add(i: number, line: GrowingBytes): void {
    this.#text.add(line.bytes, 0, line.length)
    this.#events.push(i)
    this.#ends.push(this.#text.length)
  }

  /** Gives the batch the new lines. Returns how many bytes the batch has grown. */
  apply(batch: EventBatch): number {
    if (this.#events.length === 0) return 0
    const { length, bytes } = batch
    const starts = new Int32Array(length)
    const ends = new Int32Array(length)
    const changed = new Uint8Array(length)
    let growth = this.#text.length
    for (const i of this.#events) {
      changed[i] = 1
      growth -= batch.ends[i]! - batch.starts[i]!
    }
    const chunk = Buffer.allocUnsafeSlow(bytes + growth)
    let at = 0
    for (let i = 0, n = 0, from = 0; i < length; i++) {
      starts[i] = at
      if (changed[i] === 1) {
        at = writeBytes(this.#text.bytes, from, this.#ends[n]!, chunk, at)
        from = this.#ends[n++]!
      } else at = writeBytes(batch.chunk, batch.starts[i]!, batch.ends[i]!, chunk, at)
      ends[i] = at
      at = writeBytes(batch.chunk, batch.ends[i]!, batch.ends[i]! + (batch.flags[i]! & LINE_END), chunk, at)
    }
    batch.move(chunk, starts, ends, changed)
    batch.bytes = bytes + growth
    return growth
  }
}
