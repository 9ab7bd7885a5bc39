import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { AccountQuotas } from './account/account-quota.js'
import type { IdempotencyKeys } from './idempotency-keys.js'
import type { AccountProcess } from './process/account-process.js'
import type { AccountProcesses } from './process/account-processes.js'
import type { Demand } from './process-slots.js'

const REFUSED = ['sluice_ingest_refused_requests_total', 'Refused requests with events, by reason.'] as const
const ENDED = [
  'sluice_ingest_ended_pipelines_total',
  'Published pipelines that were ended to make room for others, by the state of their events.',
] as const

interface Read {
  readonly pipelines: () => number
  readonly parked: () => number
  readonly waiting: () => number
  readonly quotas: AccountQuotas
  readonly processes: AccountProcesses
  readonly keys: IdempotencyKeys
}

export class IngestMetrics {
  readonly #metrics: Metrics
  readonly #counters = new Map<string, { value: number }>()

  constructor(metrics: Metrics, { pipelines, parked, waiting, quotas, processes, keys }: Read) {
    this.#metrics = metrics
    metrics.daemonGauge('sluice_ingest_pipelines', 'Published pipelines that run in the service.', pipelines)
    metrics.daemonGauge(
      'sluice_ingest_parked_pipelines',
      'Published pipelines that wait for room to run and have events in disk buffers.',
      parked,
    )
    metrics.daemonGauge(
      'sluice_ingest_waiting_accounts',
      'Accounts whose requests or buffered events wait for a process. If the value stays above 0, max_processes is too small.',
      waiting,
    )
    metrics.daemonGauge('sluice_ingest_unanswered_requests', 'Unanswered requests with events.', () => quotas.requests)
    metrics.daemonGauge(
      'sluice_ingest_unanswered_bytes',
      'Memory of unanswered requests with events.',
      () => quotas.bytes,
    )
    this.#showProcesses(processes)
    metrics.daemonGauge(
      'sluice_ingest_idempotency_keys',
      'Idempotency keys of the published pipelines.',
      () => keys.size,
    )
    metrics.daemonTotal(
      'sluice_ingest_forgotten_idempotency_keys_total',
      'Idempotency keys that were forgotten early because their account had too many.',
      () => keys.forgotten,
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

  #showProcesses(processes: AccountProcesses): void {
    const metrics = this.#metrics
    const sum = (name: string, help: string, read: (process: AccountProcess) => number) =>
      metrics.daemonGauge(name, help, () => processes.all.reduce((total, process) => total + read(process), 0))
    metrics.daemonGauge(
      'sluice_ingest_other_components',
      'Components of published pipelines that are counted together as __other__ because they have too many series.',
      () => processes.folded,
    )
    sum('sluice_ingest_processes', 'Processes that run the published pipelines of an account.', () => 1)
    sum(
      'sluice_ingest_process_memory_bytes',
      'Resident memory of the processes that run published pipelines.',
      ({ memory }) => memory,
    )
    metrics.series(
      'counter',
      'sluice_ingest_process_deaths_total',
      'How often a process with published pipelines did not answer, took too much memory, or crashed.',
      () => Object.entries(processes.deaths).map(([reason, value]) => ({ labels: { reason }, value })),
    )
    sum(
      'sluice_ingest_request_bytes',
      'Size of the requests in flight to receivers, for all published pipelines.',
      ({ budget }) => budget.requestBytes,
    )
    sum(
      'sluice_ingest_waiting_destinations',
      'Destinations of published pipelines that wait because the requests of their account take too much memory.',
      ({ budget }) => budget.waiting,
    )
  }

  #counter(name: string, help: string, labels: Readonly<Record<string, string>>): { value: number } {
    const key = `${name} ${Object.values(labels)}`
    const counter = this.#counters.get(key) ?? this.#metrics.daemonCounter(name, help, labels)
    this.#counters.set(key, counter)
    return counter
  }
}
