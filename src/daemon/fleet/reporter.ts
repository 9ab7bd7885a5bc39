import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Clock, sleep } from '../../lib/time.js'
import type { Report, ServiceLink } from './service-link.js'

const CHECK_MS = 1000

type Daemon = Pick<Report, 'daemon_id' | 'host' | 'version' | 'started_at'>

/** When one of these fields changes, a report is sent immediately. */
export type Present = Pick<Report, 'revision' | 'health' | 'error'>

export interface ReporterOptions {
  readonly link: Pick<ServiceLink, 'report'>
  readonly clock: Clock
  readonly log: Logger
  readonly daemon: Daemon
  readonly sleep: typeof sleep
  /** Milliseconds between reports while nothing changes. */
  readonly interval: () => number
  readonly present: () => Present
  /** Reads the current problems for each report. A change of the problems alone does not cause a report. */
  readonly error: () => Promise<Report['error']>
  readonly totals: () => Report['totals']
}

/** Sends the reports of a managed daemon to its service: on each change, and at least once per interval. */
export class Reporter {
  readonly #options: ReporterOptions
  #problem: string | undefined

  constructor(options: ReporterOptions) {
    this.#options = options
  }

  /** Why the last report was not sent or not accepted. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Sends reports until the signal aborts. Then sends a last report. */
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
    const { link, log, daemon, totals, error } = this.#options
    try {
      await link.report({ ...daemon, ...present, error: await error(), totals: totals() })
      this.#problem = undefined
    } catch (error) {
      const text = errorText(error)
      if (this.#problem !== text) log.warn({ error: text }, 'the service did not accept the report; trying again')
      this.#problem = text
    }
  }
}
