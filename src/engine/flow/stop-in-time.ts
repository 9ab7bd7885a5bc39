import type { Logger } from 'pino'
import type { Processor } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { aborted, sleep, type TimerClock } from '../../lib/time.js'

/** How long a processor may take to stop after its deadline. */
const LATE_STOP_MS = 1000

/** Stops a processor. Never throws, and returns soon after the deadline even if the processor does not. */
export async function stopInTime(
  processor: Processor,
  deadline: AbortSignal,
  { log, clock }: { readonly log: Logger; readonly clock: TimerClock },
): Promise<void> {
  const stopped = new AbortController()
  const late = aborted(deadline).then(() => sleep(LATE_STOP_MS, stopped.signal, (ms, fn) => clock.after(ms, fn)))
  try {
    const isStopped = Promise.resolve(processor.stop?.(deadline)).then(() => true)
    if ((await Promise.race([isStopped, late])) !== true) throw new Error('it did not stop in time')
  } catch (error) {
    log.error({ code: 'SLUICE_PROCESSOR_FAILED', error: errorText(error) }, 'processor failed to stop')
  }
  stopped.abort()
}
