import type { ServerResponse } from 'node:http'
import type { LiveNumbers } from '../../core/fact.js'
import type { PageState, Status } from '../../core/status-document.js'
import { statusNow } from '../../daemon/admin/server.js'
import { streamTap, type TapQuery } from '../../daemon/admin/tap.js'
import type { PageSources } from '../../daemon/run/page-wing.js'
import { componentsOf } from '../../engine/config/inputs.js'
import type { ComponentCounters } from '../../engine/flow/counters.js'
import { resendCommand } from '../../engine/run/dead-letter/resend-command.js'
import type { TimerClock } from '../../lib/time.js'
import { Refusal } from '../../net/http/server/refusal.js'
import { onReplyOver } from '../../net/http/server/respond.js'
import { type ComponentPage, componentPage } from './component.js'
import { History } from './history.js'
import { Live } from './live.js'
import { Seconds } from './second.js'
import { Budget, type Turn } from './watch/budget.js'
import type { WantedKeys } from './watch/throttle-watch.js'
import { PageWatch } from './watch/watch.js'

const HISTORY_SHARE = 1 / 4
/** A status is sent at this interval even if it has no news. */
const STATUS_MS = 10_000
/** Pause after a status comparison: TIMES_A_LOOK times its duration, at least LOOK_MS, and at most STATUS_MS. */
const LOOK_MS = 2000
const TIMES_A_LOOK = 400

/** Maximum number of live tails of all readers, and of events that a tail inspects each second. Both bound CPU time. */
const MOST_TAPS = 8
const MOST_TAPPED_PER_SECOND = 2000

/** The data that the daemon keeps while it has a page. */
export class PageData {
  readonly history: History
  readonly watch: PageWatch
  readonly budget: Budget
  readonly #from: PageSources
  /** By whether the readers may see texts of receivers and events. */
  readonly #lives: ReadonlyMap<boolean, Live> = new Map([false, true].map(hasTexts => [hasTexts, new Live()]))
  readonly #seconds: Seconds
  readonly #stop: () => void
  #memory: number
  /** The last status, without numbers and times that change all the time. If this text changes, there is news. */
  #news = ''
  /** A text that is cheap to compute, and differs after most changes of the data. */
  #signs = ''
  #sentAt = Number.NEGATIVE_INFINITY
  #lookAt = Number.NEGATIVE_INFINITY
  #isLooking = false
  #taps = 0

  constructor(from: PageSources, memory: number) {
    this.#from = from
    this.#seconds = new Seconds(from.clock)
    this.#memory = memory
    this.history = new History(() => this.#counters(), memory * HISTORY_SHARE, from.clock)
    this.budget = new Budget(from.clock)
    this.watch = new PageWatch(from.pipeline, memory, from.clock)
    this.watch.second(this.#counters())
    this.#stop = eachSecond(from.clock, () => this.#tick())
  }

  close(): void {
    this.#stop()
    this.watch.stop()
  }

  limit(memory: number): void {
    this.#memory = memory
    this.history.limit(memory * HISTORY_SHARE)
    this.watch.limit(memory)
  }

  /** Without `token`, which StatusPage adds. */
  get state(): Omit<PageState, 'token'> {
    const { history, watch } = this
    return {
      memory: this.#memory,
      used: history.used + watch.used,
      history_seconds: history.spanMs / 1000,
      history_step_ms: history.stepMs,
    }
  }

  /** `hasTexts`: whether reasons may quote receivers, and thereby events. */
  status(hasTexts: boolean): Promise<Status> {
    return statusNow(this.#from.reports, this.#from.pipeline, hasTexts)
  }

  /** Sends server-sent events until the client disconnects. */
  async follow(response: ServerResponse, hasTexts: boolean): Promise<undefined> {
    const before = this.#news
    const texts = await this.#look()
    // Sends the new status to the readers that are already connected.
    if (this.#news !== before) this.#announce(texts)
    if (!response.destroyed) this.#lives.get(hasTexts)!.add(response, texts.get(hasTexts)!)
  }

  #announce(texts: ReadonlyMap<boolean, string>): void {
    for (const [hasTexts, live] of this.#lives) live.status(texts.get(hasTexts)!)
  }

  /** Streams events until the client disconnects. Throws a Refusal. */
  tap(query: TapQuery, response: ServerResponse): void {
    if (this.#taps >= MOST_TAPS)
      throw new Refusal(503, 'too_many', `${MOST_TAPS} live tails run already; close one of them`)
    this.#taps++
    onReplyOver(response, () => this.#taps--)
    const rate = Math.min(query.rate ?? MOST_TAPPED_PER_SECOND, MOST_TAPPED_PER_SECOND)
    streamTap({ ...query, rate }, this.#from.pipeline, response)
  }

  component(id: string): Promise<ComponentPage | undefined> {
    return componentPage(id, this.#from.config(), this.#from.reports.metrics)
  }

  async throttle(id: string, wanted: WantedKeys, turn: Turn) {
    const view = await this.watch.throttle(id, wanted, turn)
    if (!view) return undefined
    const { buckets = 0, file_rules = 0 } = this.#live(id)
    return { id, buckets, ...view, rules: view.rules + file_rules }
  }

  async letters(id: string, hasTexts: boolean) {
    const letters = await this.watch.letters(id, hasTexts)
    await this.#from.reports.metrics.components.get(id)?.beforeScrape?.()
    const { dead_letters: total = 0 } = this.#live(id)
    const { about } = this.#from.reports
    return { total, ...letters, command: resendCommand(id, about?.()) }
  }

  #live(id: string): Partial<LiveNumbers> {
    return this.#from.reports.metrics.components.get(id)?.live ?? {}
  }

  /** The counters of the components that run, in the order of the configuration. */
  #counters(): ComponentCounters[] {
    const { config, reports } = this.#from
    return componentsOf(config()).flatMap(({ id }) => reports.metrics.components.get(id) ?? [])
  }

  #tick(): void {
    this.history.tick()
    this.watch.second(this.#counters())
    const lives = [...this.#lives.values()]
    if (!lives.some(({ isRead }) => isRead)) return
    const { clock, reports } = this.#from
    const signs = this.#signsNow()
    if (signs !== this.#signs) this.#lookAt = 0
    this.#signs = signs
    if (!this.#isLooking && clock.now() >= this.#lookAt) void this.#sendNews().catch(() => {})
    const second = JSON.stringify(this.#seconds.next(this.#counters(), reports.totals?.()))
    for (const live of lives) live.second(second)
  }

  #signsNow(): string {
    const { reports, config } = this.#from
    const states = reports.destinations().map(({ id, state }) => [id, state])
    const waiting = [reports.failures?.(), reports.outages?.(), reports.waits?.()].map(all => all?.map(({ id }) => id))
    return JSON.stringify([states, waiting, reports.isStopping?.(), reports.reloadingSince?.(), config().digest])
  }

  async #sendNews(): Promise<void> {
    const before = this.#news
    const texts = await this.#look()
    const now = this.#from.clock.now()
    if (this.#news === before && now - this.#sentAt < STATUS_MS) return
    this.#sentAt = now
    this.#announce(texts)
  }

  /** The current status for each kind of reader, as JSON without series. Updates `#news`. */
  async #look(): Promise<ReadonlyMap<boolean, string>> {
    const { clock } = this.#from
    const began = clock.now()
    this.#isLooking = true
    try {
      const texts = new Map<boolean, string>()
      for (const hasTexts of this.#lives.keys()) {
        const { series: _, ...status } = await this.status(hasTexts)
        this.#news = newsOf(status)
        texts.set(hasTexts, JSON.stringify(status))
      }
      return texts
    } finally {
      this.#isLooking = false
      const now = clock.now()
      this.#lookAt = now + Math.min(STATUS_MS, Math.max(LOOK_MS, (now - began) * TIMES_A_LOOK))
    }
  }
}

/** The parts of a status that are news if they change. Numbers in texts are left out. */
function newsOf({ ready, stopping, config, problems, notices, managed, ...status }: Omit<Status, 'series'>): string {
  const { components, destinations, sources, processors, waiting, waiting_for, bottleneck } = status
  const { reloading_since, status_page } = status
  const texts = [problems, notices, managed, [...destinations, ...sources, ...processors].map(({ reason }) => reason)]
  return JSON.stringify([
    [ready, stopping, config, reloading_since, bottleneck?.id],
    [status_page?.memory, status_page?.history_step_ms, status_page?.token],
    components.map(({ id, kind, type, inputs }) => [id, kind, type, inputs]),
    destinations.map(({ id, state }) => [id, state]),
    [sources, processors, waiting].map(all => all.map(({ id }) => id)),
    waiting_for,
    JSON.stringify(texts).replace(/[\d.]+/g, '0'),
  ])
}

/**
 * Calls `fn` in the middle of each second of the clock. A call that is a little early or late thus falls into the right
 * second.
 */
function eachSecond(clock: TimerClock, fn: () => void): () => void {
  const next = () => clock.after(1500 - (clock.now() % 1000), run)
  const run = () => {
    cancel = next()
    fn()
  }
  let cancel = next()
  return () => cancel()
}
