import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import { splitLines } from '../../lib/lines/line-splitter.js'
import { sleep } from '../../lib/time.js'
import type { DemoOptions } from './options.js'

/** Events are created in the middle of each tenth of a second, so every second of the clock has `rate` events. */
const TICK_MS = 100
const PHASE_MS = 50
const BATCH_EVENTS = 1000

export class DemoSource implements Source {
  readonly once = true
  readonly #rate: number
  readonly #context: SourceContext
  readonly #origin: Origin
  readonly #events: DemoEvents

  constructor(options: DemoOptions, context: SourceContext) {
    this.#rate = options.rate
    this.#context = context
    this.#origin = context.origin(JSON_OBJECTS)
    this.#events = new DemoEvents(options)
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { clock } = this.#context
    let begin: number | undefined
    let made = 0
    while (!signal.aborted) {
      await sleep(TICK_MS - ((clock.wall() + PHASE_MS) % TICK_MS), signal, clock.after)
      begin ??= clock.now() - TICK_MS
      const ticks = Math.round((clock.now() - begin) / TICK_MS)
      const due = Math.floor((ticks * this.#rate * TICK_MS) / 1000)
      // After a pause, for example because of backpressure, creates at most the events of one second.
      let count = Math.min(due - made, this.#rate)
      made = due
      for (; count > 0 && !signal.aborted; count -= BATCH_EVENTS) await this.#send(out, Math.min(count, BATCH_EVENTS))
    }
  }

  async #send(out: Output, count: number): Promise<void> {
    const { clock, metrics } = this.#context
    const now = clock.wall()
    const frame = splitLines(Buffer.from(this.#events.next(count, new Date(now).toISOString())))!
    const ack = out.ack(status => {
      if (status === 'errored') metrics.failed('undelivered')
    })
    await out.send(new EventBatch(frame, this.#origin, now, ack))
  }
}

/** One app at a time is noisy, for a time between these two values. A noisy app has NOISY_SHARE of all events. */
const NOISY_SECONDS = [3, 6] as const
const NOISY_SHARE = 0.8
const MESSAGES = [
  ...Array<[string, string]>(12).fill(['info', 'request served']),
  ...Array<[string, string]>(4).fill(['info', 'order saved']),
  ['warn', 'answer was slow'],
  ['warn', 'trying again'],
  ['error', 'connection refused'],
] as const

/** The same options give the same events. */
export class DemoEvents {
  readonly #rate: number
  readonly #apps: readonly string[]
  readonly #counts: number[]
  readonly #random: () => number
  #noisy = 0
  /** Number of events until another app becomes noisy. */
  #left = 0

  constructor({ rate, apps, seed }: DemoOptions) {
    this.#rate = rate
    this.#apps = apps
    this.#counts = apps.map(() => 0)
    this.#random = mulberry32(seed)
  }

  next(count: number, timestamp: string): string {
    let text = ''
    for (let i = 0; i < count; i++) {
      const index = this.#next()
      const [level, message] = MESSAGES[this.#below(MESSAGES.length)]!
      const duration_ms = Math.ceil(10 / (1 - this.#random()))
      const n = ++this.#counts[index]!
      text += `${JSON.stringify({ timestamp, app: this.#apps[index], level, message, duration_ms, n })}\n`
    }
    return text
  }

  #next(): number {
    const others = this.#apps.length - 1
    if (this.#left-- <= 0) {
      const [least, most] = NOISY_SECONDS
      this.#left = Math.ceil(this.#rate * (least + this.#random() * (most - least)))
      if (others > 0) this.#noisy = (this.#noisy + 1 + this.#below(others)) % this.#apps.length
    }
    if (others === 0 || this.#random() < NOISY_SHARE) return this.#noisy
    return (this.#noisy + 1 + this.#below(others)) % this.#apps.length
  }

  /** A random integer in [0, `end`). */
  #below(end: number): number {
    return Math.floor(this.#random() * end)
  }
}

/** Pseudorandom numbers in [0, 1). */
function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let bits = Math.imul(state ^ (state >>> 15), 1 | state)
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }
}
