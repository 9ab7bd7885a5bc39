import type { Logger } from 'pino'
import type { Engine } from '../../engine/run/engine.js'
import { deadline, deferred, systemClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { isRepeated, onHeldSignal } from './early-signals.js'

/** The first SIGTERM or SIGINT stops the run gracefully. When a second signal arrives, `second` resolves. */
export function onSignals(
  engine: Pick<Engine, 'stop'>,
  timeout: number | (() => number),
  log: Logger,
  message = 'stopping: sources stop; events that were read are delivered, or read again after the next start',
): { second: Promise<void>; remove: () => void } {
  const { promise: second, resolve: leave } = deferred()
  let stopping: { clear: () => void; since: number } | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) return isRepeated(stopping.since) ? undefined : leave()
    const timeoutMs = typeof timeout === 'number' ? timeout : timeout()
    log.info({ signal, timeout: formatDuration(timeoutMs) }, message)
    const limit = deadline(timeoutMs)
    stopping = { ...limit, since: systemClock.now() }
    engine.stop(limit.signal)
  }
  const removes = (['SIGTERM', 'SIGINT'] as const).map(name => onHeldSignal(name, onSignal))
  return {
    second,
    remove: () => {
      stopping?.clear()
      for (const remove of removes) remove()
    },
  }
}
