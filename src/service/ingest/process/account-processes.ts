import type { Logger } from 'pino'
import type { Metrics } from '../../../engine/run/measure/metrics.js'
import { MirroredCounters } from '../../../engine/run/measure/mirrored-counters.js'
import { BoundedMap } from '../../../lib/bounded-map.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { type Clock, settledWithin } from '../../../lib/time.js'
import { formatDuration, formatSize } from '../../../lib/units.js'
import { Refusal } from '../../../net/http/server/refusal.js'
import { AccountProcess, type Death, type ProcessBounds, type StartLink } from './account-process.js'
import { pipelineOf } from './from-process.js'
import type { Instructions, Snapshot } from './messages.js'

export const PROCESS_ENDED = 'pipeline_process_ended'
/** Maximum time to wait for snapshots before a decision. */
const INSPECT_ALL_MS = 500

export interface ProcessesOptions extends ProcessBounds {
  readonly start: StartLink
  readonly log: Logger
  readonly clock: Clock
  readonly metrics: Metrics
  /** Maximum lines of a scrape, for each account (`group`) and for all accounts. */
  readonly maxSeries: { readonly group: number; readonly all: number }
  readonly instructions: (account: string) => Instructions
  readonly onSnapshot: (account: string, snapshot: Snapshot) => void
  /** Called when an account's process has ended. Returns its pipelines, and which of them have waiting clients. */
  readonly died: (account: string) => { readonly pipelines: readonly string[]; readonly attended: readonly string[] }
}

export class AccountProcesses {
  readonly #options: ProcessesOptions
  readonly #running = new Map<string, AccountProcess>()
  readonly #counters: MirroredCounters
  readonly #restarts: Restarts
  readonly #limit: LogLimit
  readonly deaths: Record<Death, number> = { looped: 0, memory: 0, crashed: 0 }

  constructor(options: ProcessesOptions) {
    this.#options = options
    const { metrics, clock } = options
    this.#counters = new MirroredCounters(metrics, { ...options.maxSeries, full: account => this.#tellFull(account) })
    this.#limit = new LogLimit(clock)
    this.#restarts = new Restarts(clock)
  }

  get all(): readonly AccountProcess[] {
    return [...this.#running.values()]
  }

  /** Number of components that are counted together as `__other__`. */
  get folded(): number {
    return this.#counters.folded
  }

  /** Returns the process of an account; starts it if necessary. Throws Refusal while the restart is delayed. */
  async of(account: string): Promise<AccountProcess> {
    if (this.#running.get(account)?.isEnding) await this.end(account)
    const running = this.#running.get(account)
    if (running) return running
    this.check(account)
    return this.#start(account)
  }

  /** Throws Refusal while the restart of the account's process is delayed. */
  check(account: string): void {
    if (this.isHeldBack(account)) throw this.refusal(account)
  }

  isHeldBack(account: string): boolean {
    return this.#restarts.waitOf(account) > 0
  }

  async end(account: string): Promise<void> {
    await this.#running.get(account)?.end()
  }

  /** Asks all processes for snapshots. Waits at most INSPECT_ALL_MS for them. */
  async inspectAll(): Promise<void> {
    await settledWithin(
      INSPECT_ALL_MS,
      this.all.map(process => process.inspect()),
    )
  }

  async forget(pipeline: string, account = ''): Promise<void> {
    await this.#running
      .get(account)
      ?.call('forget', { pipeline })
      .catch(() => {})
    this.#counters.forget(id => pipelineOf(id) === pipeline)
    this.#options.metrics.forget(`${pipeline}/`)
  }

  async endAll(): Promise<void> {
    await Promise.all(this.all.map(process => process.end()))
  }

  kill(): void {
    for (const process of this.all) process.kill()
  }

  #start(account: string): AccountProcess {
    const { start, log, clock, instructions, onSnapshot, deadlineMs, maxMemory } = this.#options
    const process: AccountProcess = new AccountProcess(start, {
      account,
      clock,
      log,
      deadlineMs,
      maxMemory,
      instructions: () => instructions(account),
      onSnapshot: snapshot => onSnapshot(account, snapshot),
      counted: counters => this.#counters.show(counters, async () => void (await process.inspect(true)), account),
      ended: (death, text) => this.#ended(account, process, death, text),
      refusal: () => this.refusal(account),
    })
    this.#running.set(account, process)
    log.info({ account, pid: process.pid }, 'started a process for the pipelines of an account')
    return process
  }

  #tellFull(account: string): void {
    const { log, maxSeries } = this.#options
    const more = this.#limit.next(account)
    if (more)
      log.warn(
        { code: 'SLUICE_ACCOUNT_SERIES_FULL', account, max: maxSeries, ...more },
        'the pipelines of an account, or of all accounts together, have too many series of metrics: some components are counted together as __other__. Use fewer pipelines, components or keys',
      )
  }

  #ended(account: string, process: AccountProcess, death: Death | undefined, text: string): void {
    this.#running.delete(account)
    this.#counters.ended(id => process.states.has(pipelineOf(id)))
    const { died, log, deadlineMs, maxMemory } = this.#options
    if (death) this.#restarts.died(account)
    const { pipelines, attended } = died(account)
    if (!death) return
    this.deaths[death]++
    const why = {
      looped: `it did not answer for ${formatDuration(deadlineMs)}. Look for a processor that takes too long or for events that are too large, or raise process_timeout`,
      memory: `it took more than ${formatSize(maxMemory)} of memory. Reduce keys, batches and buffers of the pipelines, or raise max_memory_per_account`,
      crashed: 'it exited, it sent an invalid message, or another program ended it',
    }[death]
    const retry = this.#restarts.waitOf(account)
    log.error(
      { code: 'SLUICE_PIPELINE_PROCESS_ENDED', account, reason: death, pipelines, attended, retry_ms: retry, text },
      `the process that ran the pipelines of an account was ended: ${why}. Requests to these pipelines were answered 503; events in disk buffers are kept. The process starts again with the next request`,
    )
  }

  refusal(account: string): Refusal {
    const waitMs = this.#restarts.waitOf(account)
    const retry = String(Math.max(1, Math.ceil(waitMs / 1000)))
    const message =
      'the process that ran the pipelines of this account ended before it had delivered the events; send this again later. The log of the service contains the reason'
    return new Refusal(503, PROCESS_ENDED, message, { 'retry-after': retry })
  }
}

/** Restart delay after the second death in a row. Each further death doubles the delay. */
const FIRST_WAIT_MS = 1000
const LONGEST_WAIT_MS = 60_000
/** If the process of an account has not died for this long, its next death counts as the first one. */
const FORGOTTEN_MS = 5 * 60_000
const MOST_DEATHS = 10_000

/** Delays the restart of a process that dies repeatedly, because each start takes a fraction of a second. */
export class Restarts {
  readonly #clock: Clock
  readonly #deaths = new BoundedMap<string, { count: number; at: number }>(MOST_DEATHS)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  died(account: string): void {
    const now = this.#clock.now()
    const known = this.#deaths.get(account)
    const count = known && now - known.at < FORGOTTEN_MS ? known.count + 1 : 1
    this.#deaths.set(account, { count, at: now })
  }

  /** Milliseconds until the process may start again. */
  waitOf(account: string): number {
    const known = this.#deaths.get(account)
    if (!known || known.count < 2) return 0
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (known.count - 2))
    return Math.max(0, known.at + wait - this.#clock.now())
  }
}
