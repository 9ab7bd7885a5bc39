import type { Logger } from 'pino'
import type { DestinationState } from '../../core/status-document.js'
import { ProgressWatch } from '../../engine/run/measure/progress.js'
import type { Supervisor } from '../../engine/run/supervisor.js'
import { printable } from '../../lib/printable.js'

export interface ServiceState {
  readonly ready: boolean
  /** One line, for people. */
  readonly status: string
}

export interface WatchedService {
  state(): ServiceState
  /** Whether everything works as it should. Called several times per watchdog interval. If missing, always true. */
  goesOn?(): boolean | Promise<boolean>
}

/** Number of checks per watchdog interval. Every second check sends a ping. */
export const CHECKS = 4

const LONGEST = 400

export interface DaemonState {
  readonly destinations: readonly DestinationState[]
  /** Sources that wait for an operator, or that failed recently. */
  readonly failures?:
    | readonly { readonly id: string; readonly state: string; readonly ownReason?: string | undefined }[]
    | undefined
  /** Why the configuration that was read last is not running. */
  readonly refused?: string | undefined
  /** Ids of components that make no progress although nothing blocks them. */
  readonly stuck?: readonly string[] | undefined
}

const HOW: Readonly<Record<string, string>> = {
  holding: 'holds',
  starting: 'cannot start yet',
  failing: 'fails',
  refusing: 'rejects most requests',
  retrying: 'tries again',
}

/**
 * The state of a daemon, worst problem first, in words of Sluice alone, since all users can ask systemd for it. The daemon counts as started even if its receivers do not respond yet.
 */
export function daemonState({ destinations, failures = [], refused, stuck = [] }: DaemonState): ServiceState {
  const waiting = Object.keys(HOW).flatMap(state =>
    destinations
      .filter(one => one.state === state && one.reason !== undefined)
      .map(({ id, ownReason }) => `${id} ${HOW[state]}: ${ownReason}`),
  )
  const starting = destinations.filter(({ state, reason }) => state === 'starting' && reason === undefined)
  const problems = [
    ...stuck.map(id => `${id} is stuck: systemd will restart the daemon`),
    ...(refused === undefined ? [] : [`cannot apply the new configuration, the previous one is running: ${refused}`]),
    ...failures.map(({ id, state, ownReason }) =>
      state === 'holding' ? `${id} ${HOW.holding}: ${ownReason}` : `${id} failed and is restarting: ${ownReason}`,
    ),
    ...waiting,
  ]
  const ready = starting.length === 0
  if (!ready) problems.push(`validates ${list(starting)}`)
  return { ready, status: statusLine(problems.length > 0 ? problems.join('; ') : `delivers to ${list(destinations)}`) }
}

function list(destinations: readonly DestinationState[]): string {
  const ids = destinations.map(({ id }) => id)
  return ids.length > 5 ? `${ids.length} destinations` : ids.join(', ')
}

/** Replaces line ends and limits the length. */
export function statusLine(text: string): string {
  const line = printable(text.replace(/\s+/g, ' ').trim())
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 3)}...` : line
}

export type WatchedPipeline = Pick<Supervisor, 'states' | 'failures' | 'watched'>

export class DaemonHealth implements WatchedService {
  /** Why the configuration that was read last is not running. */
  refused: string | undefined
  readonly #pipeline: WatchedPipeline
  readonly #log: Logger
  readonly #progress = new ProgressWatch(CHECKS)
  #stuck: readonly string[] = []

  constructor(pipeline: WatchedPipeline, log: Logger) {
    this.#pipeline = pipeline
    this.#log = log
  }

  state(): ServiceState {
    const pipeline = this.#pipeline
    const states = { destinations: pipeline.states(), failures: pipeline.failures() }
    return daemonState({ ...states, refused: this.refused, stuck: this.#stuck })
  }

  goesOn(): boolean {
    const stuck = this.#progress.look(this.#pipeline.watched)
    for (const component of stuck) {
      if (this.#stuck.includes(component)) continue
      const fields = { code: 'SLUICE_STUCK', component }
      this.#log.error(
        fields,
        'a component makes no progress although nothing blocks it; the watchdog gets no more pings',
      )
    }
    this.#stuck = stuck
    return stuck.length === 0
  }
}
