import { deciderOptions } from '../components/processors/throttle/decider-options.js'
import { withFileRules } from '../components/processors/throttle/limits-file.js'
import type { ThrottleConfig } from '../components/processors/throttle/options.js'
import { DISCARD } from '../components/throttle/decisions.js'
import { JSON_OBJECTS } from '../core/codecs/json.js'
import type { Processor } from '../core/component.js'
import type { EventBatch } from '../core/event/batch.js'
import { EventEditor } from '../core/event/event-editor.js'
import type { FieldPath } from '../core/event/field-path.js'
import { FieldReader } from '../core/event/field-reader.js'
import { silentLog } from '../core/silent-log.js'
import type { ComponentConfig } from '../engine/config/load.js'
import { ComponentCounters } from '../engine/flow/counters.js'
import type { SideOutput } from '../engine/flow/side-output.js'
import { Stage, type StageContext } from '../engine/flow/stage.js'
import { createComponent } from '../engine/run/create-component.js'
import type { WantedNames } from '../lib/formats/json-scan.js'
import { nextTurn, type TimerClock } from '../lib/time.js'
import { isThrottle, type ThrottlePath } from './subject.js'
import { createTrialDecider, type SimulatedLag } from './trial.js'

/** A stage that collects the events of all its outputs in `left`. */
class CollectingStage extends Stage {
  /** The events that have left the stage. Each batch has the name of its output: `id` or `id.name`. */
  left: [output: string, batch: EventBatch][] = []
  readonly #names = new Map<SideOutput | undefined, string>()

  constructor({ id, plan = {} }: ComponentConfig<'processor'>, processor: Processor, context: StageContext) {
    super(processor, plan, context)
    this.#names.set(undefined, id)
    for (const [name, output] of this.outputs) {
      output.connected = true
      this.#names.set(output, `${id}.${name}`)
    }
  }

  protected override passOn(batch: EventBatch, output?: SideOutput): void {
    this.left.push([this.#names.get(output)!, batch])
  }
}

/** One processor of a chain. */
interface Link {
  /** Processes the events and settles them. Returns the resulting batches, each with the name of its output. */
  run(events: EventBatch): Promise<CollectingStage['left']> | CollectingStage['left']
  stop(): Promise<void>
}

const failuresOf = ({ failures }: ComponentCounters) => [...failures.values()].reduce((sum, n) => sum + n, 0)

/**
 * Runs the processors before a throttle, as a daemon does: on one event after the other. The clock of these processors
 * shows the latest event time so far. For backlog, it shows the time of the first event, or the end of `lag`. Throttles among these
 * processors decide like the simulated throttle: on each event at its own time, or on all events as backlog.
 */
export class Chain {
  readonly #route: ThrottlePath
  readonly #wanted: WantedNames
  readonly #timeOf: (events: EventBatch, i: number) => number
  readonly #links = new Map<string, Link>()
  readonly #counters: ComponentCounters[] = []
  readonly #isBacklog: boolean
  readonly #lag: SimulatedLag | undefined
  #current: EventBatch | undefined
  #now = 0
  /** Id of the processor that the last event reached. */
  last = ''

  /** `timeOf` returns the time of an event, or NaN if the event has no time. */
  constructor(
    route: ThrottlePath,
    wanted: WantedNames,
    timeOf: (events: EventBatch, i: number) => number,
    isBacklog: boolean,
    lag?: SimulatedLag,
  ) {
    this.#isBacklog = isBacklog
    this.#lag = lag
    if (lag) this.#now = lag.until
    this.#route = route
    this.#wanted = wanted
    this.#timeOf = timeOf
  }

  /** How many events each processor could not process. Processors without such events are left out. */
  get failed(): [id: string, events: number][] {
    return this.#counters
      .map(counters => [counters.id, failuresOf(counters)] as [string, number])
      .filter(([, n]) => n > 0)
  }

  /**
   * Creates the processors, which register the names of the fields that they read. Call this before any event is read.
   */
  async start(signal: AbortSignal): Promise<void> {
    for (const config of this.#route.processors)
      this.#links.set(config.id, isThrottle(config) ? this.#throttle(config) : await this.#stage(config, signal))
  }

  async stop(): Promise<void> {
    for (const link of this.#links.values()) await link.stop()
  }

  /**
   * Passes `events` from `output` to its readers, and the results of these readers to the next readers. Calls `arrive`
   * with events that reach the throttle.
   */
  async follow(output: string, events: EventBatch, arrive: (events: EventBatch) => void): Promise<void> {
    for (const id of this.#route.readers.get(output) ?? []) {
      const link = this.#links.get(id)
      if (!link) {
        arrive(events)
        continue
      }
      this.last = id
      this.#current = events
      const left = link.run(events.fork())
      for (const [to, batch] of left instanceof Promise ? await left : left) {
        await this.follow(to, batch, arrive)
        batch.ack.settle('delivered')
      }
    }
  }

  #time(): number {
    if (this.#isBacklog && this.#now > 0) return this.#now
    const time = this.#current ? this.#timeOf(this.#current, 0) : Number.NaN
    if (time > this.#now) this.#now = time
    return this.#now
  }

  readonly #field = (path: FieldPath) => new FieldReader(path, this.#wanted)

  #throttle({ id, options: given }: ComponentConfig<'processor'>): Link {
    const fields = { field: this.#field }
    const options = withFileRules(given as ThrottleConfig)
    const decider = createTrialDecider(options, fields, this.#isBacklog, undefined, this.#lag)
    const { eventTime } = deciderOptions(options, fields)
    const passes = (events: EventBatch, i: number) => {
      const latest = this.#time()
      const clock = this.#isBacklog ? latest : this.#timeOf(events, i)
      const own = eventTime ? eventTime.time.of(events, i) : clock
      const refused = decider.refused + decider.late
      const outcome = decider.decide(events, i, Number.isNaN(own) ? latest : own)
      if (outcome !== DISCARD || options.mode === 'shadow') return true
      // With `mark`, events over the limit pass. Late events, and events that get no bucket, do not pass.
      return options.over_limit === 'mark' && decider.refused + decider.late === refused
    }
    const run = (events: EventBatch) => {
      decider.enter(events)
      const isPassed = Array.from({ length: events.length }, (_, i) => passes(events, i))
      const left: CollectingStage['left'] = []
      for (const [output, wanted] of [
        [id, true],
        [`${id}.discarded`, false],
      ] as const) {
        const batch = events.pick(i => isPassed[i] === wanted)
        if (batch) left.push([output, batch])
      }
      events.ack.settle('delivered')
      return left
    }
    return { run, stop: async () => {} }
  }

  async #stage(config: ComponentConfig<'processor'>, signal: AbortSignal): Promise<Link> {
    const { id, type, onError = 'pass' } = config
    const metrics = new ComponentCounters(id, 'processor', type)
    this.#counters.push(metrics)
    // The timers of this clock never fire, so, for example, tables are not read again.
    const clock: TimerClock = { now: () => this.#time(), wall: () => this.#time(), after: () => () => {} }
    const context = { id, log: silentLog, clock, metrics, field: this.#field }
    const editor = () => new EventEditor(this.#wanted)
    const stage = new CollectingStage(config, await createComponent<'processor'>(config, { ...context, editor }), {
      ...context,
      origin: { source: id, host: '', codec: JSON_OBJECTS, wanted: this.#wanted },
      onError,
      deadLetters: { write: async () => {} },
    })
    await stage.start(signal)
    const take = () => stage.left.splice(0)
    const whenDecided = async () => {
      while (stage.holds().events > 0) await nextTurn()
      return take()
    }
    const run = (events: EventBatch) => {
      stage.write(events)
      return stage.holds().events > 0 ? whenDecided() : take()
    }
    return { run, stop: () => stage.stop(AbortSignal.abort()) }
  }
}
