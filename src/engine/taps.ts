import type { KeyWatch, Lifecycle, Processor } from '../core/component.js'
import { REJECTED } from '../core/delivery-options.js'
import type { SideOutput } from '../flow/side-output.js'
import { type Input, type Junction, pumpSide, type Tap } from './junction.js'

/** Who watches what goes by. A batch is shown before anybody gets it; where nobody watches, it costs nothing. */
export class Taps {
  /** Side outputs that nobody reads, by `id.outlet`: nothing is put into them while nobody watches. */
  readonly unread = new Map<string, SideOutput>()
  readonly #make: (output: string) => Junction
  readonly #junctions: ReadonlyMap<string, Junction>
  readonly #inputs: ReadonlyMap<string, Input>
  readonly #between: (() => number)[]
  readonly #components: ReadonlyMap<string, Lifecycle>

  /** `between`: counts of what left a processor and has not reached anybody. */
  constructor(
    make: (output: string) => Junction,
    junctions: ReadonlyMap<string, Junction>,
    inputs: ReadonlyMap<string, Input>,
    between: (() => number)[],
    components: ReadonlyMap<string, Lifecycle>,
  ) {
    this.#make = make
    this.#junctions = junctions
    this.#inputs = inputs
    this.#between = between
    this.#components = components
  }

  /** What can be watched: outputs, side outputs, and destinations for what reaches them. */
  outputs(): string[] {
    const names = new Set([...this.#junctions.keys(), ...this.unread.keys(), ...this.#inputs.keys()])
    return [...names].filter(name => !name.endsWith(`.${REJECTED}`)).sort()
  }

  /** Counts by key what a component decides from now on; undefined: it has no keys. */
  watchKeys(component: string): KeyWatch | undefined {
    return (this.#components.get(component) as Partial<Processor> | undefined)?.watchKeys?.()
  }

  /** Shows every batch of an output to `tap`, until the result is called; undefined: there is no such output. */
  tap(output: string, tap: Tap): (() => void) | undefined {
    const unread = this.unread.get(output)
    if (unread && !this.#junctions.has(output)) {
      this.#between.push(pumpSide(unread, this.#make(output)))
    }
    // A source and a processor are watched where their events leave, a destination has only its input.
    const place = this.#junctions.get(output) ?? this.#inputs.get(output)
    if (!place) return undefined
    place.taps.add(tap)
    if (unread) unread.connected = true
    return () => {
      place.taps.delete(tap)
      if (unread) unread.connected = place.taps.size > 0
    }
  }
}
