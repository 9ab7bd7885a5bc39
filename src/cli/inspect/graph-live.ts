import { REJECTED } from '../../core/options/delivery-options.js'
import { DISCARDED } from '../../core/processor.js'
import { sleep } from '../../lib/time.js'
import { short } from '../../lib/units.js'
import type { DaemonOptions } from './daemon-socket.js'
import { findSocket } from './daemon-socket.js'
import { type DaemonView, rateOf, stateOf, viewDaemon } from './daemon-view.js'

/** Live values of a running daemon for the parts of a graph. */
export interface Live {
  /** The current rates of a component, and whether it is blocked. Undefined if it does not run. */
  component(id: string): { readonly numbers: string; readonly state: string; readonly held: boolean } | undefined
  /** Events per second that leave by an output of a component. */
  flow(id: string, output: string | undefined): string
}

/** Inspects the daemon twice, `intervalMs` apart. */
export async function lookLive(options: DaemonOptions, intervalMs: number, env: NodeJS.ProcessEnv): Promise<Live> {
  const socket = findSocket(options, env)
  const view = () => viewDaemon(socket)
  const before = await view()
  await sleep(intervalMs)
  return liveBetween(before, await view())
}

/** The changes between two moments. */
export function liveBetween(before: DaemonView, now: DaemonView): Live {
  const rate = (name: string, component_id: string, more: Record<string, string> = {}) =>
    rateOf(before, now, `sluice_component_${name}_events_total`, { component_id, ...more })
  return {
    component(id) {
      const component = now.components.find(one => one.id === id)
      if (!component) return undefined
      const [received, sent, discarded] = [rate('received', id), rate('sent', id), rate('discarded', id)]
      const inFlight = now.series.sum('sluice_component_in_flight_events', { component_id: id })
      const parts = [component.kind === 'source' ? '' : `${short(received)}/s in`, `${short(sent)}/s out`]
      if (discarded > 0) parts.push(`${short(discarded)}/s discarded`)
      if (inFlight > 0) parts.push(`${short(inFlight)} in flight`)
      const destination = now.destinations.find(one => one.id === id)
      const held = destination !== undefined && destination.state !== 'ready' && destination.state !== 'stopped'
      return { numbers: parts.filter(Boolean).join(', '), state: stateOf(now, id), held }
    },
    flow(id, output) {
      const isDropped = output === DISCARDED || output === REJECTED
      const events = isDropped ? rate('discarded', id) : rate('sent', id, output === undefined ? {} : { output })
      return `${short(events)}/s`
    },
  }
}
