import type { DestinationState } from '../../src/core/status-document.js'
import type { ComponentCounters } from '../../src/engine/flow/counters.js'
import { type Expected, expectedOf, isThrottled, marksInFiles } from './expected.js'
import type { Machine } from './machine.js'
import { markOf } from './marks.js'
import type { Topology } from './topology.js'
import type { World } from './world.js'

/** More than the share of a source, and one batch. */
const MOST_UNACKNOWLEDGED = (32 + 9) * 1024 * 1024

/** What has to hold at every moment. */
export function checkCounters(machine: Machine, components: Iterable<ComponentCounters>): void {
  for (const counters of components) {
    const { events, bytes } = counters.imbalance()
    if (events !== 0 || bytes !== 0)
      machine.world.violate(`balance of ${counters.id}: ${events} events, ${bytes} bytes off`)
    for (const { read } of counters.series.get('sluice_source_unacknowledged_bytes') ?? [])
      for (const { value } of read())
        if (value > MOST_UNACKNOWLEDGED)
          machine.world.violate(`memory of ${counters.id}: ${value} bytes unacknowledged`)
  }
}

/** Where events are that do not arrive. */
export function sayWhatIsHeld(
  world: World,
  states: readonly DestinationState[],
  components: ReadonlyMap<string, ComponentCounters>,
): void {
  for (const [id, { received, queued, holds }] of components)
    world.say(() => `${id}: received ${received.events}, queued ${queued.events}, holds ${holds().events}`)
  for (const { id, state, reason = '' } of states) world.say(() => `${id}: ${state} ${reason}`)
}

/** Where events are in the end, against where they have to be. */
export class Outcome {
  readonly #machine: Machine
  readonly #topology: Topology
  readonly #expected: Expected

  constructor(machine: Machine, topology: Topology) {
    this.#machine = machine
    this.#topology = topology
    const marks: string[] = []
    for (const { id, count } of machine.topics.values()) for (let n = 0; n < count; n++) marks.push(markOf(id, n))
    this.#expected = expectedOf(topology, marks)
  }

  /** Events that are nowhere yet, by the component that they are missing at. */
  missing(most = 10): string[] {
    const { tree } = this.#machine.disk
    const written = marksInFiles(new Map([...tree.files('/data/dead-letter'), ...tree.files('/out')]))
    const missing: string[] = []
    for (const [id, marks] of this.#expected) {
      for (const [mark, need] of marks) {
        if (this.#has(id, mark, written) || isThrottled(need, this.#machine.throttles)) continue
        missing.push(`${mark} at ${id}`)
        if (missing.length >= most) return missing
      }
    }
    return missing
  }

  #has(id: string, mark: string, written: ReadonlyMap<string, ReadonlySet<string>>): boolean {
    const receiver = this.#machine.receivers.get(id)
    if (receiver?.arrived.has(mark) || written.get(id)?.has(mark)) return true
    const destination = this.#topology.destinations.find(one => one.id === id)
    if (!destination) return false
    if (destination.onReject === 'discard') {
      // Nobody knows which ones were given up after so many attempts.
      if (receiver?.refused.has(mark) || destination.maxAttempts !== undefined) return true
    }
    const readers = this.#topology.destinations.filter(({ inputs }) => inputs.includes(`${id}.rejected`))
    return readers.length > 0 && readers.every(reader => this.#has(reader.id, mark, written))
  }

  /** Events that came more than once though nothing went wrong. */
  repeated(): string[] {
    // Clients send again what they wait for too long.
    const clients = new Set(this.#topology.sources.flatMap(({ id, kind }) => (kind === 'clients' ? [id] : [])))
    return [...this.#machine.receivers.values()].flatMap(({ id, arrived }) =>
      [...arrived]
        .filter(([mark]) => !clients.has(mark[0]!))
        .filter(([mark, times]) => {
          const need = this.#expected.get(id)?.get(mark)
          return !need || times > need.times || (times < need.times && need.ways.every(way => way.length === 0))
        })
        .map(([mark, times]) => `${mark} came ${times} times to ${id}`),
    )
  }
}
