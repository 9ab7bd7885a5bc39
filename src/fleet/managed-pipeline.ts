import type { Logger } from 'pino'
import type { Config } from '../config/load.js'
import type { ManagedConfig } from '../config/managed/managed-config.js'
import { ConfigError, errorText, formatProblem } from '../core/errors.js'
import { StateUnreadable } from '../core/unreadable.js'
import type { DestinationState } from '../engine/engine.js'
import { EventsLeftBehind } from '../engine/state/left-behind.js'
import { NotNow, type ReplaceOptions } from '../engine/supervisor.js'
import { Backoff, type Random } from '../lib/backoff.js'
import { type Clock, sleep } from '../lib/time.js'
import type { KeptRevision } from './kept-revision.js'
import type { ManagedStatus } from './managed-status.js'
import { type Present, Reporter } from './reporter.js'
import type { Link, PublishedRevision, Report } from './service-link.js'

/** While the service is away it is asked less and less often, but at least so often. */
const LONGEST_WAIT_MS = 60_000
const FIRST_WAIT_MS = 1000
/** An interval is longer or shorter by up to this share, so that daemons that began together do not ask together. */
const JITTER = 0.2
const LONGEST_ERROR = 1000

/** What runs: engine/supervisor.ts. */
export interface Replaceable {
  replace(config: Config, options: ReplaceOptions): Promise<void>
  states(): DestinationState[]
}

interface Refused {
  readonly revision: number
  readonly why: string
}

export interface ManagedPipelineOptions {
  readonly name: string
  readonly link: Link
  readonly kept: Pick<KeptRevision, 'read' | 'write'>
  /** Tries whether a configuration can be built; rejects when not. */
  readonly rehearse: (config: Config) => Promise<void>
  /** Why a start with `next` would lose sight of what `before` has left in data_dir; undefined: it would not. */
  readonly objectionTo: (next: Config, before: Config) => Promise<Error | undefined>
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly daemon: Pick<Report, 'daemon_id' | 'host' | 'version' | 'started_at'>
  /** Waits; lib/time.ts when left out. */
  readonly sleep?: typeof sleep
}

/**
 * A pipeline that a service publishes, on this machine. Invariants: what runs is a revision that was built before it
 * took its place, whatever comes later; a revision that cannot run changes nothing, and is reported until another one is
 * published; the revision that runs is the one that is kept on the disk.
 */
export class ManagedPipeline {
  readonly #options: ManagedPipelineOptions
  readonly #sleep: typeof sleep
  #local: ManagedConfig
  #running: PublishedRevision | undefined
  /** The revision that each configuration was made of. */
  readonly #revisions = new WeakMap<Config, PublishedRevision>()
  /** Of what was answered last, whether it runs or not. */
  #etag: string | undefined
  /** The newest revision, where it cannot run. */
  #refused: Refused | undefined
  /** Why the cached revision cannot be read. */
  #unreadable: string | undefined
  /** Why the service cannot be reached, as it was logged. Empty while it answers. */
  #unreachable = ''
  /** When the service last answered; wall clock in milliseconds. */
  #contactAt: number | undefined
  /** Since when it has not answered; monotonic. */
  #awaySince: number | undefined
  /** The newest revision that came. */
  #newest: PublishedRevision | undefined
  /** Refusals that were logged, until another revision runs or the local part is read again. */
  readonly #logged = new Set<string>()
  /** What runs, from `follow` on. */
  #pipeline: Replaceable | undefined
  #totals: () => Record<string, number> = () => ({})
  /** Why the revision cannot start yet. */
  #held: string | undefined
  readonly #leaving = new AbortController()
  readonly #reporter: Reporter
  #reporting: Promise<void> | undefined
  #polling: Promise<void> = Promise.resolve()
  /** Ends the wait between two tries to start. */
  #retry = new AbortController()
  #keeping: Promise<void> = Promise.resolve()
  /** Replacements of what runs come one after the other. */
  #turns: Promise<void> = Promise.resolve()

  constructor(local: ManagedConfig, options: ManagedPipelineOptions) {
    this.#local = local
    this.#options = options
    this.#sleep = options.sleep ?? sleep
    const { link, clock, log, daemon } = options
    const interval = () => this.#local.local.managed.report_interval
    const present = () => this.#present()
    const totals = () => this.#totals()
    this.#reporter = new Reporter({ link, clock, log, daemon, sleep: this.#sleep, interval, present, totals })
  }

  /** The revision that runs. */
  get revision(): number | undefined {
    return this.#running?.revision
  }

  /** What keeps it from having anything to start with. */
  get waitsFor(): string | undefined {
    return this.#refusal ?? ([this.#unreachable, this.#unreadable].filter(Boolean).join('; ') || undefined)
  }

  /** What an operator on this machine wants to know. */
  get status(): ManagedStatus {
    const { clock } = this.#options
    const away = this.#awaySince === undefined ? undefined : (clock.now() - this.#awaySince) / 1000
    return {
      revision: this.#running?.revision,
      published: this.#newest?.revision,
      refused: this.#refused?.revision,
      refusal: this.#refused?.why,
      last_contact: this.#contactAt === undefined ? undefined : this.#contactAt / 1000,
      unreachable_seconds: away,
      unreachable: this.#unreachable || undefined,
      report_problem: this.#reporter.problem,
    }
  }

  get #refusal(): string | undefined {
    return this.#refused && `revision ${this.#refused.revision} cannot run: ${this.#refused.why}`
  }

  /**
   * The configuration to start with. While there is none that can run, it calls `waiting` once, reports why to the
   * service, and tries again. Undefined: the signal has aborted.
   */
  async first(signal: AbortSignal, waiting: () => Promise<void> = async () => {}): Promise<Config | undefined> {
    const { kept, log, random } = this.#options
    const backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random)
    let isRead = false
    let known: PublishedRevision | undefined
    for (let tries = 0; !signal.aborted; tries++) {
      if (!isRead) known = await this.#readKept()
      isRead = this.#unreadable === undefined
      const published = (await this.#ask()) ?? this.#newest
      let refused: Refused | undefined
      const others = known && known.revision !== published?.revision ? [known] : []
      for (const revision of published ? [published, ...others] : others) {
        const config = await this.#try(revision)
        if (!config || (revision === published && (await this.#isObjectedTo(config, published, others[0])))) {
          // The newest one matters.
          refused ??= this.#refused
          this.#refused = refused
          continue
        }
        this.#running = revision
        if (revision === published) {
          this.#refused = undefined
          this.#logged.clear()
          await kept.write(revision)
        } else {
          const why = published ? 'the published revision cannot run here' : 'the service cannot be used now'
          log.warn({ revision: revision.revision }, `${why}: the kept revision runs`)
        }
        return config
      }
      if (signal.aborted) break
      if (tries === 0) await waiting()
      this.#reporting ??= this.#reporter.run(this.#leaving.signal)
      const { poll_interval } = this.#local.local.managed
      const waitMs =
        this.#unreachable || !this.#newest ? FIRST_WAIT_MS + backoff.next() : poll_interval * this.#jitter()
      if (!this.#retry.signal.aborted) await this.#sleep(waitMs, AbortSignal.any([signal, this.#retry.signal]))
      this.#retry = new AbortController()
    }
    return undefined
  }

  /** Whether it would repeat what the cached revision has read, or leave its events behind: then that one runs. */
  async #isObjectedTo(config: Config, published: PublishedRevision, known?: PublishedRevision): Promise<boolean> {
    if (!known) return false
    try {
      const before = this.#configOf(known)
      const objection = await this.#options.objectionTo(config, before)
      if (!objection) return false
      await this.#options.rehearse(before)
      this.#refuse(published, objection)
      return true
    } catch {
      // The cached one cannot run either.
      return false
    }
  }

  /** Tries again at once to find a revision to start with, with another local part. */
  retry(local: ManagedConfig): void {
    this.#local = local
    this.#retry.abort()
  }

  /** The cached revision. While it cannot be read, it is tried again. */
  async #readKept(): Promise<PublishedRevision | undefined> {
    const { kept, log } = this.#options
    try {
      const revision = await kept.read()
      this.#unreadable = undefined
      return revision
    } catch (error) {
      if (!(error instanceof StateUnreadable)) throw error
      const { code, file, message } = error
      if (this.#unreadable !== message)
        log.error({ code, file, error: message }, 'the cached revision cannot be read; trying again')
      this.#unreadable = message
      return undefined
    }
  }

  /** Waits until nothing else replaces what runs, and lets nothing else do so during `work`. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turns.then(work)
    this.#turns = done.catch(() => {})
    return done
  }

  /** The revision that runs with another local part: for a reload, in its turn. Throws ConfigError. */
  reread(local: ManagedConfig): Config {
    const config = this.#configOf(this.#running!, local)
    this.#local = local
    // What was refused may be permitted now.
    if (this.#refused) this.#etag = undefined
    this.#logged.clear()
    return config
  }

  /** The revision cannot start yet, for this reason. */
  held(reason: string): void {
    this.#held = reason
    this.#reporting ??= this.#reporter.run(this.#leaving.signal)
  }

  /** Applies each revision that is published from now on, and reports. Returns `leave`. */
  follow(pipeline: Replaceable, totals: () => Record<string, number>): () => Promise<void> {
    this.#pipeline = pipeline
    this.#totals = totals
    this.#held = undefined
    const { signal } = this.#leaving
    this.#polling = this.#poll(pipeline, signal)
    this.#reporting ??= this.#reporter.run(signal)
    return () => this.leave()
  }

  /** Ends asking and reporting, with a last report. */
  async leave(): Promise<void> {
    this.#leaving.abort()
    await Promise.all([this.#polling, this.#reporting])
  }

  /** `failed` took the place of `back` and cannot start: `back` runs again. */
  wentBack(error: Error, failed: Config, back: Config): void {
    const [refused, running] = [this.#revisions.get(failed), this.#revisions.get(back)]
    // With the same revision in both it is the local part that cannot start.
    if (!refused || !running || refused.revision === running.revision) return
    this.#running = running
    this.#refuse(refused, error)
    void this.#keep(running)
  }

  #jitter(): number {
    return 1 - JITTER + 2 * JITTER * this.#options.random()
  }

  async #poll(pipeline: Replaceable, signal: AbortSignal): Promise<void> {
    let waitMs = 0
    for (;;) {
      const { poll_interval } = this.#local.local.managed
      // Away: less often.
      waitMs = this.#unreachable ? Math.min(Math.max(LONGEST_WAIT_MS, poll_interval), waitMs * 2) : poll_interval
      await this.#sleep(waitMs * this.#jitter(), signal)
      if (signal.aborted) return
      const published = await this.#ask()
      if (published && !signal.aborted) await this.inTurn(() => this.#apply(published, pipeline))
    }
  }

  async #apply(published: PublishedRevision, pipeline: Replaceable): Promise<void> {
    const before = this.#running!
    if (published.revision === before.revision) {
      this.#refused = undefined
      return
    }
    try {
      await pipeline.replace(this.#configOf(published), { keepsEvents: true })
      this.#running = published
      this.#refused = undefined
      this.#logged.clear()
      this.#options.log.info({ revision: published.revision, before: before.revision }, 'a published revision runs')
      await this.#keep(published)
    } catch (error) {
      if (error instanceof NotNow) this.#etag = undefined
      else this.#refuse(published, error)
    }
  }

  /** A revision that came, unless it is the one known. What keeps it from coming is logged once. */
  async #ask(): Promise<PublishedRevision | undefined> {
    const { link, log, clock } = this.#options
    try {
      const published = await link.published(this.#etag)
      if (this.#unreachable) log.info('the service answers again')
      this.#unreachable = ''
      this.#awaySince = undefined
      this.#contactAt = clock.wall()
      if (published) {
        this.#etag = published.etag || undefined
        this.#newest = published
      }
      return published
    } catch (error) {
      const text = errorText(error)
      if (this.#unreachable !== text)
        log.warn(
          { error: text },
          this.revision === undefined
            ? 'cannot reach the service; trying again'
            : 'cannot reach the service; the current revision keeps running',
        )
      this.#unreachable = text
      this.#awaySince ??= clock.now()
      return undefined
    }
  }

  /** One after the other. */
  #keep(revision: PublishedRevision): Promise<void> {
    this.#keeping = this.#keeping.then(() => this.#options.kept.write(revision))
    return this.#keeping
  }

  async #try(revision: PublishedRevision): Promise<Config | undefined> {
    try {
      const config = this.#configOf(revision)
      await this.#options.rehearse(config)
      return config
    } catch (error) {
      this.#refuse(revision, error)
      return undefined
    }
  }

  #refuse({ revision }: PublishedRevision, error: unknown): void {
    const why = error instanceof ConfigError ? error.problems.map(formatProblem).join('; ') : errorText(error)
    this.#refused = { revision, why }
    // Events are delivered in the course of time: the same revision is asked for again.
    if (error instanceof EventsLeftBehind) this.#etag = undefined
    const key = `${revision} ${why}`
    if (this.#logged.has(key)) return
    this.#logged.add(key)
    const text = this.#running
      ? 'cannot apply the published revision; keeping the current one'
      : 'a published revision cannot run here; correct the pipeline, or the local configuration and reload; trying again'
    this.#options.log.error({ code: 'SLUICE_REVISION_REFUSED', revision, error: why }, text)
  }

  /** Throws ConfigError. */
  #configOf(revision: PublishedRevision, local = this.#local): Config {
    const config = local.with(revision.config, `${this.#options.name}, revision ${revision.revision}`)
    this.#revisions.set(config, revision)
    return config
  }

  #present(): Present {
    const revision = this.#running?.revision ?? null
    const cut = (text: string | undefined) => text?.slice(0, LONGEST_ERROR) || null
    if (!this.#pipeline) {
      const health = this.#held === undefined ? 'failed' : 'holding'
      return { revision, health, error: cut(this.#held ?? this.waitsFor) }
    }
    const states = this.#pipeline.states()
    const waiting = states.find(({ state }) => state === 'holding') ?? states.find(({ state }) => state === 'starting')
    const health = waiting ? (waiting.state as 'holding' | 'starting') : 'ready'
    const held = waiting?.reason && `${waiting.id}: ${waiting.reason}`
    return { revision, health, error: cut([this.#refusal, held].filter(Boolean).join('; ')) }
  }
}
