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
 * for side outputs that are full. When `apply` throws, its events are given to it one by one, and those that make it
 * throw are passed on as they came. When all of several do, it is not about an event: the batch is settled `errored`
 * and its source reads it again. A failure is never a stream error.
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
    const { metrics } = this.context
    metrics.took(batch.length, batch.bytes)
    const before = batch.snapshot()
    try {
      this.apply(batch)
    } catch (error) {
      this.#applyEach(before, error)
      this.#doneWithRoom(done)
      return
    }
    this.#pass(batch)
    this.#doneWithRoom(done)
  }

  #pass(batch: EventBatch): void {
    if (batch.length === 0) batch.ack.settle('delivered')
    else {
      batch.compact()
      this.context.metrics.sent(batch.length, batch.bytes)
      this.push(batch)
    }
  }

  /** After a failure: one event at a time, in order. */
  #applyEach(whole: EventBatch, cause: unknown): void {
    const { metrics, log } = this.context
    const { source, path, peer } = whole.origin
    const parts: EventBatch[] = []
    let failed = 0
    for (let i = 0; i < whole.length; i++) {
      const part = whole.fork(i, i + 1)
      try {
        this.apply(part)
        parts.push(part)
      } catch {
        failed++
        metrics.failed('bug')
        part.ack.settle('delivered')
        parts.push(whole.fork(i, i + 1))
      }
    }
    const fields = {
      code: 'SLUICE_PROCESSOR_FAILED',
      source,
      file: path,
      peer,
      events: failed,
      error: errorText(cause),
    }
    if (failed === whole.length && failed > 1) {
      log.error(fields, 'processor failed on every event of a batch; the batch is returned to its source')
      metrics.discarded('errored', whole.length, whole.bytes)
      for (const { ack } of parts) ack.settle('delivered')
      whole.ack.settle('errored')
      return
    }
    log.error(
      fields,
      'processor failed on some events; they are passed on unchanged, the rest of the batch is processed',
    )
    for (const part of parts) this.#pass(part)
    whole.ack.settle('delivered')
  }

  #doneWithRoom(done: TransformCallback): void {
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
