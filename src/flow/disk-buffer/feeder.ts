import { Ack } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Amount } from '../counters.js'
import type { BatchDecoder } from './batch-record.js'
import type { RecordQueue } from './record-queue.js'
import type { BufferReport } from './report.js'
import type { Incoming } from './segment-reader.js'
import type { Settlement } from './settlement.js'

/** What records cost beside their bytes, once they are batches. */
const RECORD_OVERHEAD = 1024
const EVENT_OVERHEAD = 16

/** Where the batches go. Undefined: there is room for more. A promise: wait for it. */
export interface Downstream {
  write(batch: EventBatch): Promise<void> | undefined
  end(): void
}

export interface FeederContext {
  readonly queue: RecordQueue
  readonly settlement: Settlement
  readonly decoder: BatchDecoder
  readonly downstream: Downstream
  readonly report: BufferReport
  /** Memory that records may take which were given out. */
  readonly maxHeld: number
  /** A record was settled. */
  readonly settled: () => void
}

/** The reading side of a buffer: makes batches of the records and gives them on, at the pace of what follows. */
export class Feeder {
  readonly #context: FeederContext
  #held = 0
  /** What follows has it, but has not taken it out of its queue. */
  readonly #queued: Amount = { events: 0, bytes: 0 }
  #ending = false
  #over = false
  #wake: (() => void) | undefined

  constructor(context: FeederContext) {
    this.#context = context
  }

  /** Memory of what was given out and is not settled. */
  get held(): number {
    return this.#held
  }

  /** Whether it has room for more records and waits for a notice that there are some. */
  get rests(): boolean {
    return this.#wake !== undefined && !this.#over && this.#held < this.#context.maxHeld
  }

  /** What was given out and not taken up. */
  get queued(): Readonly<Amount> {
    return this.#queued
  }

  /** What follows has taken events up: they are in its count now. */
  takenUp(events: number, bytes: number): void {
    this.#queued.events -= events
    this.#queued.bytes -= bytes
  }

  /** There may be something to do. */
  wake(): void {
    this.#wake?.()
    this.#wake = undefined
  }

  /** No more records are written: ends when all that there are were given out. */
  end(): void {
    this.#ending = true
    this.wake()
  }

  /** Gives nothing more out. */
  stop(): void {
    this.#over = true
    this.wake()
  }

  /** Until the end. */
  async run(): Promise<void> {
    const { queue, downstream, maxHeld } = this.#context
    while (!this.#over) {
      const incoming = this.#held < maxHeld ? await queue.peek() : undefined
      if (this.#over) break
      if (incoming) await this.#give(incoming)
      else if (this.#held >= maxHeld) await this.#woken()
      else if (queue.behind) this.#skipMissing()
      else if (this.#ending) break
      else await this.#woken()
    }
    downstream.end()
  }

  #woken(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #give(incoming: Incoming): Promise<void> | undefined {
    const { queue, settlement, decoder, downstream, report } = this.#context
    const { record, events, bytes, letGo } = incoming
    report.missing(queue.take(incoming))
    const settle = this.#settling(settlement.take(incoming))
    const held = record.length + events * EVENT_OVERHEAD + RECORD_OVERHEAD
    let batch: EventBatch
    try {
      batch = decoder.decode(record, this.#ack(settle, held), letGo)
    } catch (error) {
      report.notUnderstood(error)
      report.missing({ events, bytes })
      letGo?.()
      settle()
      return undefined
    }
    this.#held += held
    this.#queued.events += events
    this.#queued.bytes += bytes
    return downstream.write(batch)
  }

  #ack(settle: () => void, held: number): Ack {
    return new Ack(status => {
      this.#held -= held
      // Given back: it stays, for the next run.
      if (status !== 'errored') settle()
      this.wake()
    })
  }

  #settling(settle: () => void): () => void {
    return () => {
      settle()
      this.#context.settled()
    }
  }

  #skipMissing(): void {
    const { queue, settlement, report } = this.#context
    const missing = queue.takeMissing()
    if (!missing) return
    report.missing(missing)
    this.#settling(settlement.take(missing))()
  }
}
