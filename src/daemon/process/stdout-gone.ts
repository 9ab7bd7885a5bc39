import type { Logger } from 'pino'
import type { Engine } from '../../engine/run/engine.js'
import type { Supervisor } from '../../engine/run/supervisor.js'
import { deadline, every } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'

const POLL_MS = 50

/**
 * When the reader of standard output has exited (`| head`), ends the run as a signal does. Waits only for the other
 * destinations, since events for standard output can no longer be written.
 */
export function onStdoutGone(
  stdout: NodeJS.WritableStream,
  engine: Pick<Engine, 'stop'>,
  pipeline: Pick<Supervisor, 'config' | 'states'>,
  log: Logger,
): { gone: () => boolean; remove: () => void } {
  let ending: { clear: () => void } | undefined
  const onError = (error: NodeJS.ErrnoException) => {
    // Later writes fail the same way and need no report.
    if (error.code !== 'EPIPE' || ending) return
    const timeoutMs = pipeline.config.shutdownTimeoutMs
    log.error(
      { code: 'SLUICE_STDOUT_GONE', timeout: formatDuration(timeoutMs) },
      'ending because standard output was closed; events that were not written are read again after the next start, if their source allows it',
    )
    const enough = new AbortController()
    const limit = deadline(timeoutMs, enough.signal)
    const stopPolling = every(POLL_MS, () => {
      if (othersStopped(pipeline)) enough.abort()
    })
    ending = {
      clear: () => {
        stopPolling()
        limit.clear()
      },
    }
    engine.stop(limit.signal)
  }
  stdout.on('error', onError)
  return {
    gone: () => ending !== undefined,
    remove: () => {
      // While the run ends, the listener stays to ignore errors of the last writes. The first error has been reported.
      if (ending) ending.clear()
      else stdout.off('error', onError)
    },
  }
}

/** Whether every destination that does not write to standard output has stopped. */
function othersStopped(pipeline: Pick<Supervisor, 'config' | 'states'>): boolean {
  const others = pipeline.config.destinations.filter(({ type }) => type !== 'stdout').map(({ id }) => id)
  return pipeline.states().every(({ id, state }) => state === 'stopped' || !others.includes(id))
}
