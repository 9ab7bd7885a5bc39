import type { DestinationState } from '../../engine/engine.js'
import { printable } from '../../lib/printable.js'

/** What is reported to systemd about a service. */
export interface ServiceState {
  /** Its start is done. */
  readonly ready: boolean
  /** One line for people. */
  readonly status: string
}

const LONGEST = 400

export interface DaemonState {
  readonly destinations: readonly DestinationState[]
  /** Sources that wait, or failed a short while ago. */
  readonly failures?: readonly { readonly id: string; readonly state: string; readonly reason: string }[] | undefined
  /** Why the configuration that was read last does not run. */
  readonly refused?: string | undefined
  /** Ids of components that do not move though nothing holds them up. */
  readonly stuck?: readonly string[] | undefined
}

const HOW: Readonly<Record<string, string>> = {
  holding: 'holds',
  starting: 'cannot start yet',
  retrying: 'tries again',
}

/** The state of a daemon: what is wrong, worst first. One that waits for a receiver or an operator has started. */
export function daemonState({ destinations, failures = [], refused, stuck = [] }: DaemonState): ServiceState {
  const waiting = Object.keys(HOW).flatMap(state =>
    destinations
      .filter(one => one.state === state && one.reason !== undefined)
      .map(({ id, reason }) => `${id} ${HOW[state]}: ${reason}`),
  )
  const starting = destinations.filter(({ state, reason }) => state === 'starting' && reason === undefined)
  const troubles = [
    ...stuck.map(id => `${id} is stuck: systemd is going to restart this`),
    ...(refused === undefined ? [] : [`the configuration was not taken, the one before runs: ${refused}`]),
    ...failures.map(({ id, state, reason }) =>
      state === 'holding' ? `${id} ${HOW.holding}: ${reason}` : `${id} failed and is started again: ${reason}`,
    ),
    ...waiting,
  ]
  const ready = starting.length === 0
  if (!ready) troubles.push(`validates ${list(starting)}`)
  return { ready, status: oneLine(troubles.length > 0 ? troubles.join('; ') : `delivers to ${list(destinations)}`) }
}

function list(destinations: readonly DestinationState[]): string {
  const ids = destinations.map(({ id }) => id)
  return ids.length > 5 ? `${ids.length} destinations` : ids.join(', ')
}

/** A text without line ends and of bounded length. */
export function oneLine(text: string): string {
  const line = printable(text.replace(/\s+/g, ' ').trim())
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 3)}...` : line
}
