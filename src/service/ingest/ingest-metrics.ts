import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { AccountQuotas } from './account/account-quota.js'
import type { Demand } from './process-slots.js'

const REFUSED = ['sluice_ingest_refused_requests_total', 'Requests with events that were refused, by reason.'] as const
const ENDED = [
  'sluice_ingest_ended_pipelines_total',
  'Published pipelines that were ended to make room for others, by the state of their events.',
] as const

interface Read {
  readonly pipelines: () => number
  readonly parked: () => number
  /** Accounts that wait for a process. */
  readonly waiting: () => number
  readonly quotas: AccountQuotas
}

/** Metrics of the service about published pipelines. */
export class IngestMetrics {
  readonly #metrics: Metrics
  readonly #counters = new Map<string, { value: number }>()

  constructor(metrics: Metrics, { pipelines, parked, waiting, quotas }: Read) {
    this.#metrics = metrics
    metrics.daemonGauge('sluice_ingest_pipelines', 'Published pipelines that run in the service.', pipelines)
    metrics.daemonGauge(
      'sluice_ingest_parked_pipelines',
      'Published pipelines with events in disk buffers that wait for room to run.',
      parked,
    )
    metrics.daemonGauge(
      'sluice_ingest_waiting_accounts',
      'Accounts whose requests or buffered events wait for a process. If it stays above 0, max_processes is too small.',
      waiting,
    )
    metrics.daemonGauge(
      'sluice_ingest_unanswered_requests',
      'Requests with events that are not answered yet.',
      () => quotas.requests,
    )
    metrics.daemonGauge(
      'sluice_ingest_unanswered_bytes',
      'Memory of requests with events that are not answered yet.',
      () => quotas.bytes,
    )
    for (const reason of ['too_many_pipelines', 'account_share_exceeded', 'overloaded'])
      this.#counter(...REFUSED, { reason })
    for (const state of ['idle', 'buffered', 'unattended']) this.#counter(...ENDED, { state })
  }

  refused(reason: string): void {
    this.#counter(...REFUSED, { reason }).value++
  }

  ended(state: Demand): void {
    this.#counter(...ENDED, { state }).value++
  }

  #counter(name: string, help: string, labels: Readonly<Record<string, string>>): { value: number } {
    const key = `${name} ${Object.values(labels)}`
    const counter = this.#counters.get(key) ?? this.#metrics.daemonCounter(name, help, labels)
    this.#counters.set(key, counter)
    return counter
  }
}
