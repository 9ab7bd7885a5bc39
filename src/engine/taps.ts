import type { KeyWatch, Lifecycle, Processor } from '../core/component.js'
import { REJECTED } from '../core/options/delivery-options.js'
import { type FanOut, type Input, pumpSide, type Tap } from '../flow/fan-out.js'
import type { SideOutput } from '../flow/side-output.js'

/** Who watches what goes by. A batch is shown before anybody gets it; where nobody watches, it costs nothing. */
export class Taps {
  /** Side outputs that nobody reads, by `id.output`: nothing is put into them while nobody watches. */
  readonly unread = new Map<string, SideOutput>()
  readonly #make: (output: string) => FanOut
  readonly #fanOuts: ReadonlyMap<string, FanOut>
  readonly #inputs: ReadonlyMap<string, Input>
  readonly #between: (() => number)[]
  readonly #components: ReadonlyMap<string, Lifecycle>

  /** `between`: counts of what left a processor and has not reached anybody. */
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

  /** What can be watched: outputs, side outputs, and destinations for what reaches them. */
  outputs(): string[] {
    const names = new Set([...this.#fanOuts.keys(), ...this.unread.keys(), ...this.#inputs.keys()])
    return [...names].filter(name => !name.endsWith(`.${REJECTED}`)).sort()
  }

  /** Counts by key what a component decides from now on; undefined: it has no keys. */
  watchKeys(component: string): KeyWatch | undefined {
    return (this.#components.get(component) as Partial<Processor> | undefined)?.watchKeys?.()
  }

  /** Shows every batch of an output to `tap`, until the result is called; undefined: there is no such output. */
  tap(output: string, tap: Tap): (() => void) | undefined {
    const unread = this.unread.get(output)
    if (unread && !this.#fanOuts.has(output)) {
      this.#between.push(pumpSide(unread, this.#make(output)))
    }
    // A source and a processor are watched where their events leave, a destination has only its input.
    const place = this.#fanOuts.get(output) ?? this.#inputs.get(output)
    if (!place) return undefined
    place.taps.add(tap)
    if (unread) unread.connected = true
    return () => {
      place.taps.delete(tap)
      if (unread) unread.connected = place.taps.size > 0
    }
  }
}
