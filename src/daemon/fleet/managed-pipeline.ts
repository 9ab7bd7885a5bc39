import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { ConfigError, errorText, formatProblem } from '../../core/errors.js'
import type { DestinationState, ManagedStatus, Wait } from '../../core/status-document.js'
import { StateUnreadable } from '../../core/unreadable.js'
import type { Config } from '../../engine/config/load.js'
import type { ManagedConfig } from '../../engine/config/published/managed-config.js'
import { EventsLeftBehind } from '../../engine/run/state/objections.js'
import { NotNow, type ReplaceOptions } from '../../engine/run/supervisor.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import { printable } from '../../lib/printable.js'
import { type Clock, sleep } from '../../lib/time.js'
import { Turns } from '../../lib/turns.js'
import { ServiceError } from '../client/transport.js'
import { type Present, Reporter } from './reporter.js'
import type { RevisionCache } from './revision-cache.js'
import type { PublishedRevision, Report, ServiceLink } from './service-link.js'

/** Upper limit of the growing wait between requests while the service sends no revision. With JITTER, under a minute. */
const LONGEST_WAIT_MS = 48_000
const FIRST_WAIT_MS = 1000
/**
 * Intervals vary randomly by up to this share. Otherwise, daemons that started together would send requests together.
 */
const JITTER = 0.2
const LONGEST_ERROR = 1000

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
  readonly link: ServiceLink
  readonly cache: Pick<RevisionCache, 'read' | 'write'>
  /** Dry run: rejects if the configuration cannot be built. */
  readonly dryRun: (config: Config) => Promise<void>
  /** Resolves with the reason if replacing `before` by `next` would lose, repeat or skip events. */
  readonly objectionTo: (next: Config, before: Config) => Promise<Error | undefined>
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly daemon: Pick<Report, 'daemon_id' | 'host' | 'version' | 'started_at'>
  /** Default: `sleep` of lib/time.ts. */
  readonly sleep?: typeof sleep
}

/**
 * A pipeline that a service publishes and this machine runs. Invariants: a revision replaces the running revision only
 * after it was built successfully. If a revision cannot run, the running revision stays, and the problem is reported
 * until another revision is published. The revision that is cached on disk is the running one.
 */
export class ManagedPipeline {
  readonly #options: ManagedPipelineOptions
  readonly #sleep: typeof sleep
  #local: ManagedConfig
  #running: PublishedRevision | undefined
  /** The revision from which each configuration was made. */
  readonly #revisions = new WeakMap<Config, PublishedRevision>()
  /** ETag of the last response, even if the revision in it cannot run. */
  #etag: string | undefined
  /** If the newest revision cannot run, its number and the reason. */
  #refused: Refused | undefined
  /** Why the cached revision cannot be read. */
  #unreadable: string | undefined
  /** The logged reason why the service cannot be reached; empty while the service responds. */
  #unreachable = ''
  /** When the service last responded; wall clock in milliseconds. */
  #contactAt: number | undefined
  /** When the service stopped responding, on the monotonic clock. */
  #awaySince: number | undefined
  #newest: PublishedRevision | undefined
  /** Refusals that were logged. Cleared when another revision runs or the local part is read again. */
  readonly #logged = new Set<string>()
  /** The running pipeline; set by `follow`. */
  #pipeline: Replaceable | undefined
  #totals: () => Record<string, number> = () => ({})
  #problems: () => Promise<readonly string[]> = async () => []
  #waits: () => readonly Wait[] = () => []
  /** Why the first revision cannot start yet. */
  #held: string | undefined
  readonly #leaving = new AbortController()
  readonly #reporter: Reporter
  #reporting: Promise<void> | undefined
  #polling: Promise<void> = Promise.resolve()
  /** Ends the wait between two attempts to start. */
  #retry = new AbortController()
  /** Serializes the replacements of the configuration and, independently, the writes to the cache. */
  readonly #turns = new Turns()

  constructor(local: ManagedConfig, options: ManagedPipelineOptions) {
    this.#local = local
    this.#options = options
    this.#sleep = options.sleep ?? sleep
    const { link, clock, log, daemon } = options
    const interval = () => this.#local.local.managed.report_interval
    const present = () => this.#present()
    const totals = () => this.#totals()
    const error = () => this.#error()
    this.#reporter = new Reporter({ link, clock, log, daemon, sleep: this.#sleep, interval, present, error, totals })
  }

  get revision(): number | undefined {
    return this.#running?.revision
  }

  /** Why no revision can start; undefined if no reason is known. */
  get waitsFor(): string | undefined {
    return this.#refusal ?? ([this.#unreachable, this.#unreadable].filter(Boolean).join('; ') || undefined)
  }

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
   * Resolves with the configuration to start with. If no revision can run, calls `waiting` once, reports the reason to
   * the service, and retries. Resolves with undefined if the signal aborts.
   */
  async first(signal: AbortSignal, waiting: () => Promise<void> = async () => {}): Promise<Config | undefined> {
    const { cache, log, random } = this.#options
    const backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random)
    let isRead = false
    let known: PublishedRevision | undefined
    for (let tries = 0; !signal.aborted; tries++) {
      if (!isRead) known = await this.#readKept()
      isRead = this.#unreadable === undefined
      const published = (await this.#ask()) ?? this.#newest
      let refused: Refused | undefined
      const others = known && !(published && isSame(published, known)) ? [known] : []
      for (const revision of published ? [published, ...others] : others) {
        const config = await this.#try(revision)
        if (!config || (revision === published && (await this.#isObjectedTo(config, published, others[0])))) {
          // If both are refused, the newest revision's problem is kept.
          refused ??= this.#refused
          this.#refused = refused
          continue
        }
        this.#running = revision
        if (revision === published) {
          this.#refused = undefined
          this.#logged.clear()
          await cache.write(revision)
        } else {
          const why = published ? 'cannot run the published revision' : 'cannot use the service'
          log.warn({ revision: revision.revision }, `${why}: running the cached revision`)
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

  /**
   * Whether `config` would repeat events that the cached revision has read, or abandon events that the cached revision
   * has left on disk. If so, the cached revision runs instead of `config`.
   */
  async #isObjectedTo(config: Config, published: PublishedRevision, known?: PublishedRevision): Promise<boolean> {
    if (!known) return false
    try {
      const before = this.#configOf(known)
      const objection = await this.#options.objectionTo(config, before)
      if (!objection) return false
      await this.#options.dryRun(before)
      this.#refuse(published, objection)
      return true
    } catch {
      // The cached revision cannot run either.
      return false
    }
  }

  /** Uses a new local part, and immediately looks for a revision to start with. */
  retry(local: ManagedConfig): void {
    this.#local = local
    this.#retry.abort()
  }

  /** The cached revision; undefined if it is missing or cannot be read. */
  async #readKept(): Promise<PublishedRevision | undefined> {
    const { cache, log } = this.#options
    try {
      const revision = await cache.read()
      this.#unreadable = undefined
      return revision
    } catch (error) {
      if (!(error instanceof StateUnreadable)) throw error
      const { code, file, message } = error
      if (this.#unreadable !== message)
        log.error({ code, file, error: message }, 'cannot read the cached revision; trying again')
      this.#unreadable = message
      return undefined
    }
  }

  /** Calls `work` after replacements in progress. Further replacements wait until `work` ends. */
  inTurn(work: () => Promise<void>): Promise<void> {
    return this.#turns.take('replace', work)
  }

  /** For a reload: returns the running revision with a new local part. Call only in `inTurn`. Throws ConfigError. */
  reread(local: ManagedConfig): Config {
    const config = this.#configOf(this.#running!, local)
    this.#local = local
    // The new local part may permit the refused revision.
    if (this.#refused) this.#etag = undefined
    this.#logged.clear()
    return config
  }

  /** Records why the revision cannot start yet. */
  held(reason: string): void {
    this.#held = reason
    this.#reporting ??= this.#reporter.run(this.#leaving.signal)
  }

  /**
   * Applies each revision that is published from now on. Sends reports with the daemon's `problems`. Returns `leave`.
   */
  follow(
    pipeline: Replaceable,
    totals: () => Record<string, number>,
    problems: () => Promise<readonly string[]> = async () => [],
    waits: () => readonly Wait[] = () => [],
  ): () => Promise<void> {
    this.#pipeline = pipeline
    this.#totals = totals
    this.#problems = problems
    this.#waits = waits
    this.#held = undefined
    const { signal } = this.#leaving
    this.#polling = this.#poll(pipeline, signal)
    this.#reporting ??= this.#reporter.run(signal)
    return () => this.leave()
  }

  /** Stops polling, and sends a last report. */
  async leave(): Promise<void> {
    this.#leaving.abort()
    await Promise.all([this.#polling, this.#reporting])
  }

  /** Called when `back` runs again, because `failed` replaced `back` but could not start. */
  wentBack(error: Error, failed: Config, back: Config): void {
    const [refused, running] = [this.#revisions.get(failed), this.#revisions.get(back)]
    // If the running revision is the one with the error, the local part of the configuration caused the error, so the
    // revision is not refused.
    if (!refused || !running || isSame(refused, running)) return
    this.#running = running
    this.#refuse(refused, error)
    void this.#keep(running)
  }

  #jitter(): number {
    return 1 - JITTER + 2 * JITTER * this.#options.random()
  }

  async #poll(pipeline: Replaceable, signal: AbortSignal): Promise<void> {
    let waitMs = FIRST_WAIT_MS
    for (;;) {
      const { poll_interval } = this.#local.local.managed
      waitMs = this.#unreachable ? Math.min(Math.max(LONGEST_WAIT_MS, poll_interval), waitMs * 2) : poll_interval
      await this.#sleep(waitMs * this.#jitter(), signal)
      if (signal.aborted) return
      const published = await this.#ask()
      if (published && !signal.aborted) await this.inTurn(() => this.#apply(published, pipeline))
    }
  }

  async #apply(published: PublishedRevision, pipeline: Replaceable): Promise<void> {
    const before = this.#running!
    if (isSame(published, before)) {
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

  /** Fetches the published revision; undefined if it is unchanged or the request fails. Logs a failure once. */
  async #ask(): Promise<PublishedRevision | undefined> {
    const { link, log, clock } = this.#options
    try {
      const published = await link.published(this.#etag)
      if (this.#unreachable) log.info('the service responds again')
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
      const what = error instanceof ServiceError ? 'the service did not send the pipeline' : 'cannot reach the service'
      if (this.#unreachable !== text)
        log.warn(
          { error: text },
          this.revision === undefined ? `${what}; trying again` : `${what}; the current revision keeps running`,
        )
      this.#unreachable = text
      this.#awaySince ??= clock.now()
      return undefined
    }
  }

  #keep(revision: PublishedRevision): Promise<void> {
    return this.#turns.take('cache', () => this.#options.cache.write(revision))
  }

  async #try(revision: PublishedRevision): Promise<Config | undefined> {
    try {
      const config = this.#configOf(revision)
      await this.#options.dryRun(config)
      return config
    } catch (error) {
      this.#refuse(revision, error)
      return undefined
    }
  }

  #refuse({ revision }: PublishedRevision, error: unknown): void {
    const why = error instanceof ConfigError ? error.problems.map(formatProblem).join('; ') : errorText(error)
    this.#refused = { revision, why }
    // Requests the revision again, because it can run once the previous revision's remaining events are delivered.
    if (error instanceof EventsLeftBehind) this.#etag = undefined
    const key = `${revision} ${why}`
    if (this.#logged.has(key)) return
    this.#logged.add(key)
    const text = this.#running
      ? 'cannot apply the published revision; keeping the current one'
      : 'cannot run the published revision; trying again. Correct the pipeline, or correct the local configuration and reload'
    this.#options.log.error({ code: 'SLUICE_REVISION_REFUSED', revision, error: why }, text)
  }

  #configOf(revision: PublishedRevision, local = this.#local): Config {
    const config = local.with(revision.config, `${this.#options.name}, revision ${revision.revision}`)
    this.#revisions.set(config, revision)
    return config
  }

  async #error(): Promise<Report['error']> {
    const problems = await this.#problems()
    return problems.length === 0 ? this.#present().error : cut([this.#refusal, ...problems].filter(Boolean).join('; '))
  }

  #present(): Present {
    const revision = this.#running?.revision ?? null
    if (!this.#pipeline) {
      const health = this.#held === undefined ? 'failed' : 'holding'
      return { revision, health, error: cut(this.#held ?? this.waitsFor) }
    }
    const states = this.#pipeline.states()
    const waiting = states.find(({ state }) => state === 'holding') ?? states.find(({ state }) => state === 'starting')
    const health = waiting ? (waiting.state as 'holding' | 'starting') : 'ready'
    // People who may read the pipeline may not read its events.
    const held = waiting?.ownReason && `${waiting.id}: ${waiting.ownReason}`
    const waits = this.#waits().map(wait => `${wait.id} waits for ${wait.for.join(', ')}`)
    return { revision, health, error: cut([this.#refusal, held, ...waits].filter(Boolean).join('; ')) }
  }
}

/** A service that was restored from a backup uses the numbers of later revisions again. */
function isSame(one: PublishedRevision, other: PublishedRevision): boolean {
  return one.revision === other.revision && isDeepStrictEqual(one.config, other.config)
}

/** Makes one line of an error, because the service refuses reports with control characters or lone surrogates. */
function cut(text = ''): string | null {
  const line = printable(text.replace(/\s+/g, ' '))
  return line.slice(0, LONGEST_ERROR).toWellFormed().trim() || null
}
