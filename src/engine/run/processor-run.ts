import type { Processor } from '../../core/component.js'
import type { ComponentConfig } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import { FanOut, finish, Input, pump, pumpSide } from '../flow/fan-out.js'
import type { Stage } from '../flow/stage.js'
import { type Watched, watched } from './measure/progress.js'

/** A processor with its stage and outputs, from start to end. */
export class ProcessorRun {
  readonly config: ComponentConfig
  readonly processor: Processor
  readonly stage: Stage
  readonly counters: ComponentCounters
  readonly input: Input
  /** The outputs that are read or were tapped, by name. */
  readonly fanOuts = new Map<string, FanOut>()
  readonly watched: Watched
  /** Functions, one for each output, that return the number of events between the processor and the next queue. */
  readonly #between: (() => number)[] = []

  constructor(
    config: ComponentConfig,
    processor: Processor,
    stage: Stage,
    counters: ComponentCounters,
    isRead: (output: string) => boolean,
  ) {
    const { id } = config
    this.config = config
    this.processor = processor
    this.stage = stage
    this.counters = counters
    this.input = new Input(stage, counters)
    this.watched = watched(id, stage, counters)
    const before = counters.passed.events
    const fanOut = new FanOut()
    const main = pump(stage, fanOut)
    if (stage.hasMain) this.fanOuts.set(id, fanOut)
    this.#between.push(() => counters.passed.events - before - main.events)
    for (const [name, output] of stage.outputs) {
      if (!isRead(`${id}.${name}`)) continue
      output.connected = true
      this.open(name)
    }
  }

  sides(): string[] {
    return [...this.stage.outputs.keys()].map(name => `${this.config.id}.${name}`)
  }

  /**
   * The fan-out of a side output; undefined if there is no such output. Events are written only to a side output that
   * is connected or tapped.
   */
  open(name: string): FanOut | undefined {
    const side = `${this.config.id}.${name}`
    const output = this.stage.outputs.get(name)
    const known = this.fanOuts.get(side)
    if (known || !output) return known
    const fanOut = new FanOut()
    this.#between.push(pumpSide(output, fanOut))
    this.fanOuts.set(side, fanOut)
    return fanOut
  }

  between(): number {
    return this.#between.reduce((all, count) => all + count(), 0)
  }

  /** Resolves when all its outputs have ended. */
  async run(): Promise<void> {
    const sides = [...this.stage.outputs.values()].filter(({ isRead }) => isRead)
    await Promise.all([this.stage, ...sides].map(finish))
  }
}
