import { defineProcessor, type HandoverState, type Processor, type ProcessorContext } from '../../src/core/component.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { type BatchScope, MAIN } from '../../src/core/processor.js'
import { ThrottleProcessor } from '../../src/processors/throttle/throttle-processor.js'
import { throttle } from '../../src/processors/throttle.js'
import { currentMachine } from './machine.js'
import { marksOf } from './marks.js'

/** The throttle of the product, with a second opinion on each of its decisions. */

export interface ThrottleSpec {
  readonly limit: number
  readonly windowMs: number
  readonly mode: 'fixed' | 'sliding'
  readonly keyed: boolean
}

const PARSED = {
  keyed: throttle.options.parse({ limit: 1, window: '1 Seconds', key_field: '.k' }),
  plain: throttle.options.parse({ limit: 1, window: '1 Seconds' }),
}

/** The options of a configuration for it, after a check. */
export function throttleOptionsOf({ limit, windowMs, mode, keyed }: ThrottleSpec) {
  return { ...PARSED[keyed ? 'keyed' : 'plain'], limit, window: windowMs, window_mode: mode }
}
type Options = ReturnType<typeof throttleOptionsOf>

export type Fate = 'passed' | 'discarded'

/** What is known of a throttle, whatever becomes of its process. */
export interface ThrottleRecord {
  /** What was decided last of each event. */
  readonly fates: Map<string, Fate>
  /** Events that came again, and were decided on in another way. */
  readonly changed: Set<string>
  /** Whether an event may come to it more than once although nothing was given back. */
  readonly hasCopies: boolean
}

/** What goes from a throttle to the next one with the same options. */
class Counted {
  /** When the events of each bucket passed that count. */
  readonly #passed = new Map<string, number[]>()
  /** Whatever counted, or was beyond the limit. */
  readonly decided = new Set<string>()

  /** Whether an event at this time is within the limit; then it counts. */
  take(key: string, now: number, { limit, window, window_mode }: Options): boolean {
    const before = this.#passed.get(key) ?? []
    const isOpen = (at: number) => now - at < window
    const passed =
      window_mode === 'sliding' ? before.filter(isOpen) : before[0] !== undefined && isOpen(before[0]) ? before : []
    const passes = passed.length < limit
    if (passes) passed.push(now)
    this.#passed.set(key, passed)
    return passes
  }
}

class Left {
  readonly state: unknown
  readonly counted: Counted
  constructor(state: unknown, counted: Counted) {
    this.state = state
    this.counted = counted
  }
}

class WatchedThrottle implements Processor {
  readonly #id: string
  readonly #options: Options
  readonly #throttle: ThrottleProcessor
  readonly #counted: Counted

  constructor(options: Options, context: ProcessorContext) {
    const left = context.inherited instanceof Left ? context.inherited : undefined
    this.#id = context.id
    this.#options = options
    this.#throttle = new ThrottleProcessor(options, { ...context, inherited: left?.state })
    this.#counted = left?.counted ?? new Counted()
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    void this.#throttle.process(batch, to, scope)
    const { world, throttles } = currentMachine()
    const { fates, changed, hasCopies } = throttles.get(this.#id)!
    for (let i = 0; i < batch.length; i++) {
      const marks = marksOf(batch, i)
      const { k: key = '' } = batch.fields(i) as { k?: string }
      const passes = this.#counted.take(this.#options.key_field.length > 0 ? key : '', world.now, this.#options)
      if (passes !== (to[i] === MAIN))
        world.violate(`throttle ${this.#id}: ${marks.join(' ')} ${passes ? 'is within' : 'is beyond'} the limit`)
      for (const mark of marks) {
        const fate = passes ? 'passed' : 'discarded'
        if ((fates.get(mark) ?? fate) !== fate) changed.add(mark)
        fates.set(mark, fate)
        if (!hasCopies && this.#counted.decided.has(mark))
          world.violate(`throttle ${this.#id}: ${mark} is counted a second time`)
        this.#counted.decided.add(mark)
      }
    }
  }

  handOver(): HandoverState {
    return { value: new Left(this.#throttle.handOver().value, this.#counted) }
  }
}

export const watchedThrottle = defineProcessor({
  type: 'sim_throttle',
  summary: 'Passes so many events in a window.',
  options: throttle.options,
  examples: [{ title: 'One in a second', yaml: 'limit: 1\nwindow: 1 Seconds\n' }],
  reasons: throttle.reasons!,
  plan: throttle.plan!,
  create: (options, context) => new WatchedThrottle(options as Options, context),
})
