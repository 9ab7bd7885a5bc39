import type { Processor } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { REJECTED } from '../../core/options/delivery-options.js'
import type { ProcessorOutage } from '../../core/status-document.js'
import { FanOut, type Input, type Tap } from '../flow/fan-out.js'
import type { FateObserver } from '../flow/fates.js'
import type { DestinationRun } from './destination-run.js'
import type { ProcessorRun } from './processor-run.js'
import type { EngineConfig } from './runtime.js'

export function isRead(output: string, { processors, destinations }: EngineConfig): boolean {
  return [...processors, ...destinations].some(({ inputs }) => inputs.includes(output))
}

/** The connections between the components of an engine, and access to the events in them while the components run. */
export class Links {
  readonly #config: EngineConfig
  readonly #processors = new Map<string, ProcessorRun>()
  readonly #destinations = new Map<string, DestinationRun>()
  readonly #inputs = new Map<string, Input>()
  /** Outputs by id, side outputs by `id.output`. */
  readonly #fanOuts = new Map<string, FanOut>()

  constructor(config: EngineConfig) {
    this.#config = config
  }

  fanOut(id: string): FanOut {
    let fanOut = this.#fanOuts.get(id)
    if (!fanOut) {
      fanOut = new FanOut()
      this.#fanOuts.set(id, fanOut)
    }
    return fanOut
  }

  /** `id`: the destination's id in the running configuration. */
  addDestination(id: string, run: DestinationRun): void {
    this.#inputs.set(id, run.input)
    this.#destinations.set(id, run)
  }

  addProcessor(run: ProcessorRun): void {
    this.#inputs.set(run.config.id, run.input)
    this.#processors.set(run.config.id, run)
    for (const [name, fanOut] of run.fanOuts) this.#fanOuts.set(name, fanOut)
  }

  /** Connects readers to the outputs that they read. Their inputs must have been added. */
  connect(readers: readonly { readonly id: string; readonly inputs: readonly string[] }[]): void {
    for (const { id, inputs } of readers) for (const input of inputs) this.fanOut(input).connect(this.#inputs.get(id)!)
  }

  /** Passes on events that a component's predecessor left. Call it before other events arrive. */
  inherit(id: string, batch: EventBatch): void {
    void this.#inputs.get(id)!.write(batch)
  }

  /** Number of events on their way from one component to the next. */
  between(): number {
    return [...this.#processors.values()].reduce((all, run) => all + run.between(), 0)
  }

  /** The names of all that can be tapped: outputs, side outputs, and inputs of destinations. */
  outputs(): string[] {
    const sides = [...this.#processors.values()].flatMap(run => run.sides())
    const names = new Set([...this.#fanOuts.keys(), ...sides, ...this.#inputs.keys()])
    return [...names].filter(name => !name.endsWith(`.${REJECTED}`)).sort()
  }

  /**
   * Shows every batch of an output to `tap` before the readers of the output receive the batch. Returns a function that
   * removes the tap; undefined if the output does not exist. An output without taps costs nothing.
   */
  tap(output: string, tap: Tap): (() => void) | undefined {
    const [id, name] = output.split('.')
    const run = name === undefined ? undefined : this.#processors.get(id!)
    // Sources and processors are tapped at their output, destinations at their input.
    const place = run?.open(name!) ?? this.#fanOuts.get(output) ?? this.#inputs.get(output)
    if (!place) return undefined
    const side = run?.stage.outputs.get(name!)
    const changed = () => {
      if (side) side.tapped = place.taps.size > 0
    }
    place.taps.add(tap)
    changed()
    return () => {
      place.taps.delete(tap)
      changed()
    }
  }

  /** The components that read an output; null if its processor only observes events, so that it needs no reader. */
  readers(output: string): string[] | null {
    const { processors, destinations } = this.#config
    if (processors.some(({ id, plan }) => plan?.observes && output.startsWith(`${id}.`))) return null
    return [...processors, ...destinations].filter(({ inputs }) => inputs.includes(output)).map(({ id }) => id)
  }

  processor(id: string): Processor | undefined {
    return this.#processors.get(id)?.processor
  }

  /** Reports to `observer` what becomes of the events of a processor or destination; undefined removes the observer. */
  observe(id: string, observer: FateObserver | undefined): void {
    const place = this.#processors.get(id)?.stage ?? this.#destinations.get(id)
    if (place) place.observer = observer
  }

  /** The processors whose server does not reply, and the processors that take too long for a batch. */
  outages(): (ProcessorOutage & { readonly id: string })[] {
    return [...this.#processors].flatMap(([id, { stage, processor }]) => {
      const outage = processor.outage ?? stage.slow.outage
      return outage ? [{ id, ...outage }] : []
    })
  }

  /** The events for which a processor has decided LATER; undefined if none wait. */
  waiting(processor: string): Iterable<EventBatch> | undefined {
    return this.#processors.get(processor)?.stage.waitingBatches
  }
}
