import type { Processor } from '../../core/component.js'
import type { ComponentConfig } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import { FanOut, finish, Input, pump, pumpSide } from '../flow/fan-out.js'
import type { Stage } from '../flow/stage.js'
import { type Watched, watched } from './measure/progress.js'

/**
 * A processor with its stage and outputs, from start to end. It is kept while other components are replaced, if the
 * components before and after it are kept too.
 */
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
  #state: 'new' | 'started' | 'runs' | 'ended' = 'new'
  /** Lets `run` return. */
  #leave: (() => void) | undefined

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

  async start(signal: AbortSignal): Promise<void> {
    if (this.#state !== 'new') return
    await this.stage.start(signal)
    this.#state = 'started'
  }

  get canStay(): boolean {
    return this.#state === 'runs' && !this.input.isEnded
  }

  /** Runs until all its outputs have ended or until `leave`. After `leave`, the next engine calls `run` to resume. */
  async run(): Promise<void> {
    // Objects that live as long as the processor must not refer to an engine that has ended. The same holds in
    // SourceRun.feed.
    const left = new Promise<void>(resolve => {
      this.#leave = resolve
    })
    if (this.#state === 'ended') this.#leave?.()
    else if (this.#state !== 'runs') this.#begin()
    await left
  }

  #begin(): void {
    this.#state = 'runs'
    const sides = [...this.stage.outputs.values()].filter(({ isRead }) => isRead)
    void Promise.all([this.stage, ...sides].map(finish)).then(() => {
      this.#state = 'ended'
      this.#leave?.()
    })
  }

  /** Prepares for the replacement of the components before it. */
  leave(): void {
    this.input.detach()
    this.#leave?.()
  }

  /** Ends a processor that was kept for the next engine. Resolves when the processor has passed on its events. */
  async end(): Promise<void> {
    const over = this.run()
    this.input.release()
    await over
  }
}
