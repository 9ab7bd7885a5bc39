import type { Logger } from 'pino'
import type { Config } from '../config/load.js'
import type { ManagedConfig } from '../config/managed-config.js'
import { ConfigError, errorText, formatProblem } from '../core/errors.js'
import { StateUnreadable } from '../core/unreadable.js'
import type { DestinationState } from '../engine/engine.js'
import { Backoff, type Random } from '../lib/backoff.js'
import { type Clock, sleep } from '../lib/time.js'
import type { KeptRevision } from './kept-revision.js'
import type { Link, PublishedRevision, Report } from './service-link.js'

/** While the service is away it is asked less and less often, but at least so often. */
const LONGEST_WAIT_MS = 60_000
const FIRST_WAIT_MS = 1000
/** How soon a change is reported. */
const LOOK_MS = 1000
/** An interval is longer or shorter by up to this share, so that daemons that began together do not ask together. */
const JITTER = 0.2
const LONGEST_ERROR = 1000

/** What runs: engine/supervisor.ts. */
export interface Replaceable {
  replace(config: Config): Promise<void>
  states(): DestinationState[]
}

export interface ManagedPipelineOptions {
  readonly name: string
  readonly link: Link
  readonly kept: Pick<KeptRevision, 'read' | 'write'>
  /** Tries whether a configuration can be built; rejects when not. */
  readonly rehearse: (config: Config) => Promise<void>
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
  /** What ran before it, in case it cannot start. */
  #before: PublishedRevision | undefined
  /** Of what was answered last, whether it runs or not. */
  #etag: string | undefined
  /** The newest revision, where it cannot run. */
  #refused: { readonly revision: number; readonly why: string } | undefined
  /** Why the cached revision cannot be read. */
  #unreadable: string | undefined
  /** What was told about the service that cannot be asked. */
  #told = ''
  readonly #following = new AbortController()
  #keeping: Promise<void> = Promise.resolve()

  constructor(local: ManagedConfig, options: ManagedPipelineOptions) {
    this.#local = local
    this.#options = options
    this.#sleep = options.sleep ?? sleep
  }

  /** The revision that runs. */
  get revision(): number | undefined {
    return this.#running?.revision
  }

  /** What keeps it from having anything to start with. */
  get waitsFor(): string | undefined {
    return this.#refused?.why ?? ([this.#told, this.#unreadable].filter(Boolean).join('; ') || undefined)
  }

  /** The configuration to start with; waits for one when there is none. Undefined: the signal has aborted. */
  async first(signal: AbortSignal): Promise<Config | undefined> {
    const { kept, log, random } = this.#options
    const backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random)
    for (let isRead = false; !signal.aborted; ) {
      const known = isRead ? undefined : await this.#readKept()
      isRead = this.#unreadable === undefined
      const published = await this.#ask()
      for (const revision of [published, known]) {
        const config = revision && (await this.#try(revision))
        if (!config) continue
        this.#running = revision
        if (revision === published) await kept.write(revision)
        else log.warn({ revision: revision.revision }, 'the service cannot be used now: the kept revision runs')
        return config
      }
      await this.#sleep(FIRST_WAIT_MS + backoff.next(), signal)
    }
    return undefined
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

  /** The revision that runs with another local part: for a reload. Throws ConfigError. */
  reread(local: ManagedConfig): Config {
    const config = local.with(this.#running!.config, this.#nameOf(this.#running!))
    this.#local = local
    // What was refused may be permitted now.
    if (this.#refused) this.#etag = undefined
    return config
  }

  /** Applies each revision that is published from now on, and reports. Returns what ends that, with a last report. */
  follow(pipeline: Replaceable, totals: () => Record<string, number>): () => Promise<void> {
    const { signal } = this.#following
    const done = Promise.all([this.#poll(pipeline, signal), this.#report(pipeline, totals, signal)])
    return async () => {
      this.#following.abort()
      await done
    }
  }

  /** The revision that took the place of another cannot start, and that one runs again. */
  wentBack(error: Error): void {
    const refused = this.#running
    if (!refused || !this.#before) return
    this.#running = this.#before
    this.#before = undefined
    this.#refuse(refused, error)
    void this.#keep(this.#running)
  }

  async #poll(pipeline: Replaceable, signal: AbortSignal): Promise<void> {
    const { random } = this.#options
    let waitMs = 0
    for (;;) {
      const { poll_interval } = this.#local.local.managed
      // Away: less often.
      waitMs = this.#told ? Math.min(Math.max(LONGEST_WAIT_MS, poll_interval), waitMs * 2) : poll_interval
      await this.#sleep(waitMs * (1 - JITTER + 2 * JITTER * random()), signal)
      if (signal.aborted) return
      const published = await this.#ask()
      if (published && !signal.aborted) await this.#apply(published, pipeline)
    }
  }

  async #apply(published: PublishedRevision, pipeline: Replaceable): Promise<void> {
    const before = this.#running!
    if (published.revision === before.revision) {
      this.#refused = undefined
      return
    }
    try {
      const config = this.#local.with(published.config, this.#nameOf(published))
      this.#before = before
      this.#running = published
      await pipeline.replace(config)
      this.#refused = undefined
      this.#options.log.info({ revision: published.revision, before: before.revision }, 'a published revision runs')
      if (this.#running === published) await this.#keep(published)
    } catch (error) {
      this.#running = before
      this.#before = undefined
      this.#refuse(published, error)
    }
  }

  /** A revision that came, unless it is the one known. What keeps it from coming is told, once. */
  async #ask(): Promise<PublishedRevision | undefined> {
    const { link, log } = this.#options
    try {
      const published = await link.published(this.#etag)
      if (this.#told) log.info('the service answers again')
      this.#told = ''
      if (published) this.#etag = published.etag || undefined
      return published
    } catch (error) {
      const text = errorText(error)
      if (this.#told !== text) log.warn({ error: text }, 'the service cannot be asked; what runs goes on')
      this.#told = text
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
      const config = this.#local.with(revision.config, this.#nameOf(revision))
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
    const fields = { code: 'SLUICE_REVISION_REFUSED', revision, error: why }
    this.#options.log.error(fields, 'a published revision cannot run here: what runs goes on')
  }

  #nameOf({ revision }: PublishedRevision): string {
    return `${this.#options.name}, revision ${revision}`
  }

  async #report(pipeline: Replaceable, totals: () => Record<string, number>, signal: AbortSignal): Promise<void> {
    const { link, log, clock, daemon } = this.#options
    let last = ''
    let dueAt = 0
    let told = ''
    for (;;) {
      const state = this.#stateOf(pipeline)
      const now = JSON.stringify(state)
      if (now !== last || clock.now() >= dueAt || signal.aborted) {
        try {
          await link.report({ ...daemon, ...state, totals: totals() })
          told = ''
        } catch (error) {
          if (told !== errorText(error)) log.warn({ error: errorText(error) }, 'the report does not get to the service')
          told = errorText(error)
        }
        last = now
        dueAt = clock.now() + this.#local.local.managed.report_interval
      }
      if (signal.aborted) return
      await this.#sleep(LOOK_MS, signal)
    }
  }

  #stateOf(pipeline: Replaceable): Pick<Report, 'revision' | 'health' | 'error'> {
    const states = pipeline.states()
    const waiting = states.find(({ state }) => state === 'holding') ?? states.find(({ state }) => state === 'starting')
    const health = waiting ? (waiting.state as 'holding' | 'starting') : 'ready'
    const refused = this.#refused && `revision ${this.#refused.revision} cannot run: ${this.#refused.why}`
    const held = waiting?.reason && `${waiting.id}: ${waiting.reason}`
    const error = [refused, held].filter(Boolean).join('; ').slice(0, LONGEST_ERROR)
    return { revision: this.#running?.revision ?? null, health, error: error || null }
  }
}
