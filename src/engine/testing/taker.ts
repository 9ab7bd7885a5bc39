import type { Checkpoints, Output } from '../../core/component.js'
import { Ack, type AckStatus } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import { type Deferred, deferred } from '../../lib/time.js'

/** Takes the batches that a source sends, and settles them on request. Has room unless `block` was called. */
export class Taker implements Output {
  readonly batches: EventBatch[] = []
  readonly unsettled: Ack[] = []
  /** The status with which `send` settles each batch. If undefined, the batches wait for a call of `settle`. */
  settlesAs: AckStatus | undefined
  #room: Deferred | undefined

  constructor(settlesAs?: AckStatus) {
    this.settlesAs = settlesAs
  }

  ack(onSettled: (status: AckStatus) => void): Ack {
    return new Ack(onSettled)
  }

  async send(batch: EventBatch): Promise<void> {
    // Copies the bytes, because their memory is reused after the batch is settled.
    batch.move(Buffer.from(batch.chunk), batch.starts.slice(), batch.ends.slice())
    batch.scan()
    this.batches.push(batch)
    if (this.settlesAs) batch.ack.settle(this.settlesAs)
    else this.unsettled.push(batch.ack)
    await this.#room?.promise
  }

  settle(status: AckStatus): void {
    for (const ack of this.unsettled.splice(0)) ack.settle(status)
  }

  block(): void {
    this.#room = deferred()
  }

  unblock(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  get events(): number {
    return this.batches.reduce((sum, batch) => sum + batch.length, 0)
  }
}

/** Keeps a document in memory. The next run finds only the data that `flush` has saved, as after a kill. */
export class MemoryCheckpoints implements Checkpoints {
  document: unknown
  changes = 0
  savedAt = 0
  #snapshot: (() => unknown) | undefined
  read(): unknown {
    return this.document
  }
  provide(snapshot: () => unknown): void {
    this.#snapshot = snapshot
  }
  changed(): void {
    this.changes++
  }
  async flush(): Promise<void> {
    this.document = JSON.parse(JSON.stringify(this.#snapshot?.()))
  }
}
