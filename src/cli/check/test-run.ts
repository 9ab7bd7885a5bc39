import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { AnyDefinition, Output, Source, SourceContext } from '../../core/component.js'
import { EventBatch } from '../../core/event/batch.js'
import { MODIFIED } from '../../core/event/flags.js'
import { deliveryOptions } from '../../core/options/delivery-options.js'
import { type SplitOptions, Splitting } from '../../core/options/multiline-options.js'
import type { Io } from '../../daemon/process/command-line.js'
import { AS_OBJECTS } from '../../daemon/process/given-event.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import type { ConfigTest, TestEvent } from '../../engine/config/test-options.js'
import { Engine } from '../../engine/run/engine.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { jsonText } from '../../lib/formats/json-text.js'
import { aborted, nextTurn, sleep, systemClock, type TimerClock } from '../../lib/time.js'
import { withOwnBuckets } from './own-buckets.js'

export interface ReachedEvent {
  /** The line as it was read, or JSON if a component changed the event. */
  readonly line: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** If the number of moving events does not change for this time, the events are stuck. */
const STUCK_MS = 30_000

/** Replaces a source, and emits the events of the test. */
class GivenSource implements Source {
  readonly #splitting: Splitting
  readonly #context: SourceContext
  readonly #options: SplitOptions
  #out: Output | undefined

  constructor(options: Partial<SplitOptions>, context: SourceContext) {
    // Sources without an option for reading lines emit objects.
    this.#options = { ...AS_OBJECTS, ...options }
    this.#splitting = new Splitting(this.#options)
    this.#context = context
  }

  run(out: Output, signal: AbortSignal): Promise<void> {
    this.#out = out
    return aborted(signal)
  }

  async give({ events, backlog }: ConfigTest['steps'][number], now: number): Promise<void> {
    const text = events.map(event => `${typeof event === 'string' ? event : JSON.stringify(event)}\n`).join('')
    const splitter = this.#splitting.lineSplitter()
    const origin = this.#context.origin(this.#options.decode)
    for (const frame of [splitter.push(Buffer.from(text)), splitter.flush()]) {
      if (frame)
        await this.#out!.send(
          new EventBatch(
            frame,
            origin,
            now,
            this.#out!.ack(() => {}),
            backlog,
          ),
        )
    }
  }
}

/** Runs one test on the components of `config`. Returns for each output in `test.expect` the events that left it. */
export async function runTest(
  config: Config,
  test: ConfigTest,
  dataDir: string,
  log: Logger,
  io: Pick<Io, 'stdin' | 'stdout'>,
): Promise<Map<string, ReachedEvent[]>> {
  const clock = new StepClock()
  const given = new Map<string, GivenSource>()
  const left = new Map<string, ReachedEvent[]>(Object.keys(test.expect).map(output => [output, []]))
  const sources = config.sources.map(source => {
    const create = (options: unknown, context: SourceContext) => {
      const made = new GivenSource(options as Partial<SplitOptions>, context)
      given.set(source.id, made)
      return made
    }
    return { ...source, definition: { ...source.definition, create } as AnyDefinition<'source'> }
  })
  const processors = config.processors.map(withOwnBuckets)
  const destinations = config.destinations.map(destination => keeper(destination, left.get(destination.id)))
  const watched = [...left].filter(([output]) => !config.destinations.some(({ id }) => id === output))
  for (const [i, [output, kept]] of watched.entries()) {
    destinations.push(keeper({ ...config.destinations[0]!, id: `expected_${i}`, inputs: [output] }, kept))
  }
  const metrics = new Metrics(log)
  const runtime = { log, clock: systemClock, processorClock: clock, random: () => 1, metrics, ...io }
  const engine = await Engine.build({ ...config, dataDir, sources, processors, destinations }, runtime)
  const ended = engine.run()
  const atRest = () => movesNoMore(() => engine.undelivered() - waitingIn(metrics))
  try {
    // Waits because a source starts to run in a later event loop turn.
    await sleep(0)
    for (const step of test.steps) {
      for (let next = clock.next; next <= step.at; next = clock.next) {
        clock.goTo(next)
        await atRest()
      }
      clock.goTo(step.at)
      let isGiven = false
      const giving = given
        .get(step.into)!
        .give(step, clock.wall())
        .then(() => {
          isGiven = true
        })
      for (await atRest(); !isGiven; await atRest()) clock.goTo(clock.next)
      await giving
    }
    for (; engine.undelivered() > 0; await atRest()) clock.goTo(clock.next)
  } finally {
    engine.stop(AbortSignal.timeout(STUCK_MS))
    await ended
  }
  return left
}

/** Number of events that components keep until a later time. */
function waitingIn({ components }: Metrics): number {
  let events = 0
  for (const one of components.values()) events += one.waiting()
  return events
}

/** Resolves when `moving` returns 0. */
async function movesNoMore(moving: () => number): Promise<void> {
  let before = 0
  let end = 0
  for (;;) {
    await nextTurn()
    const now = moving()
    if (now === 0) return
    if (now !== before) end = systemClock.now() + STUCK_MS
    else if (systemClock.now() > end) throw new Error('the events of a step are stuck in the pipeline')
    before = now
    await sleep(1)
  }
}

/** Returns the destination, changed so that it collects its events in `kept`. */
function keeper(
  config: ComponentConfig<'destination'>,
  kept: ReachedEvent[] | undefined,
): ComponentConfig<'destination'> {
  const write = async (request: readonly EventBatch[]) => {
    for (const batch of kept ? request : []) for (let i = 0; i < batch.length; i++) kept!.push(leftOf(batch, i))
  }
  const definition = { ...config.definition, create: () => ({ write }) } as AnyDefinition<'destination'>
  const delivery = deliveryOptions.parse({ batch: { max_wait: '1ms' }, max_in_flight: 1 })
  return { ...config, definition, delivery }
}

function leftOf(batch: EventBatch, i: number): ReachedEvent {
  const fields = batch.fields(i)
  const isModified = (batch.flags[i]! & MODIFIED) !== 0
  const line = isModified ? jsonText(fields) : batch.chunk.toString('utf8', batch.starts[i]!, batch.ends[i]!)
  return { line, fields }
}

export function isExpected(event: ReachedEvent, expected: TestEvent): boolean {
  if (typeof expected === 'string') return event.line === expected || event.fields.message === expected
  return Object.entries(expected).every(([name, value]) => isDeepStrictEqual(event.fields[name], value))
}

/**
 * The time at which a test starts. An hour, a day and a year start at this time, so aligned windows also start then.
 */
const FIRST_TIME = Date.UTC(2026, 0, 1)

interface Timer {
  readonly at: number
  readonly fn: () => void
}

/** A clock that moves only when `goTo` sets it. */
class StepClock implements TimerClock {
  #at = 0
  #timers: Timer[] = []

  now(): number {
    return this.#at
  }

  wall(): number {
    return FIRST_TIME + this.#at
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#at + ms, fn }
    this.#timers.push(timer)
    return () => this.#remove(timer)
  }

  #remove(timer: Timer): void {
    this.#timers = this.#timers.filter(other => other !== timer)
  }

  /** The time at which the next timer is due. Infinity if no timer is set. */
  get next(): number {
    return Math.min(...this.#timers.map(({ at }) => at))
  }

  /** Sets the clock to `time` if `time` is later than the clock. Fires the timers that are due. */
  goTo(time: number): void {
    if (!Number.isFinite(time)) throw new Error('events wait, and nothing will release them')
    this.#at = Math.max(this.#at, time)
    for (const timer of this.#timers.toSorted((a, b) => a.at - b.at)) {
      if (timer.at > this.#at || !this.#timers.includes(timer)) continue
      this.#remove(timer)
      timer.fn()
    }
  }
}
