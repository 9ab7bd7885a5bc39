import type { ComponentConfig } from '../../config/load.js'
import type { OutageState } from '../../flow/delivery/attempts.js'

/** Delivery states by destination. They keep the start and the failures of an outage across a reload. */
export type Outages = ReadonlyMap<string, OutageState>

/** What is needed of a DestinationRun. */
interface Known {
  readonly config: ComponentConfig
  readonly delivery: { readonly outage: { readonly state: OutageState } }
}

/** The key does not contain options, so an outage stays known if options are changed to end the outage. */
const nameOf = (type: string, id: string | undefined) => `${type} ${id}`

export function outagesOf(destinations: Iterable<Known>): Outages {
  const states = [...destinations].map(({ config, delivery }) => [config, delivery.outage.state] as const)
  return new Map(states.map(([{ type, id }, state]) => [nameOf(type, id), state]))
}

export function outageBefore(outages: Outages | undefined, config: ComponentConfig): OutageState | undefined {
  const { type, id, renamedFrom } = config
  return outages?.get(nameOf(type, id)) ?? outages?.get(nameOf(type, renamedFrom))
}
