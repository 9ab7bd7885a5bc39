import type { EventBatch } from '../../../core/event/batch.js'
import { freeChunk, takeChunk } from '../../../lib/lines/chunk-pool.js'
import { type Amount, add } from '../counters.js'
import { encodeBatch } from './batch-record.js'
import { HEAD_SIZE } from './frame.js'
import type { Outgoing } from './segment-writer.js'

/** A batch, or a part of one, and its record. */
export interface Arrival extends Outgoing {
  readonly batch: EventBatch
  /** Whether it begins a batch as that arrived. */
  readonly isFirst: boolean
}

/** A part that cannot be encoded, and why. It is still to be settled. */
export interface NotEncoded {
  readonly batch: EventBatch
  readonly error: unknown
}

type Part = Pick<Arrival, 'batch' | 'isFirst'>

/**
 * Batches that arrived and have no record yet, in order. They are divided so that no record is larger than a segment,
 * unless it has one event: small buffers fill up, and never exceed their size by much.
 */
export class Arrivals {
  readonly #mostBytes: number
  readonly #parts: Part[] = []

  /** `mostBytes`: the size of a segment. */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Adds a non-empty batch, and becomes its holder. */
  add(batch: EventBatch): void {
    this.#parts.push({ batch, isFirst: true })
  }

  /** Encodes the next part, which the caller holds from now on; undefined if there is none. */
  next(): Arrival | NotEncoded | undefined {
    for (let part = this.#parts.shift(); part; part = this.#parts.shift()) {
      const { batch } = part
      if (this.#divides(part, batch.bytes)) continue
      try {
        const arrival = encoded(part)
        const { framed } = arrival
        // Columns, and events that were changed, may take much more than the lines.
        if (!this.#divides(part, framed.length)) return arrival
        arrival.release()
      } catch (error) {
        return { batch, error }
      }
    }
    return undefined
  }

  /** Puts the parts of one that takes `bytes` in its place. False if it need not or cannot be divided. */
  #divides({ batch, isFirst }: Part, bytes: number): boolean {
    const { length } = batch
    if (bytes <= this.#mostBytes || length === 1) return false
    const count = Math.min(length, Math.ceil(bytes / this.#mostBytes))
    const parts: Part[] = []
    for (let n = 0; n < count; n++) {
      const [from, to] = [n, n + 1].map(at => Math.floor((at * length) / count)) as [number, number]
      parts.push({ batch: batch.fork(from, to), isFirst: isFirst && n === 0 })
    }
    batch.ack.settle('delivered')
    this.#parts.unshift(...parts)
    return true
  }

  amount(): Amount {
    const amount = { events: 0, bytes: 0 }
    for (const { batch } of this.#parts) add(amount, batch.length, batch.bytes)
    return amount
  }
}

function encoded({ batch, isFirst }: Part): Arrival {
  let chunk: Buffer | undefined
  const release = () => {
    if (chunk) freeChunk(chunk)
    chunk = undefined
  }
  try {
    const framed = encodeBatch(batch, HEAD_SIZE, size => {
      chunk = takeChunk(size)
      return chunk
    })
    return { batch, isFirst, framed, events: batch.length, bytes: batch.bytes, isSafe: false, release }
  } catch (error) {
    release()
    throw error
  }
}
