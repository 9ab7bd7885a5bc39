import { filter } from '../../../components/processors/filter.js'
import { withFileRules } from '../../../components/processors/throttle/limits-file/read-limits.js'
import { deciderOptions, type ThrottleOptions } from '../../../components/processors/throttle/options.js'
import { throttle } from '../../../components/processors/throttle.js'
import { DISCARD } from '../../../components/throttle/limiter.js'
import { compileCondition } from '../../../core/condition/condition.js'
import type { Condition } from '../../../core/condition/parse.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { UsageError } from '../../../daemon/process/command-line.js'
import { splitInput } from '../../../engine/config/inputs.js'
import type { ComponentConfig, Config } from '../../../engine/config/load.js'
import { createTrialDecider } from './trial-decider.js'
import type { FieldContext } from './trials.js'

/** The part of a configuration that events pass before they reach a throttle. */
export interface Way {
  readonly throttle: string
  readonly sources: readonly ComponentConfig<'source'>[]
  readonly processors: readonly ComponentConfig<'processor'>[]
  /** Ids of the components that read each output (`app_logs`, `wanted.discarded`). */
  readonly readers: ReadonlyMap<string, readonly string[]>
}

/** Whether an event leaves by the main output, rather than by `discarded`. `now` is the time of the event. */
type Passes = (batch: EventBatch, i: number, now: number) => boolean

interface Stage {
  readonly id: string
  readonly passes: Passes
  readonly enter?: (batch: EventBatch) => void
}

/** All paths from the sources to a throttle. */
export function wayTo(config: Config, throttleId: string): Way {
  const sources = new Map(config.sources.map(source => [source.id, source]))
  const processors = new Map(config.processors.map(processor => [processor.id, processor]))
  const readers = new Map<string, string[]>()
  const met = new Set<string>()
  const follow = (id: string) => {
    if (met.has(id)) return
    met.add(id)
    for (const input of processors.get(id)?.inputs ?? []) {
      const others = readers.get(input)
      if (others) others.push(id)
      else readers.set(input, [id])
      follow(splitInput(input)[0])
    }
  }
  follow(throttleId)
  const isBefore = ({ id }: { id: string }) => met.has(id) && id !== throttleId
  return {
    throttle: throttleId,
    sources: [...sources.values()].filter(isBefore),
    processors: [...processors.values()].filter(isBefore),
    readers,
  }
}

/** Applies components that only decide (`onlyDecide`) to one event after the other. */
export class Before {
  /** The component that the last event reached. */
  last = ''
  readonly #way: Way
  readonly #stages: ReadonlyMap<string, Stage>

  constructor(way: Way, fields: FieldContext) {
    this.#way = way
    this.#stages = new Map(way.processors.map(processor => [processor.id, stageOf(processor, fields)]))
  }

  /** Called before the events of a batch. */
  enter(batch: EventBatch): void {
    for (const { enter } of this.#stages.values()) enter?.(batch)
  }

  /** How often every event of a source reaches the throttle; 0 if that depends on the event. */
  always(source: string): number {
    const readers = this.#way.readers.get(source) ?? []
    return readers.every(id => id === this.#way.throttle) ? readers.length : 0
  }

  /** How often event `i` of a source reaches the throttle: once for each path that lets it pass. */
  arrivals(source: string, batch: EventBatch, i: number, now: number): number {
    const follow = (output: string): number => {
      let arrived = 0
      for (const id of this.#way.readers.get(output) ?? []) {
        const stage = this.#stages.get(id)
        if (!stage) arrived++
        else {
          this.last = id
          arrived += follow(stage.passes(batch, i, now) ? id : `${id}.discarded`)
        }
      }
      return arrived
    }
    return follow(source)
  }
}

export function isThrottle({ type }: ComponentConfig<'processor'>): boolean {
  return type === throttle.type
}

/** Whether the processors of a way only decide which events pass, so that `Before` can apply them. */
export function onlyDecide({ processors }: Way): boolean {
  return processors.every(processor => isThrottle(processor) || processor.type === filter.type)
}

/** Throws UsageError if a processor of the way cannot be simulated: one that keeps events, or makes some in time. */
export function checkWay({ processors, throttle: throttleId }: Way): void {
  const keeping = processors.find(
    processor => !isThrottle(processor) && (processor.plan?.keeps || processor.plan?.waits || processor.plan?.every),
  )
  if (!keeping) return
  const { id, type } = keeping
  throw new UsageError(
    `${id} is before the throttle, and a processor of type ${type} that keeps events for some time cannot be simulated; \
use --tap ${throttleId} to simulate what a running daemon gives the throttle, \
or record events behind ${id} (sluice tap ${id} > FILE) and simulate the file without a configuration`,
    'simulate',
  )
}

function stageOf(processor: ComponentConfig<'processor'>, fields: FieldContext): Stage {
  const { id, options } = processor
  if (isThrottle(processor)) return throttleStage(id, options, fields)
  const { condition } = options as { condition: Condition }
  return { id, passes: compileCondition(condition, path => fields.field(path)) }
}

/** A throttle before the one that is simulated. */
export function throttleStage(id: string, given: unknown, fields: FieldContext): Stage {
  const options = withFileRules(given as ThrottleOptions)
  const decider = createTrialDecider(options, fields)
  const { eventTime } = deciderOptions(options, fields)
  return {
    id,
    enter: batch => decider.enter(batch),
    passes(batch, i, now) {
      const time = eventTime ? eventTime.time.of(batch, i) : now
      const refused = decider.refused + decider.late
      if (decider.decide(batch, i, Number.isNaN(time) ? now : time) !== DISCARD || options.mode === 'shadow')
        return true
      // A marked event passes; one that has no bucket, or is late, is discarded nevertheless.
      return options.over_limit === 'mark' && decider.refused + decider.late === refused
    },
  }
}
