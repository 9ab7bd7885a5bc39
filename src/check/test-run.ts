import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { JSON_OBJECTS } from '../codecs/json.js'
import type { ConfigTest, TestEvent } from '../config/checks/config-tests.js'
import type { ComponentConfig, Config } from '../config/load.js'
import type { AnyDefinition, Output, Source, SourceContext } from '../core/component.js'
import { EventBatch } from '../core/event/batch.js'
import { deliveryOptions } from '../core/options/delivery-options.js'
import { type SplitOptions, Splitting } from '../core/options/multiline-options.js'
import { Engine } from '../engine/engine.js'
import { Metrics } from '../engine/measure/metrics.js'
import { aborted, sleep, systemClock, type TimerClock } from '../lib/time.js'
import type { Io } from '../terminal/command-line.js'

/** An event that left a component. */
export interface Left {
  readonly line: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** Start time of a test: a full hour, day and year, which aligned windows start at. */
const FIRST_TIME = Date.UTC(2026, 0, 1)
const STEP_LIMIT_MS = 30_000
const MOST_LINE_BYTES = 64 * 1024 * 1024

/** A clock that the steps set, with timers. */
class StepClock implements TimerClock {
  #at = 0
  #timers: { readonly at: number; readonly fn: () => void }[] = []

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

  #remove(timer: { readonly at: number; readonly fn: () => void }): void {
    this.#timers = this.#timers.filter(other => other !== timer)
  }

  /** Advances to a time and fires all timers that are due by then. */
  goTo(time: number): void {
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.at - b.at)[0]
      if (!next || next.at > time) break
      this.#remove(next)
      this.#at = Math.max(this.#at, next.at)
      next.fn()
    }
    this.#at = time
  }
}

/** Replaces a source and emits the lines that it is given. */
class GivenSource implements Source {
  readonly #splitting: Splitting
  readonly #context: SourceContext
  readonly #options: SplitOptions
  #out: Output | undefined

  constructor(options: Partial<SplitOptions>, context: SourceContext) {
    // Sources without an option for reading lines emit objects.
    this.#options = { decode: JSON_OBJECTS, max_line_bytes: MOST_LINE_BYTES, partial_line_timeout: 0, ...options }
    this.#splitting = new Splitting(this.#options)
    this.#context = context
  }

  run(out: Output, signal: AbortSignal): Promise<void> {
    this.#out = out
    return aborted(signal)
  }

  async give(events: readonly TestEvent[], now: number): Promise<void> {
    const text = events.map(event => `${typeof event === 'string' ? event : JSON.stringify(event)}\n`).join('')
    const splitter = this.#splitting.splitter()
    const origin = this.#context.origin(this.#options.decode)
    for (const frame of [splitter.push(Buffer.from(text)), splitter.flush()]) {
      if (frame)
        await this.#out!.send(
          new EventBatch(
            frame,
            origin,
            now,
            this.#out!.ack(() => {}),
          ),
        )
    }
  }
}

/** Runs one test on the components of `config`. Returns the events of each output with an expectation. */
export async function runTest(
  config: Config,
  test: ConfigTest,
  dataDir: string,
  log: Logger,
  io: Pick<Io, 'stdin' | 'stdout' | 'env'>,
): Promise<Map<string, Left[]>> {
  const clock = new StepClock()
  const given = new Map<string, GivenSource>()
  const left = new Map<string, Left[]>(Object.keys(test.expect).map(output => [output, []]))
  const sources = config.sources.map(source => {
    const create = (options: unknown, context: SourceContext) => {
      const made = new GivenSource(options as Partial<SplitOptions>, context)
      given.set(source.id, made)
      return made
    }
    return { ...source, definition: { ...source.definition, create } as AnyDefinition<'source'> }
  })
  const processors = config.processors.map(processor => {
    const { definition } = processor
    const create: typeof definition.create = (options, context) => definition.create(options, { ...context, clock })
    return { ...processor, definition: { ...definition, create } as AnyDefinition<'processor'> }
  })
  const destinations = config.destinations.map(destination => keeper(destination, left.get(destination.id)))
  const watched = [...left].filter(([output]) => !config.destinations.some(({ id }) => id === output))
  for (const [i, [output, kept]] of watched.entries()) {
    destinations.push(keeper({ ...config.destinations[0]!, id: `expected_${i}`, inputs: [output] }, kept))
  }
  const metrics = new Metrics(log)
  const around = { log, clock: systemClock, random: () => 1, metrics, ...io }
  const engine = await Engine.build({ ...config, dataDir, sources, processors, destinations }, around)
  const ended = engine.run()
  try {
    // A source starts to run in a separate event loop turn.
    await sleep(0)
    for (const { at, into, events } of test.steps) {
      clock.goTo(at)
      await given.get(into)!.give(events, clock.wall())
      for (const end = systemClock.now() + STEP_LIMIT_MS; engine.undelivered() > 0; await sleep(1))
        if (systemClock.now() > end) throw new Error('the events of a step did not come through')
    }
  } finally {
    engine.stop(AbortSignal.timeout(STEP_LIMIT_MS))
    await ended
  }
  return left
}

/** The destination, modified to collect its events. */
function keeper(config: ComponentConfig<'destination'>, kept: Left[] | undefined): ComponentConfig<'destination'> {
  const write = async (request: readonly EventBatch[]) => {
    for (const batch of kept ? request : []) for (let i = 0; i < batch.length; i++) kept!.push(leftOf(batch, i))
  }
  const definition = { ...config.definition, create: () => ({ write }) } as AnyDefinition<'destination'>
  const delivery = deliveryOptions.parse({ batch: { max_wait: '1ms' }, max_in_flight: 1 })
  return { ...config, definition, delivery }
}

function leftOf(batch: EventBatch, i: number): Left {
  const line = batch.chunk.toString('utf8', batch.starts[i]!, batch.ends[i]!)
  return { line, fields: structuredClone(batch.fields(i)) }
}

/** Whether the event is the expected one. */
export function isExpected(event: Left, expected: TestEvent): boolean {
  if (typeof expected === 'string') return event.line === expected || event.fields.message === expected
  return Object.entries(expected).every(([name, value]) => isDeepStrictEqual(event.fields[name], value))
}
