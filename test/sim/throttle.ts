import { inEventTime } from '../../src/components/processors/throttle/in-event-time.js'
import { ThrottleProcessor } from '../../src/components/processors/throttle/throttle-processor.js'
import { throttle } from '../../src/components/processors/throttle.js'
import { defineProcessor, type HandoverState, type Processor, type ProcessorContext } from '../../src/core/component.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { type BatchScope, LATER, MAIN } from '../../src/core/processor.js'
import { currentMachine } from './machine.js'
import { marksOf } from './marks.js'

/** The throttle of the product, with a second opinion on each of its decisions. */

export interface ThrottleSpec {
  readonly limit: number
  readonly windowMs: number
  readonly mode: 'fixed' | 'sliding'
  readonly keyed: boolean
  /** How long events may wait for room; 0: not at all. */
  readonly waitMs: number
  readonly onBacklog: 'as_live' | 'pace' | 'pass'
  /** With `pace`. */
  readonly maxDelayMs: number
}

const PARSED = {
  keyed: throttle.options.parse({ limit: 1, window: '1 Seconds', key_field: '.k' }),
  plain: throttle.options.parse({ limit: 1, window: '1 Seconds' }),
}

/** The options of a configuration for it, after a check. */
export function throttleOptionsOf(spec: ThrottleSpec) {
  const { limit, windowMs, mode, keyed, waitMs, onBacklog, maxDelayMs } = spec
  return {
    ...PARSED[keyed ? 'keyed' : 'plain'],
    limit,
    window: windowMs,
    window_mode: mode,
    over_limit: waitMs > 0 ? ({ wait: waitMs } as const) : ('discard' as const),
    on_backlog: onBacklog,
    max_delay: onBacklog === 'pace' ? maxDelayMs : undefined,
  }
}
type Options = ReturnType<typeof throttleOptionsOf>

/** Whether events may wait in it. */
export const waits = ({ waitMs, onBacklog }: ThrottleSpec) => waitMs > 0 || onBacklog === 'pace'

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

  /** In how many milliseconds there is room, after an event that is beyond the limit. */
  roomIn(key: string, now: number, { window }: Options): number {
    return this.#passed.get(key)![0]! + window! - now
  }

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
  /** Backlog that waits, by bucket. */
  readonly #waiting = new Map<string, Set<string>>()

  constructor(options: Options, context: ProcessorContext) {
    const left = context.inherited instanceof Left ? context.inherited : undefined
    this.#id = context.id
    this.#options = options
    this.#throttle = new ThrottleProcessor(options, { ...context, inherited: left?.state }, { inEventTime })
    this.#counted = left?.counted ?? new Counted()
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    void this.#throttle.process(batch, to, scope)
    const { world, throttles } = currentMachine()
    const { fates, changed, hasCopies } = throttles.get(this.#id)!
    const options = this.#options
    for (let i = 0; i < batch.length; i++) {
      const marks = marksOf(batch, i)
      const { k = '' } = batch.fields(i) as { k?: string }
      const key = options.key_field.length > 0 ? k : ''
      const isFree = batch.isBacklog && options.on_backlog === 'pass'
      const passes = isFree || this.#counted.take(key, world.now, options)
      if (passes !== (to[i] === MAIN))
        world.violate(`throttle ${this.#id}: ${marks.join(' ')} ${passes ? 'is within' : 'is beyond'} the limit`)
      if (!passes) this.#checkWait(key, batch.isBacklog, to[i] === LATER, scope, marks)
      this.#noteWaiting(key, marks, to[i] === LATER && batch.isBacklog)
      for (const mark of to[i] === LATER ? [] : marks) {
        const fate = passes ? 'passed' : 'discarded'
        if ((fates.get(mark) ?? fate) !== fate) changed.add(mark)
        fates.set(mark, fate)
        if (!hasCopies && this.#counted.decided.has(mark))
          world.violate(`throttle ${this.#id}: ${mark} is counted a second time`)
        this.#counted.decided.add(mark)
      }
    }
  }

  /** An event beyond the limit waits if there will be room in time, and only then. */
  #checkWait(key: string, isBacklog: boolean, isLater: boolean, scope: BatchScope, marks: readonly string[]): void {
    const { over_limit: over, on_backlog, max_delay = 0 } = this.#options
    const { world } = currentMachine()
    const live = typeof over === 'object' ? over.wait : 0
    const backlog = on_backlog === 'pace' ? max_delay : live
    const roomIn = this.#counted.roomIn(key, world.now, this.#options)
    const fits = (ms: number) => scope.mayWait && ms > scope.keptMs && roomIn <= ms - scope.keptMs
    // What is live waits behind backlog, and for a moment after it.
    const may = fits(isBacklog ? backlog : Math.max(live, backlog))
    const must = fits(isBacklog ? backlog : live) && (isBacklog || backlog >= live || !this.#waiting.get(key)?.size)
    if (isLater ? may : !must) return
    world.violate(`throttle ${this.#id}: ${marks.join(' ')} ${isLater ? 'waits in vain' : 'could have waited'}`)
  }

  #noteWaiting(key: string, marks: readonly string[], isWaiting: boolean): void {
    const waiting = this.#waiting.get(key) ?? new Set()
    for (const mark of marks) isWaiting ? waiting.add(mark) : waiting.delete(mark)
    this.#waiting.set(key, waiting)
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
