import type { Readable, Writable } from 'node:stream'
import type { EventBatch } from '../core/event/batch.js'
import type { ComponentCounters } from './counters.js'
import type { SideOutput } from './side-output.js'

/** Sees a batch before anybody else gets it, and keeps nothing of it. */
export type Tap = (batch: EventBatch) => void

/** The input side of a component: counts what arrives, and ends when all that feed it have ended. */
export class Input {
  readonly taps = new Set<Tap>()
  readonly #stream: Writable
  readonly #counters: Pick<ComponentCounters, 'arrived'>
  #feeders = 0
  /** While the stream is full: what its feeders wait for. */
  #room: { promise: Promise<void>; resolve: () => void } | undefined

  constructor(stream: Writable, counters: Pick<ComponentCounters, 'arrived'>) {
    this.#stream = stream
    this.#counters = counters
    const go = () => {
      this.#room?.resolve()
      this.#room = undefined
    }
    stream.on('drain', go)
    // A stream that is ended while it is full emits no drain event any more, and not every stream closes by itself.
    stream.on('finish', go)
    stream.on('close', go)
  }

  feed(): void {
    this.#feeders++
  }

  /** Undefined: there is room for more. A promise: wait for it before the next batch. */
  write(batch: EventBatch): Promise<void> | undefined {
    const stream = this.#stream
    for (const tap of this.taps) tap(batch)
    this.#counters.arrived(batch.length, batch.bytes)
    if (stream.destroyed) {
      // Shut down at its deadline: it stays in flight, and is read again after the next start.
      batch.ack.settle('errored')
      return undefined
    }
    if (stream.write(batch)) return undefined
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
    if (--this.#feeders === 0) this.#stream.end()
  }
}

/** One output and all who read it: each gets a copy, and the slowest sets the pace. */
export class FanOut {
  readonly taps = new Set<Tap>()
  readonly #inputs: Input[] = []

  connect(input: Input): void {
    input.feed()
    this.#inputs.push(input)
  }

  /** Undefined: go on. A promise: wait for it before the next batch. */
  write(batch: EventBatch): Promise<void> | undefined {
    const inputs = this.#inputs
    for (const tap of this.taps) tap(batch)
    if (inputs.length === 0) {
      batch.ack.settle('delivered')
      return undefined
    }
    if (inputs.length === 1) return inputs[0]!.write(batch)
    // All copies are made before the first is let go: whoever gets it may change or settle it at once.
    const copies = inputs.map((_, i) => (i === 0 ? batch : batch.fork()))
    const full = inputs.map((input, i) => input.write(copies[i]!)).filter(room => room !== undefined)
    return full.length === 0 ? undefined : Promise.all(full).then(() => {})
  }

  end(): void {
    for (const input of this.#inputs) input.end()
  }
}

/**
 * Reads a processor's output, or one of its side outputs, into a fan-out. The result has, at any time, how many
 * events it has handed on.
 */
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

/** Reads an output beside the main one; the result counts the events that are on their way. */
export function pumpSide(output: SideOutput, fanOut: FanOut): () => number {
  const handedOn = pump(output, fanOut)
  return () => output.events - handedOn.events
}

/** Writes to a delivery what was counted before. */
export function directly(delivery: Writable): Input {
  const input = new Input(delivery, { arrived: () => {} })
  input.feed()
  return input
}

/** Resolves when the stream has finished or was destroyed. */
export function finish(stream: Writable): Promise<void> {
  return new Promise(resolve => {
    if (stream.closed) return resolve()
    stream.once('close', resolve)
    stream.once('error', () => resolve())
  })
}
