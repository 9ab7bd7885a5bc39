import type { Lifecycle } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { ComponentCounters } from '../flow/counters.js'
import { FanOut, Input, pump, pumpSide } from '../flow/fan-out.js'
import type { Stage } from '../flow/stage.js'
import type { EngineConfig } from './runtime.js'
import { Taps } from './taps.js'

/** Whether a component reads this output. */
export function isRead(output: string, { processors, destinations }: EngineConfig): boolean {
  return [...processors, ...destinations].some(({ inputs }) => inputs.includes(output))
}

/** How the components of an engine are connected. */
export class Links {
  readonly taps: Taps
  readonly #config: EngineConfig
  readonly #inputs = new Map<string, Input>()
  /** Outputs by id, side outputs by `id.output`. */
  readonly #fanOuts = new Map<string, FanOut>()
  /** Counts of events that left a processor and have not reached the next queue. */
  readonly #between: (() => number)[] = []

  constructor(config: EngineConfig, components: ReadonlyMap<string, Lifecycle>) {
    this.#config = config
    this.taps = new Taps(id => this.fanOut(id), this.#fanOuts, this.#inputs, this.#between, components)
  }

  fanOut(id: string): FanOut {
    let fanOut = this.#fanOuts.get(id)
    if (!fanOut) {
      fanOut = new FanOut()
      this.#fanOuts.set(id, fanOut)
    }
    return fanOut
  }

  addInput(id: string, input: Input): void {
    this.#inputs.set(id, input)
  }

  /** Passes on what a predecessor has left to a component, before anything else arrives. */
  inherit(id: string, batch: EventBatch): void {
    void this.#inputs.get(id)!.write(batch)
  }

  /** Adds the input and the outputs of a processor. */
  addStage(id: string, stage: Stage, metrics: ComponentCounters): void {
    this.addInput(id, new Input(stage, metrics))
    this.taps.stages.set(id, stage)
    const before = metrics.passed.events
    const main = pump(stage, stage.hasMain ? this.fanOut(id) : new FanOut())
    this.#between.push(() => metrics.passed.events - before - main.events)
    for (const [name, output] of stage.outputs) {
      const side = `${id}.${name}`
      if (!isRead(side, this.#config)) this.taps.unread.set(side, output)
      else {
        output.connected = true
        this.#between.push(pumpSide(output, this.fanOut(side)))
      }
    }
  }

  /** Connects the readers, whose inputs were added, to what they read. */
  connect(readers: readonly { readonly id: string; readonly inputs: readonly string[] }[]): void {
    for (const { id, inputs } of readers) for (const input of inputs) this.fanOut(input).connect(this.#inputs.get(id)!)
  }

  /** Number of events on their way from one component to the next. */
  between(): number {
    return this.#between.reduce((all, count) => all + count(), 0)
  }
}
