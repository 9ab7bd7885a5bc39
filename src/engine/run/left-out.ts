import { codecsIn } from '../../core/codec.js'
import type { ComponentContext } from '../../core/component.js'
import { LogLimit } from '../../lib/log-limit.js'

/** Counts and logs the values that the codecs in these options leave out of what they write. */
export function reportLeftOut(
  options: object,
  { log, clock, metrics }: Pick<ComponentContext, 'log' | 'clock' | 'metrics'>,
): void {
  const limit = new LogLimit(clock)
  for (const codec of codecsIn(options)) {
    if (!codec.definition.leavesOut) continue
    const counter = metrics.counter(
      'sluice_left_out_values_total',
      'Values that were left out of records, since they do not fit their field. Each attempt to write an event counts.',
    )
    codec.onLeftOut = field => {
      counter.value++
      const limited = limit.next('left_out')
      if (!limited) return
      const text =
        'left a value out of a record, since it does not fit its field; compare the events with the definition'
      log.warn({ code: 'SLUICE_VALUE_LEFT_OUT', codec: codec.name, field, ...limited }, text)
    }
  }
}
