import type { ComponentConfig } from '../../config/load.js'
import type { Delivery } from '../../flow/delivery/delivery.js'
import type { OutageState } from '../../flow/delivery/outage.js'

/** Delivery state by destination, which preserves the start and the failure count of an outage across a reload. */
export type Outages = ReadonlyMap<string, OutageState>

/** Includes the type but no options: changed options may be an attempt to end the outage. */
const nameOf = (type: string, id: string | undefined) => `${type} ${id}`

export function outagesOf(
  destinations: readonly ComponentConfig[],
  deliveries: ReadonlyMap<string, Delivery>,
): Outages {
  return new Map(destinations.map(({ type, id }) => [nameOf(type, id), deliveries.get(id)!.outage.state]))
}

export function outageBefore(outages: Outages | undefined, config: ComponentConfig): OutageState | undefined {
  const { type, id, renamedFrom } = config
  return outages?.get(nameOf(type, id)) ?? outages?.get(nameOf(type, renamedFrom))
}
