import type { Readable, Writable } from 'node:stream'
import type { EventBatch } from '../../core/event/batch.js'
import type { ComponentCounters } from './counters.js'
import type { SideOutput } from './side-output.js'

/** Sees a batch before its readers do. Must not keep a reference to it. */
export type Tap = (batch: EventBatch) => void

/** The input of a component. Counts arriving batches, and ends when all its feeders have ended. */
export class Input {
  readonly taps = new Set<Tap>()
  readonly #stream: Writable
  readonly #counters: Pick<ComponentCounters, 'arrived'>
  #feeders = 0
  /** Resolves when a full stream has room again. Feeders wait for it. */
  #room: { promise: Promise<void>; resolve: () => void } | undefined
  #isDetached = false

  constructor(stream: Writable, counters: Pick<ComponentCounters, 'arrived'>) {
    this.#stream = stream
    this.#counters = counters
    const go = () => this.#go()
    stream.on('drain', go)
    // A stream that ends while it is full does not emit `drain`. Some streams do not emit `close` either.
    stream.on('finish', go)
    stream.on('close', go)
  }

  feed(): void {
    this.#feeders++
  }

  get isEnded(): boolean {
    return this.#stream.writableEnded || this.#stream.destroyed
  }

  /**
   * Prepares for new feeders. The input then accepts all events of the current feeders, and does not end when the last
   * current feeder ends.
   */
  detach(): void {
    this.#isDetached = true
    this.#go()
  }

  /** Prepares for other feeders, after the former ones have ended. */
  attach(): void {
    this.#isDetached = false
    this.#feeders = 0
  }

  #go(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  /** Returns undefined if more batches fit. Otherwise returns a promise; wait for it before the next batch. */
  write(batch: EventBatch): Promise<void> | undefined {
    const stream = this.#stream
    for (const tap of this.taps) tap(batch)
    this.#counters.arrived(batch.length, batch.bytes)
    if (stream.destroyed) {
      // The shutdown reached its deadline. The batch stays in flight and is read again after the next start.
      batch.ack.settle('errored')
      return undefined
    }
    if (stream.write(batch) || this.#isDetached) return undefined
    if (!this.#room) {
      let resolve = () => {}
      const promise = new Promise<void>(done => {
        resolve = done
      })
      this.#room = { promise, resolve }
    }
    return this.#room.promise
  }

  end(): void {
    if (--this.#feeders === 0 && !this.#isDetached) this.#stream.end()
  }
}

/** An output and its readers. Each reader receives a copy; the slowest one sets the pace. */
export class FanOut {
  readonly taps = new Set<Tap>()
  readonly #inputs: Input[] = []

  /** Feeds an input, which may already be connected. */
  connect(input: Input): void {
    input.feed()
    if (!this.#inputs.includes(input)) this.#inputs.push(input)
  }

  /** Returns undefined if more batches fit. Otherwise returns a promise; wait for it before the next batch. */
  write(batch: EventBatch): Promise<void> | undefined {
    const inputs = this.#inputs
    for (const tap of this.taps) tap(batch)
    if (inputs.length === 0) {
      batch.ack.settle('delivered')
      return undefined
    }
    if (inputs.length === 1) return inputs[0]!.write(batch)
    // Makes all copies before passing on the original batch, because the reader of the original may change or settle it
    // immediately.
    const copies = batch.forks(inputs.length)
    const full = inputs.map((input, i) => input.write(copies[i]!)).filter(room => room !== undefined)
    return full.length === 0 ? undefined : Promise.all(full).then(() => {})
  }

  end(): void {
    for (const input of this.#inputs) input.end()
  }
}

/** Pipes an output of a processor into a fan-out. The returned object counts the events that were passed on. */
export function pump(from: Readable, fanOut: FanOut): { readonly events: number } {
  const handedOn = { events: 0 }
  from.on('data', (batch: EventBatch) => {
    handedOn.events += batch.length
    const room = fanOut.write(batch)
    if (!room) return
    from.pause()
    void room.then(() => from.resume())
  })
  from.on('end', () => fanOut.end())
  return handedOn
}

/** Pipes a side output into a fan-out. Returns a function that counts the events between them. */
export function pumpSide(output: SideOutput, fanOut: FanOut): () => number {
  const handedOn = pump(output, fanOut)
  return () => output.events - handedOn.events
}

/** An input that does not count the batches that arrive, since they were already counted. */
export function directly(delivery: Writable): Input {
  const input = new Input(delivery, { arrived: () => {} })
  input.feed()
  return input
}

/** Resolves when the stream has closed or failed. */
export function finish(stream: Writable): Promise<void> {
  return new Promise(resolve => {
    if (stream.closed) return resolve()
    stream.once('close', resolve)
    stream.once('error', () => resolve())
  })
}
