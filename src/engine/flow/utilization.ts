import type { ComponentMetrics } from '../../core/component.js'
import { systemClock } from '../../lib/time.js'
import type { ComponentCounters, ReadSamples } from './counters.js'

/** Minimum time over which the share is computed. */
const WINDOW_MS = 10_000

/** The share of the last 10 to 20 seconds in which a component could not take more work. */
export class Utilization {
  #total = 0
  #since: number | undefined
  #mark = { at: systemClock.now(), total: 0 }
  #before = this.#mark

  begin(): void {
    this.#since ??= systemClock.now()
  }

  end(): void {
    if (this.#since === undefined) return
    const now = systemClock.now()
    this.#total += now - this.#since
    this.#since = undefined
    if (now - this.#mark.at >= WINDOW_MS) this.#turn(now)
  }

  /** 0: always waiting for work. 1: always busy. */
  get share(): number {
    const now = systemClock.now()
    if (now - this.#mark.at >= WINDOW_MS) this.#turn(now)
    const { at, total } = this.#before
    return now > at ? Math.min(1, (this.#sum(now) - total) / (now - at)) : 0
  }

  #sum(now: number): number {
    return this.#total + (this.#since === undefined ? 0 : now - this.#since)
  }

  #turn(now: number): void {
    // The share covers the time since `#before`. If nobody read the share, this time may be long.
    this.#before = this.#mark
    this.#mark = { at: now, total: this.#sum(now) }
  }
}

const NAME = 'sluice_component_utilization'

/** The share of the last 10 to 20 seconds in which a running component could not take more work. */
export const utilizationOf = (counters: ComponentCounters, read?: ReadSamples) => counters.sum(NAME, {}, read)

export function showUtilization(metrics: Pick<ComponentMetrics, 'gauge'>, busy: Utilization): void {
  const help = 'Share of the last 10 to 20 seconds in which the component could not take more work.'
  metrics.gauge(NAME, help, () => busy.share)
}
