import { PassThrough, Transform, type TransformCallback } from 'node:stream'
import type { EventBatch } from './batch.js'
import type { ComponentContext } from './component.js'
import { errorText } from './errors.js'

/** Batches that may wait between two components. The budget of unacknowledged bytes is what bounds memory. */
export const STREAM_DEPTH = 4

/**
 * The shell of every processor: hands each batch to `apply`, passes on what is left, settles what is empty. A failure
 * of `apply` is the batch's outcome, never a stream error: the batch is settled `errored` and its source reads it again.
 */
export abstract class BatchTransform extends Transform {
  protected readonly context: ComponentContext

  constructor(context: ComponentContext) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
    this.context = context
  }

  /** Changes the batch in place. What it drops it counts, by reason. */
  protected abstract apply(batch: EventBatch): void

  override _transform(batch: EventBatch, _encoding: string, done: TransformCallback): void {
    try {
      this.apply(batch)
    } catch (error) {
      this.context.metrics.failed('bug')
      this.context.log.error({ code: 'SLUICE_PROCESSOR_FAILED', error: errorText(error) }, 'processor failed on a batch')
      batch.ack.settle('errored')
      done()
      return
    }
    if (batch.length === 0) {
      batch.ack.settle('delivered')
      done()
      return
    }
    batch.compact()
    done(null, batch)
  }
}

/** A side output: a stream that takes batches only while somebody is connected to it. */
export class SideOutlet extends PassThrough {
  connected = false

  constructor() {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
  }
}
