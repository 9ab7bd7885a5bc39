import type { BucketState, KeyWatch, Lifecycle, Processor, ProcessorOutage, WaitState } from '../../core/component.js'
import { REJECTED } from '../../core/options/delivery-options.js'
import { type FanOut, type Input, pumpSide, type Tap } from '../flow/fan-out.js'
import type { SideOutput } from '../flow/side-output.js'
import type { Stage } from '../flow/stage.js'

/** Taps on outputs. A tap sees a batch before its readers do; without taps there is no cost. */
export class Taps {
  /** Side outputs without readers, by `id.output`. No event is written to them while they are not tapped. */
  readonly unread = new Map<string, SideOutput>()
  readonly stages = new Map<string, Stage>()
  readonly #make: (output: string) => FanOut
  readonly #fanOuts: ReadonlyMap<string, FanOut>
  readonly #inputs: ReadonlyMap<string, Input>
  readonly #between: (() => number)[]
  readonly #components: ReadonlyMap<string, Lifecycle>

  /** `between` counts the events that left a processor and have not reached the next queue. */
  constructor(
    make: (output: string) => FanOut,
    fanOuts: ReadonlyMap<string, FanOut>,
    inputs: ReadonlyMap<string, Input>,
    between: (() => number)[],
    components: ReadonlyMap<string, Lifecycle>,
  ) {
    this.#make = make
    this.#fanOuts = fanOuts
    this.#inputs = inputs
    this.#between = between
    this.#components = components
  }

  /** The names that can be tapped: outputs, side outputs, and destinations for their input. */
  outputs(): string[] {
    const names = new Set([...this.#fanOuts.keys(), ...this.unread.keys(), ...this.#inputs.keys()])
    return [...names].filter(name => !name.endsWith(`.${REJECTED}`)).sort()
  }

  /** Starts counting a component's decisions by key; undefined if it has no keys. */
  watchKeys(component: string): KeyWatch | undefined {
    return this.#processor(component)?.watchKeys?.()
  }

  /** The state of a bucket of a component; undefined if it has none. */
  bucket(component: string, key: string | null, rule?: string | null): BucketState | undefined {
    return this.#processor(component)?.bucket?.(key, rule)
  }

  /** The processors that need a server which does not reply, or that do not finish with events. */
  outages(): (ProcessorOutage & { readonly id: string })[] {
    return [...this.#components.keys()].flatMap(id => {
      const stage = this.stages.get(id)
      const outage = this.#processor(id)?.outage ?? stage?.slow.outage
      return outage ? [{ id, ...outage }] : []
    })
  }

  /** What events wait for in a component; undefined if none waits. */
  waitState(component: string): WaitState | undefined {
    return this.stages.get(component)?.waitState
  }

  #processor(id: string): Partial<Processor> | undefined {
    return this.#components.get(id) as Partial<Processor> | undefined
  }

  /** Shows every batch of an output to `tap` until the result is called; undefined if there is no such output. */
  tap(output: string, tap: Tap): (() => void) | undefined {
    const unread = this.unread.get(output)
    if (unread && !this.#fanOuts.has(output)) {
      this.#between.push(pumpSide(unread, this.#make(output)))
    }
    // Sources and processors are tapped at their output; a destination only has an input.
    const place = this.#fanOuts.get(output) ?? this.#inputs.get(output)
    if (!place) return undefined
    place.taps.add(tap)
    if (unread) unread.tapped = true
    return () => {
      place.taps.delete(tap)
      if (unread) unread.tapped = place.taps.size > 0
    }
  }
}
