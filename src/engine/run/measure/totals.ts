import { REJECTED } from '../../../core/options/delivery-options.js'
import { DISCARDED } from '../../../core/processor.js'
import type { Totals } from '../../../core/status-document.js'
import { splitInput } from '../../config/inputs.js'
import type { Config } from '../../config/load.js'
import { type ComponentCounters, GIVEN_BACK } from '../../flow/counters.js'

export type TotalsOf = Pick<Config, 'processors' | 'destinations'>

export interface TotalsParts {
  /** The counters of all components that existed, by id. */
  readonly components: ReadonlyMap<string, ComponentCounters>
  /** From `noteHeld`. */
  readonly heldBefore: ReadonlyMap<string, number>
  /** Events in the pipeline, within components and between them. */
  readonly underWay: number
}

/**
 * Adds new destinations to `heldBefore`: how many events from an earlier run their disk buffers hold, and how many
 * events they have delivered or discarded under the same id before. Call this before the destinations' first events.
 */
export function noteHeld(
  heldBefore: Map<string, number>,
  { destinations }: Pick<Config, 'destinations'>,
  components: ReadonlyMap<string, ComponentCounters>,
): void {
  for (const { id, renamedFrom = id } of destinations) {
    if (heldBefore.has(id)) continue
    const counters = components.get(id)!
    const before = heldBefore.get(renamedFrom)
    const held = before === undefined ? counters.inFlight().events : before - goneFrom(components.get(renamedFrom))
    heldBefore.delete(renamedFrom)
    heldBefore.set(id, Math.max(0, held) + goneFrom(counters))
  }
}

export function totalsOf(config: TotalsOf, { components, heldBefore, underWay }: TotalsParts): Totals {
  const delivered: Record<string, number> = {}
  const discarded: Record<string, Record<string, number>> = {}
  const emitted: Record<string, number> = {}
  const consumed: Record<string, number> = {}
  let received = 0
  let undelivered = underWay
  let returned = 0
  let repeated = false
  for (const { id, kind, received: read, passed, discards, ...counted } of components.values()) {
    returned += counted.returned
    repeated ||= counted.repeated
    // Events emitted for readers of `.discarded` do not continue to destinations.
    addTo(emitted, id, counted.emittedEvents.events - (counted.aside.get(DISCARDED)?.events ?? 0))
    addTo(consumed, id, counted.consumedEvents.events)
    if (kind === 'source') received += read.events - counted.receivedAgain
    if (kind === 'destination') delivered[id] = (delivered[id] ?? 0) + passed.events
    for (const [reason, { events }] of discards) {
      // These events were given back by a component that was then removed. They arrived at other components.
      if (reason === GIVEN_BACK) continue
      discarded[id] ??= {}
      discarded[id][reason] = (discarded[id][reason] ?? 0) + events
    }
  }
  const ways = new Ways(config)
  // Subtracts what destinations hold. Below, an event that several destinations hold is counted once.
  for (const counters of components.values()) {
    if (counters.kind === 'destination' || ways.aside.has(counters.id)) undelivered -= counters.held().events
  }
  const places = ways.ends.map(end => end.map(id => placeOf(components.get(id), heldBefore.get(id) ?? 0)))
  for (const end of places) undelivered += Math.max(0, ...end.map(place => place.held))
  const changed = [...Object.values(discarded).flatMap(reasons => Object.values(reasons)), ...Object.values(consumed)]
  const rest = {
    ...(sumOf(emitted) > 0 && { emitted }),
    ...(sumOf(consumed) > 0 && { consumed }),
    discarded,
    delivered,
    undelivered,
  }
  const twice = repeated && changed.length > 0
  const changedAside = [...ways.aside].some(id => discarded[id] || emitted[id] || consumed[id])
  const once = !twice && !ways.several && places.every(isOnce) && !changedAside
  const read = { received, ...(returned > 0 && { given_back: returned }) }
  if (!once) return { ...read, ...rest }
  const passed = received + sumOf(emitted) - changed.reduce((sum, events) => sum + events, 0) - undelivered
  return { ...read, passed, ...rest }
}

function addTo(sums: Record<string, number>, id: string, events: number): void {
  if (events > 0) sums[id] = (sums[id] ?? 0) + events
}

const sumOf = (sums: Readonly<Record<string, number>>) => Object.values(sums).reduce((sum, events) => sum + events, 0)

/** How many events of this run a destination holds, and whether it discarded any events. */
interface Place {
  readonly held: number
  readonly discards: boolean
  /** Whether some of the events that the destination discarded may be from an earlier run. */
  readonly unclear: boolean
}

/**
 * The buffer of a destination is first in, first out. The events of earlier runs leave the buffer before the events of
 * this run.
 */
function placeOf(counters: ComponentCounters | undefined, inBuffer: number): Place {
  if (!counters) return { held: 0, discards: false, unclear: false }
  const heldBefore = inBuffer + counters.foundEvents
  const dropped = droppedBy(counters)
  const old = Math.max(0, heldBefore - goneFrom(counters))
  return { held: counters.held().events - old, discards: dropped > 0, unclear: dropped > 0 && heldBefore > 0 }
}

const droppedBy = ({ discards }: ComponentCounters) =>
  [...discards].reduce((sum, [reason, { events }]) => sum + (reason === GIVEN_BACK ? 0 : events), 0)

const goneFrom = (counters: ComponentCounters | undefined) =>
  counters === undefined ? 0 : counters.passed.events + droppedBy(counters)

/**
 * Whether the counts show which events the destinations of one output hold or have discarded. All of these destinations
 * receive the same events in the same order. So if destination A holds fewer events than B, the events of A are the
 * last ones of B. But if A and B discarded events, it is unknown whether they discarded the same ones.
 */
function isOnce(end: readonly Place[]): boolean {
  const discarding = end.filter(({ discards }) => discards)
  if (end.some(({ unclear }) => unclear) || discarding.length > 1) return false
  return discarding.length === 0 || end.every(place => place.held === 0 || place.discards)
}

class Ways {
  /** Groups of destinations with the same inputs. */
  readonly ends: readonly (readonly string[])[]
  /** Components that receive only discarded or rejected events, or whose copies of events reach no destination. */
  readonly aside: ReadonlySet<string>
  /** Whether an event can take more than one way. */
  readonly several: boolean

  constructor({ processors, destinations }: TotalsOf) {
    const main = new Map([...processors, ...destinations].map(({ id, inputs }) => [id, inputsOnWay(inputs)]))
    const beside = deadEnds(main, destinations)
    for (let grown = true; grown; ) {
      grown = false
      for (const [id, inputs] of main) {
        if (beside.has(id) || inputs.some(input => !beside.has(splitInput(input)[0]))) continue
        beside.add(id)
        grown = true
      }
    }
    this.aside = beside
    const onWay = destinations.filter(({ id }) => !beside.has(id))
    const groups = new Map<string, string[]>()
    for (const { id, inputs } of onWay) {
      const key = JSON.stringify([...inputs].sort())
      groups.set(key, [...(groups.get(key) ?? []), id])
    }
    this.ends = [...groups.values()]
    const readers = new Map<string, Set<string>>()
    for (const [key, [first]] of groups) add(readers, inputsOnWay(JSON.parse(key)), `${first}`)
    for (const { id, inputs } of processors) if (!beside.has(id)) add(readers, inputsOnWay(inputs), id)
    const mixed = [...processors, ...onWay].some(
      ({ id, inputs }) => !beside.has(id) && inputsOnWay(inputs).length < inputs.length,
    )
    const copying = processors.some(({ id, plan }) => plan?.copies && !beside.has(id))
    this.several = mixed || copying || [...readers.values()].some(({ size }) => size > 1)
  }
}

/** Components that lead to no destination. Each of their inputs has another reader that leads to a destination. */
function deadEnds(main: ReadonlyMap<string, readonly string[]>, destinations: TotalsOf['destinations']): Set<string> {
  const leading = new Set(destinations.map(({ id }) => id))
  // The set grows during this loop.
  for (const id of leading) for (const input of main.get(id) ?? []) leading.add(splitInput(input)[0])
  const read = new Set([...main].flatMap(([id, inputs]) => (leading.has(id) ? inputs : [])))
  const dead = [...main].filter(([id, inputs]) => !leading.has(id) && inputs.every(input => read.has(input)))
  return new Set(dead.map(([id]) => id))
}

/** All inputs except outputs of discarded and rejected events. Other side outputs lead to destinations. */
function inputsOnWay(inputs: readonly string[]): string[] {
  return inputs.filter(input => ![DISCARDED, REJECTED].includes(splitInput(input)[1] ?? ''))
}

function add(readers: Map<string, Set<string>>, inputs: readonly string[], id: string): void {
  for (const input of inputs) readers.set(input, (readers.get(input) ?? new Set()).add(id))
}
