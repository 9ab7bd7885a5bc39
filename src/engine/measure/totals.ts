import type { Config } from '../../config/load.js'
import { splitInput } from '../../config/yaml/input.js'
import { REJECTED } from '../../core/options/delivery-options.js'
import { DISCARDED } from '../../core/processor.js'
import { type ComponentCounters, GIVEN_BACK } from '../../flow/counters.js'

/** What became of the events of a run. Counts are events since the start of the process. */
export interface Totals {
  /** What the sources read. */
  readonly received: number
  /** What processors made, by component. Missing where none did. */
  readonly emitted?: Readonly<Record<string, number>>
  /** What became part of the events that processors made, by component. Missing where nothing did. */
  readonly consumed?: Readonly<Record<string, number>>
  /**
   * What passed every component on its way, each event once, however many destinations took it:
   * received + all of `emitted` = passed + all of `discarded` + all of `consumed` + undelivered. Missing where no such
   * number exists, because one event has several ways through processors, was discarded at several places, or went
   * through the pipeline a second time after a reload, so that it may have been discarded or consumed twice.
   */
  readonly passed?: number
  /** By component, then by reason. */
  readonly discarded: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** What each destination accepted, those that read side outputs included. */
  readonly delivered: Readonly<Record<string, number>>
  /** What was read in this run and is neither delivered nor discarded, each event once. */
  readonly undelivered: number
}

export type TotalsOf = Pick<Config, 'processors' | 'destinations'>

export interface Counted {
  /** The counters of all components that there were, by id. */
  readonly components: ReadonlyMap<string, ComponentCounters>
  /** Events that disk buffers held at the start, by destination: they were received in an earlier run. */
  readonly heldBefore: ReadonlyMap<string, number>
  /** Everything that is under way in the pipeline, in components and between them. */
  readonly underWay: number
}

export function totalsOf(config: TotalsOf, { components, heldBefore, underWay }: Counted): Totals {
  const delivered: Record<string, number> = {}
  const discarded: Record<string, Record<string, number>> = {}
  const emitted: Record<string, number> = {}
  const consumed: Record<string, number> = {}
  let received = 0
  let undelivered = underWay
  let repeated = false
  for (const { id, kind, received: read, passed, discards, ...counted } of components.values()) {
    repeated ||= counted.repeated
    addTo(emitted, id, counted.emittedEvents.events)
    addTo(consumed, id, counted.consumedEvents.events)
    if (kind === 'source') received += read.events
    if (kind === 'destination') delivered[id] = (delivered[id] ?? 0) + passed.events
    for (const [reason, { events }] of discards) {
      // What a removed component gave back came again elsewhere.
      if (reason === GIVEN_BACK) continue
      discarded[id] ??= {}
      discarded[id][reason] = (discarded[id][reason] ?? 0) + events
    }
  }
  const ways = new Ways(config)
  // What several destinations hold is counted once, below.
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
  if (!once) return { received, ...rest }
  const passed = received + sumOf(emitted) - changed.reduce((sum, events) => sum + events, 0) - undelivered
  return { received, passed, ...rest }
}

function addTo(sums: Record<string, number>, id: string, events: number): void {
  if (events > 0) sums[id] = (sums[id] ?? 0) + events
}

const sumOf = (sums: Readonly<Record<string, number>>) => Object.values(sums).reduce((sum, events) => sum + events, 0)

/** What a destination holds of this run, and whether it discarded anything. */
interface Place {
  readonly held: number
  readonly discards: boolean
  /** It discarded events, and some of them may be of an earlier run. */
  readonly unclear: boolean
}

/** Buffers are first in, first out: what was held before leaves before anything of this run. */
function placeOf(counters: ComponentCounters | undefined, heldBefore: number): Place {
  if (!counters) return { held: 0, discards: false, unclear: false }
  const dropped = [...counters.discards].reduce(
    (sum, [reason, { events }]) => sum + (reason === GIVEN_BACK ? 0 : events),
    0,
  )
  const old = Math.max(0, heldBefore - counters.passed.events - dropped)
  return { held: counters.held().events - old, discards: dropped > 0, unclear: dropped > 0 && heldBefore > 0 }
}

/**
 * Whether what the destinations of one output hold and discard can be told apart: each takes the same events in the
 * same order, so what they hold is the end of that of the one that holds most. What two discard may overlap.
 */
function isOnce(end: readonly Place[]): boolean {
  const discarding = end.filter(({ discards }) => discards)
  if (end.some(({ unclear }) => unclear) || discarding.length > 1) return false
  return discarding.length === 0 || end.every(place => place.held === 0 || place.discards)
}

/** How events go through a configuration. */
class Ways {
  /** Groups of destinations that take the same events. */
  readonly ends: readonly (readonly string[])[]
  /** What lies behind side outputs alone: its events were discarded, or refused, before. */
  readonly aside: ReadonlySet<string>
  /** One event has more than one way. */
  readonly several: boolean

  constructor({ processors, destinations }: TotalsOf) {
    const main = new Map([...processors, ...destinations].map(({ id, inputs }) => [id, inputsOnWay(inputs)]))
    const beside = new Set<string>()
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
    this.several = mixed || [...readers.values()].some(({ size }) => size > 1)
  }
}

/** All but those of discarded and rejected events. Another output than the main one, as of a route, is on the way too. */
function inputsOnWay(inputs: readonly string[]): string[] {
  return inputs.filter(input => ![DISCARDED, REJECTED].includes(splitInput(input)[1] ?? ''))
}

function add(readers: Map<string, Set<string>>, inputs: readonly string[], id: string): void {
  for (const input of inputs) readers.set(input, (readers.get(input) ?? new Set()).add(id))
}
