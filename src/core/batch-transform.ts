import { PassThrough, Transform, type TransformCallback } from 'node:stream'
import type { EventBatch } from './batch.js'
import type { ComponentContext } from './component.js'
import { errorText } from './errors.js'

/** Batches that may wait between two components. The budget of unacknowledged bytes is what bounds memory. */
export const STREAM_DEPTH = 4

/**
 * A side output. Whoever reads it sets `connected`; until then nothing is put in it, and the processor settles what it
 * would have put there itself.
 */
export class SideOutlet extends PassThrough {
  connected = false
  /** How many were put in so far. */
  events = 0

  constructor() {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
  }

  put(batch: EventBatch): void {
    this.events += batch.length
    this.write(batch)
  }
}

/**
 * The shell of every processor: hands each batch to `apply`, passes on what is left, settles what is empty, and waits
 * for side outputs that are full. A failure of `apply` is the batch's outcome, never a stream error: the batch is
 * settled `errored` and its source reads it again.
 */
export abstract class BatchTransform extends Transform {
  protected readonly context: ComponentContext
  readonly outlets?: Readonly<Record<string, SideOutlet>>

  constructor(context: ComponentContext) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
    this.context = context
  }

  /** Changes the batch in place. What it drops it counts, by reason. */
  protected abstract apply(batch: EventBatch): void

  /**
   * Drops the events whose index `keep` refuses, counted by `reason` (a function of the index where there are
   * several); into `outlet` while somebody reads that. Both may be called twice for an index.
   */
  protected discard(
    batch: EventBatch,
    keep: (i: number) => boolean,
    reason: string | ((i: number) => string),
    outlet?: SideOutlet,
  ): void {
    const { metrics } = this.context
    if (typeof reason === 'function') this.#countByReason(batch, keep, reason)
    const bytes = batch.bytes
    const dropped = outlet?.connected ? batch.pick(i => !keep(i)) : undefined
    const events = batch.retain(keep)
    if (typeof reason === 'string' && events > 0) metrics.discarded(reason, events, bytes - batch.bytes)
    if (dropped) outlet!.put(dropped)
  }

  #countByReason(batch: EventBatch, keep: (i: number) => boolean, reason: (i: number) => string): void {
    const sums = new Map<string, { events: number; bytes: number }>()
    for (let i = 0; i < batch.length; i++) {
      if (keep(i)) continue
      const name = reason(i)
      let sum = sums.get(name)
      if (!sum) sums.set(name, (sum = { events: 0, bytes: 0 }))
      sum.events++
      sum.bytes += batch.size(i)
    }
    for (const [name, { events, bytes }] of sums) this.context.metrics.discarded(name, events, bytes)
  }

  override _transform(batch: EventBatch, _encoding: string, done: TransformCallback): void {
    const { metrics, log } = this.context
    metrics.took(batch.length, batch.bytes)
    try {
      this.apply(batch)
    } catch (error) {
      metrics.failed('bug')
      metrics.discarded('errored', batch.length, batch.bytes)
      log.error({ code: 'SLUICE_PROCESSOR_FAILED', error: errorText(error) }, 'processor failed on a batch')
      batch.ack.settle('errored')
      done()
      return
    }
    if (batch.length > 0) {
      batch.compact()
      metrics.sent(batch.length, batch.bytes)
      this.push(batch)
    } else batch.ack.settle('delivered')
    const full = Object.values(this.outlets ?? {}).filter(outlet => outlet.writableNeedDrain)
    if (full.length === 0) {
      done()
      return
    }
    let waiting = full.length
    for (const outlet of full) outlet.once('drain', () => --waiting === 0 && done())
  }

  override _flush(done: TransformCallback): void {
    for (const outlet of Object.values(this.outlets ?? {})) outlet.end()
    done()
  }
}
