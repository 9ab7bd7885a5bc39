import type { EventBatch } from '../../../core/event/batch.js'
import { CHUNK_BYTES } from '../../../lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, takeChunk } from '../../../lib/lines/chunk-pool.js'
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

/** Most bytes of lines in a record of several events. */
const RECORD_BYTES = 128 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * Batches that arrived and have no record yet, in order. They are divided so that no record is larger than a segment,
 * unless it has one event: small buffers fill up, and never exceed their size by much. Damage costs whole records, so
 * these have far fewer events than a batch that a source reads at once.
 */
export class Arrivals {
  readonly #mostBytes: number
  readonly #parts: Part[] = []
  /** Memory for the next records, and how much of it others have. */
  #chunk: Buffer = NOTHING
  #used = 0

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
      if (this.#divides(part, batch.bytes, Math.min(RECORD_BYTES, this.#mostBytes))) continue
      try {
        const arrival = this.#encoded(part)
        const { framed } = arrival
        // Columns, and events that were changed, may take much more than the lines.
        if (!this.#divides(part, framed.length, this.#mostBytes)) return arrival
        arrival.release()
      } catch (error) {
        return { batch, error }
      }
    }
    return undefined
  }

  /** Puts the parts of one that takes `bytes` in its place. False if it need not or cannot be divided. */
  #divides({ batch, isFirst }: Part, bytes: number, most: number): boolean {
    const { length } = batch
    if (bytes <= most || length === 1) return false
    const count = Math.min(length, Math.ceil(bytes / most))
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

  #encoded({ batch, isFirst }: Part): Arrival {
    let release: (() => void) | undefined
    try {
      const framed = encodeBatch(batch, HEAD_SIZE, size => {
        const memory = this.#memory(size)
        release = holdChunk(this.#chunk)
        return memory
      })
      const releaseOnce = () => {
        release?.()
        release = undefined
      }
      return { batch, isFirst, framed, events: batch.length, bytes: batch.bytes, isSafe: false, release: releaseOnce }
    } catch (error) {
      release?.()
      throw error
    } finally {
      if (this.#parts.length === 0) this.#forget()
    }
  }

  /** Memory for a record. Those of parts that follow each other share chunks. */
  #memory(size: number): Buffer {
    if (this.#used + size > this.#chunk.length) {
      this.#forget()
      this.#chunk = takeChunk(this.#parts.length > 0 ? Math.max(size, CHUNK_BYTES) : size)
    }
    const from = this.#used
    this.#used += size
    return this.#chunk.subarray(from, this.#used)
  }

  #forget(): void {
    freeChunk(this.#chunk)
    this.#chunk = NOTHING
    this.#used = 0
  }
}
