import type { Logger } from 'pino'
import { errorText } from '../core/errors.js'
import type { Clock, sleep } from '../lib/time.js'
import type { Link, Report } from './service-link.js'

/** How soon a change is reported. */
const CHECK_MS = 1000

type Daemon = Pick<Report, 'daemon_id' | 'host' | 'version' | 'started_at'>

/** A change in one of these is reported at once. */
export type Present = Pick<Report, 'revision' | 'health' | 'error'>

export interface ReporterOptions {
  readonly link: Pick<Link, 'report'>
  readonly clock: Clock
  readonly log: Logger
  readonly daemon: Daemon
  readonly sleep: typeof sleep
  /** Milliseconds between reports when nothing changes. */
  readonly interval: () => number
  readonly present: () => Present
  readonly totals: () => Report['totals']
}

/** Reports of a managed daemon to its service: at each change, and at least once in each interval. */
export class Reporter {
  readonly #options: ReporterOptions
  #problem: string | undefined

  constructor(options: ReporterOptions) {
    this.#options = options
  }

  /** Why the last report did not reach the service, or was refused. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Reports until the signal aborts, and once more then. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, present, interval, sleep } = this.#options
    let last: string | undefined
    let dueAt = 0
    for (;;) {
      const now = present()
      const text = JSON.stringify(now)
      if (text !== last || clock.now() >= dueAt || signal.aborted) {
        await this.#send(now)
        last = text
        dueAt = clock.now() + interval()
      }
      if (signal.aborted) return
      await sleep(CHECK_MS, signal)
    }
  }

  async #send(present: Present): Promise<void> {
    const { link, log, daemon, totals } = this.#options
    try {
      await link.report({ ...daemon, ...present, totals: totals() })
      this.#problem = undefined
    } catch (error) {
      const text = errorText(error)
      if (this.#problem !== text) log.warn({ error: text }, 'the service did not accept the report; trying again')
      this.#problem = text
    }
  }
}
