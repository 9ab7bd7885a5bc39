import { RawEncoder } from '../../src/core/codecs/encode.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { Fields } from '../../src/core/event/event-fields.js'
import { Taker as Plain } from '../../src/engine/testing/taker.js'

/** Takes what a source sends, and shows all of it. */
export class Taker extends Plain {
  get bytes(): number {
    return this.batches.reduce((sum, batch) => sum + batch.bytes, 0)
  }

  get fields(): Fields[] {
    return this.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i)))
  }

  get lines(): string[] {
    const line = (batch: EventBatch, i: number) => batch.chunk.toString('latin1', batch.starts[i], batch.ends[i])
    return this.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => line(batch, i)))
  }

  get raw(): Buffer {
    return Buffer.concat(new RawEncoder().encode(this.batches).parts)
  }
}
