import { Ack, type ByteRange } from '../../../core/event/ack.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { newReading } from '../../../core/event/event-id.js'
import { SentOffsets } from '../../../core/event/sent-offsets.js'
import type { WantedNames } from '../../../lib/formats/json-scan.js'
import type { Amount } from '../counters.js'
import type { Incoming, Range } from './incoming.js'
import type { RecordLog } from './log.js'
import { BatchDecoder } from './record.js'
import type { BufferReport } from './report.js'
import type { Settlement } from './settlement.js'

/** Memory of a decoded record in addition to its bytes. The first value is for the batch, the second for each event. */
const RECORD_OVERHEAD = 1024
const EVENT_OVERHEAD = 16

/** The consumer of the batches. If it has no room for more, `write` returns a promise to wait for; else undefined. */
export interface Downstream {
  write(batch: EventBatch): Promise<void> | undefined
  end(): void
}

/** The reading side of a buffer: decodes records to batches and passes them on at the pace of the consumer. */
export class BufferReading {
  readonly #records: RecordLog
  readonly #settlement: Settlement
  readonly #report: BufferReport
  readonly #decoder: BatchDecoder
  /** The reading id of events whose records have no places. */
  readonly #name = newReading()
  readonly #maxHeld: number
  /** Memory of records passed on but not settled, in bytes. */
  held = 0
  /** Events that were passed on but are still in the consumer's queue. */
  readonly queued: Amount = { events: 0, bytes: 0 }
  #ending = false
  #over = false
  #wake: (() => void) | undefined

  constructor(records: RecordLog, settlement: Settlement, report: BufferReport, wanted: WantedNames, maxHeld: number) {
    this.#records = records
    this.#settlement = settlement
    this.#report = report
    this.#decoder = new BatchDecoder(wanted)
    this.#maxHeld = maxHeld
  }

  /** Whether reading waits for `wake` although there is room for more records. */
  get rests(): boolean {
    return this.#wake !== undefined && !this.#over && this.held < this.#maxHeld
  }

  takenUp(events: number, bytes: number): void {
    this.queued.events -= events
    this.queued.bytes -= bytes
  }

  wake(): void {
    this.#wake?.()
    this.#wake = undefined
  }

  /** Notes that no more records will be written. Reading ends when the existing ones are passed on. */
  end(): void {
    this.#ending = true
    this.wake()
  }

  stop(): void {
    this.#over = true
    this.wake()
  }

  async run(downstream: Downstream): Promise<void> {
    while (!this.#over) {
      const isFull = this.held >= this.#maxHeld
      const incoming = isFull ? undefined : await this.#records.peek()
      if (this.#over) break
      if (incoming) await this.#give(incoming, downstream)
      else if (isFull) await this.#woken()
      else if (this.#records.behind) this.#skipMissing()
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

  #give(incoming: Incoming, downstream: Downstream): Promise<void> | undefined {
    const { record, events, bytes, skipped = 0, release } = incoming
    this.#report.missing(this.#records.take(incoming))
    const settle = this.#settlement.take(incoming)
    if (incoming.isSettled) {
      settle()
      return undefined
    }
    let held = record.length + events * EVENT_OVERHEAD + RECORD_OVERHEAD
    const freed = (bytes: number) => {
      this.held -= bytes
      held -= bytes
      this.wake()
    }
    const ack = new Ack((status, _, again = []) => {
      // Events given back stay in the buffer for the next run.
      if (status !== 'errored') settle()
      else this.#settlement.partly(settledRanges(batch, incoming, again))
      freed(held)
    }, freed)
    let batch: EventBatch
    try {
      batch = this.#decoder.decode(record, ack, release)
      if (events < batch.length) batch.retain(i => i >= skipped && i < skipped + events)
      batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: this.#name, at: incoming.place.byte })
    } catch (error) {
      this.#report.notUnderstood(error)
      this.#report.missing({ events, bytes })
      release?.()
      settle()
      return undefined
    }
    this.held += held
    this.queued.events += events
    this.queued.bytes += bytes
    return downstream.write(batch)
  }

  #skipMissing(): void {
    const missing = this.#records.takeMissing()
    if (!missing) return
    this.#report.missing(missing)
    this.#settlement.take(missing)()
  }
}

/** The settled ranges of a record. `again`: those ranges of the record's batch that were given back. */
function settledRanges(batch: EventBatch, { place, start }: Incoming, again: readonly ByteRange[]): Range[] {
  const ranges: { -readonly [K in keyof Range]: Range[K] }[] = []
  let range: (typeof ranges)[number] | undefined
  for (let i = 0; i < batch.length; i++) {
    const at = batch.sentOffsets!.before(batch.starts, i)
    const size = batch.size(i)
    // An event without bytes may be at the border of a range that was given back. It then belongs to that range.
    const least = size === 0 ? 1 : 0
    if (again.some(([from, to]) => !(at - least >= to || at + size + least <= from))) range = undefined
    else {
      if (!range) {
        range = { place: { event: place.event + i, byte: place.byte + at }, events: 0, bytes: 0, cursor: start }
        ranges.push(range)
      }
      range.events++
      range.bytes += size
    }
  }
  return ranges
}
