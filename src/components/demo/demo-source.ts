import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import { linesOf } from '../../lib/lines/line-splitter.js'
import { sleep } from '../../lib/time.js'
import { DemoEvents } from './demo-events.js'
import type { DemoOptions } from './options.js'

/** Events are made in the middle of each tenth of a second: then every second of the clock has `rate` of them. */
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
      // After a pause, such as one downstream, it makes the events of one second at most.
      let count = Math.min(due - made, this.#rate)
      made = due
      for (; count > 0 && !signal.aborted; count -= BATCH_EVENTS) await this.#send(out, Math.min(count, BATCH_EVENTS))
    }
  }

  async #send(out: Output, count: number): Promise<void> {
    const { clock, metrics } = this.#context
    const now = clock.wall()
    const frame = linesOf(Buffer.from(this.#events.next(count, new Date(now).toISOString())))!
    const ack = out.ack(status => {
      if (status === 'errored') metrics.failed('undelivered')
    })
    await out.send(new EventBatch(frame, this.#origin, now, ack))
  }
}
