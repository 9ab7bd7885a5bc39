import type { Logger } from 'pino'
import { StateUnreadable } from '../../core/unreadable.js'
import type { Config } from '../../engine/config/load.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { Backoff, systemRandom } from '../../lib/backoff.js'
import { sleep } from '../../lib/time.js'
import type { ConnectionEvents } from '../../net/limits.js'
import { onSignals } from '../process/signals.js'
import { oneLine } from '../systemd/service-state.js'
import type { Systemd } from '../systemd/systemd.js'
import type { Managed } from './managed-report.js'
import { Servers } from './servers.js'

const RETRY_FIRST_MS = 500
const RETRY_MAX_MS = 10_000
/** Stands in for the pipeline in inspections while none runs. */
export const NOTHING = {
  taps: {
    tap: () => undefined,
    outputs: () => [],
    watchKeys: () => undefined,
    bucket: () => undefined,
    waitState: () => undefined,
    readers: () => [],
  },
}

interface Runtime {
  readonly config: Config
  readonly metrics: Metrics
  readonly connections: ConnectionEvents
  readonly systemd: Systemd
  readonly managed: Managed | undefined
  readonly log: Logger
}

/**
 * Calls `build`. While it fails because a file in data_dir cannot be read, reports that (log, /readyz, status) and
 * retries. Resolves with undefined if a signal ends the wait.
 */
export async function whenReadable<T>(build: () => Promise<T>, runtime: Runtime): Promise<T | undefined> {
  try {
    return await build()
  } catch (error) {
    if (!(error instanceof StateUnreadable)) throw error
    return await hold(build, error, runtime)
  }
}

async function hold<T>(build: () => Promise<T>, first: StateUnreadable, runtime: Runtime): Promise<T | undefined> {
  const { config, metrics, connections, systemd, managed, log } = runtime
  let reason = ''
  const report = ({ code, file, message }: StateUnreadable) => {
    if (reason === message) return
    reason = message
    managed?.held(message)
    log.error({ code, file, error: message }, 'cannot read a file in data_dir; waiting and trying again')
  }
  report(first)
  const destinations = () => [{ id: 'data_dir', state: 'holding', reason }]
  const reports = { metrics, connections, destinations }
  const servers = new Servers({ ...reports, ...(managed && { managed: managed.report }) }, log)
  systemd.follow({ state: () => ({ ready: true, status: oneLine(`holds: ${reason}`) }) })
  const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, systemRandom)
  try {
    await servers.open(config, NOTHING)
    for (;;) {
      if (await isEndedWithin(RETRY_FIRST_MS + backoff.next(), config, log)) return undefined
      try {
        const built = await build()
        log.info('data_dir can be read again')
        return built
      } catch (error) {
        if (!(error instanceof StateUnreadable)) throw error
        report(error)
      }
    }
  } finally {
    servers.close()
  }
}

/** Waits for `ms`. Resolves with true if a signal to end arrived during the wait; signals at other times are held. */
async function isEndedWithin(ms: number, { shutdownTimeoutMs }: Config, log: Logger): Promise<boolean> {
  const stopping = new AbortController()
  const signals = onSignals({ stop: () => stopping.abort() }, shutdownTimeoutMs, log, 'ending')
  await sleep(ms, stopping.signal)
  signals.remove()
  return stopping.signal.aborted
}
