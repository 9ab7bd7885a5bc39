import { errorText } from '../../core/errors.js'
import type { DestinationState, SourceFailure } from '../../core/status-document.js'
import { deadline, everyOf, nextTurn, sleep } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { componentsOf } from '../config/inputs.js'
import type { Config } from '../config/load.js'
import type { Stuck } from './blocked.js'
import { dryRun } from './dry-run.js'
import { Engine, type EngineHandover, type Runtime } from './engine.js'
import type { Links } from './links.js'
import { type Loaded, withFiles } from './loaded-files.js'
import type { Watched } from './measure/progress.js'
import type { UnsavedPositions } from './state/checkpoints.js'
import { discardOrphans, findOrphans, isThere, type Orphan, reportOrphans } from './state/inventory.js'
import { buffersLeftBehind, EventsLeftBehind, findRepeats, refuseRepeats } from './state/objections.js'
import { carryOver, type Rename, renamesBack, renamesOf } from './state/renames.js'

/** How long a reload waits for attempts at failing destinations, for removed destinations, and for stuck processors. */
const STUCK_MS = 2000
const CHECK_MS = 100
/** Maximum size in bytes of a disk buffer that a reload delivers before it removes the destination. */
const MOST_DRAINED_BYTES = 16 * 1024 * 1024
/** A shutdown stops waiting when this many consecutive checks find all remaining destinations paused. */
const HOLD_CHECKS = 2
/**
 * How often and after which pause the previous configuration is built again. A file that it needs may be invalid only
 * until its writer has finished.
 */
const RESTORE_ATTEMPTS = 30
const RESTORE_PAUSE_MS = 1000

/**
 * Called when `failed` was built but could not start, and the previous configuration, `back`, runs again. The caller of
 * `replace` has already been notified that `failed` was applied.
 */
export type WentBack = (error: Error, failed: Config, back: Config) => void

/** Called with the links of an engine, which give access to its events. */
export type Follower = (links: Links, config: Config) => void

/** Sluice is starting or stopping, so it cannot apply the new configuration now, even if it is valid. */
export class NotNow extends Error {}

export interface ReplaceOptions {
  /**
   * Whether to refuse a configuration that has no destination for events in a buffer. The configuration is still
   * accepted if these events can be delivered before the replacement.
   */
  readonly keepsEvents?: boolean
}

/**
 * Runs a configuration, and replaces it by another one while events flow. Invariants:
 * - A new configuration is built in a dry run before the running one is touched. If the dry run fails, nothing changes.
 * - Two engines never run at the same time. The old engine delivers the events that it has. Sources that are equal in
 *   both configurations pause during the replacement, and keep their connections, open files and unfinished lines.
 *   Equal destinations keep their requests, buffers and outages, unless one of their sources ends.
 * - Processors and other destinations pass their state to successors with equal options. For example, the throttle
 *   passes its buckets, and http its connections. If events were given back after a component saw them, its state would
 *   count them twice. In this case, a component passes on its state only if its plan `keeps`. Events that wait for a
 *   decision go to the successor with their batch.
 * - A failing or paused destination passes its undelivered events to its successor, if it has one. Other events that
 *   the old engine cannot deliver in time are sent again through the new engine. Their source sends them. If the source
 *   cannot read them again, they are sent on its behalf.
 */
export class Supervisor {
  readonly #runtime: Runtime
  readonly #wentBack: WentBack | undefined
  /** The running configuration, and the state of its files when it was loaded. */
  #loaded: Loaded
  /** The configuration that runs again if the current one cannot start. */
  #fallback: Loaded | undefined
  /** The current configuration if it could not start, until it is replaced. */
  #broken: Config | undefined
  #engine: Engine
  #running: Promise<void> | undefined
  /** Makes replacements run one at a time. */
  #queue: Promise<unknown> = Promise.resolve()
  #deadline: AbortSignal | undefined
  #aborted = false
  #isOver = false
  /** Whether the current engine is about to be replaced. */
  #isDraining = false
  #stopChecking: (() => void) | undefined
  #failed = false
  replaced = 0
  /** When the current replacement began, wall clock in milliseconds; undefined without one. */
  replacingSince: number | undefined
  #orphans: readonly Orphan[] = []
  readonly #followers = new Set<Follower>()

  /** Creates every component. Throws if one cannot be created. Does not read or send anything yet. */
  static async build(config: Config, runtime: Runtime, wentBack?: WentBack): Promise<Supervisor> {
    const supervised: { by?: Supervisor } = {}
    const all = {
      ...runtime,
      failed: (error: Error) => supervised.by!.#cannotStart(error),
      started: () => supervised.by!.#discardOrphans(),
    }
    // Repeats prevent a reload but not a start: duplicate events are better than lost events.
    for (const { path, message } of await findRepeats(config))
      runtime.log.warn(
        { code: 'SLUICE_SOURCE_REPEATS', component: path, error: message },
        'a source starts from the beginning',
      )
    await carryOver(config.dataDir, renamesOf(config), runtime.log)
    const loaded = withFiles(config)
    supervised.by = new Supervisor(loaded, all, await Engine.build(config, all), wentBack)
    await supervised.by.#findOrphans(config)
    return supervised.by
  }

  private constructor(loaded: Loaded, runtime: Runtime, engine: Engine, wentBack: WentBack | undefined) {
    this.#loaded = loaded
    this.#runtime = runtime
    this.#engine = engine
    this.#wentBack = wentBack
  }

  /**
   * Deletes orphaned data if the current configuration, which has started, requests this (`discard_orphans`). Waits
   * until a running replacement has ended.
   */
  #discardOrphans(): void {
    this.#queue = this.#queue.then(async () => {
      this.#orphans = await discardOrphans(this.#orphans, this.config, this.#runtime.log)
    })
  }

  async #findOrphans(config: Config): Promise<void> {
    const { log } = this.#runtime
    this.#orphans = await findOrphans(config, log)
    reportOrphans(
      this.#orphans.filter(({ id }) => !config.discardOrphans.includes(id)),
      log,
    )
  }

  #cannotStart(error: Error): void {
    if (this.#isDraining) {
      // An engine that could not start delivers nothing, and it is being replaced anyway.
      this.#engine.abort()
      return
    }
    const fallback = this.#fallback
    if (!fallback) {
      this.abort()
      return
    }
    const failed = this.config
    // Another component has already failed to start, so the return to `fallback` has begun.
    if (failed === this.#broken) return
    this.#broken = failed
    const back = this.#queue.then(nextTurn).then(async () => {
      // A replacement that was requested earlier has already replaced the configuration.
      if (this.config !== failed) return
      this.#wentBack?.(error, failed, fallback.config)
      await this.#swap(fallback, undefined)
    })
    this.#queue = back.catch(() => this.abort())
  }

  /** Whether all components of the current configuration have started. */
  get hasStarted(): boolean {
    return this.#engine.hasStarted
  }

  /** Runs until every source has ended and every event is delivered, or until `stop` has completed. */
  async run(): Promise<void> {
    this.#running = this.#engine.run()
    if (this.#deadline) this.#stopChecking ??= this.#endOnHold()
    try {
      for (let known: Promise<void> | undefined; known !== this.#running; ) {
        known = this.#running
        await known
        await this.#queue
      }
    } finally {
      this.#isOver = true
      this.#stopChecking?.()
    }
  }

  /** Replaces the configuration. Resolves when the new one runs. If it is unusable, rejects and keeps the old one. */
  replace(config: Config, options: ReplaceOptions = {}): Promise<void> {
    const replaced = this.#queue.then(() => this.#replace(config, options))
    this.#queue = replaced
      .catch(() => {})
      .then(() => {
        this.replacingSince = undefined
      })
    return replaced
  }

  async #replace(config: Config, { keepsEvents = false }: ReplaceOptions): Promise<void> {
    if (this.#deadline || !this.#running) throw new NotNow('Sluice is starting or stopping')
    this.replacingSince = this.#runtime.clock.wall()
    if (config.dataDir !== this.config.dataDir)
      throw new Error('data_dir can only be changed by a restart; the current one is still in use')
    const loaded = withFiles(config)
    const { compare } = await import('./same-components.js')
    if (this.config !== this.#broken && compare(this.#loaded, loaded).isUnchanged) {
      this.#loaded = loaded
      await this.#findOrphans(config)
      this.#discardOrphans()
      return
    }
    await refuseRepeats(config)
    // Before a reload, a removed destination that is `ready` delivers its buffer. The sources wait meanwhile, so the
    // reload is refused if the buffer is large.
    const delivering = new Set(this.states().flatMap(({ id, state }) => (state === 'ready' ? [id] : [])))
    if (keepsEvents)
      await this.#refuseLeftBehind(config, ({ id, bytes }) => !delivering.has(id) || bytes > MOST_DRAINED_BYTES)
    await dryRun(config, this.#runtime)
    await this.#swap(loaded, this.config === this.#broken ? this.#fallback : this.#loaded, keepsEvents)
  }

  /** Throws EventsLeftBehind if `config` does not have a destination for buffered events. */
  async #refuseLeftBehind(config: Config, isMeant: (buffer: Orphan) => boolean = () => true): Promise<void> {
    const left = (await buffersLeftBehind(this.config, config, this.#runtime.log)).filter(isMeant)
    if (left.length > 0) throw new EventsLeftBehind(left)
  }

  /** Replaces the engine. `fallback` runs again if `config` cannot start. */
  async #swap(loaded: Loaded, fallback: Loaded | undefined, keepsEvents = false): Promise<void> {
    const { config } = loaded
    if (this.#deadline) throw new NotNow('Sluice is stopping')
    const before = this.#engine
    await this.#drain(before, loaded)
    const handover = before.handover()
    let failure: unknown
    let carried = false
    try {
      if (keepsEvents) await this.#refuseLeftBehind(config)
      carried = true
      await this.#carryOver([...renamesOf(config), ...(fallback ? [] : renamesBack(this.config, config))])
      this.#engine = await Engine.build(config, this.#runtime, handover)
      await this.#findOrphans(config)
      this.#loaded = loaded
      this.#fallback = fallback
      this.#broken = undefined
      this.replaced++
    } catch (error) {
      failure = error
      if (carried) await this.#carryOver(renamesBack(config, this.config))
      await this.#goBack(handover, error)
      if (this.#failed) failure = new NotNow('Sluice is stopping')
    }
    this.#abandonRemoved()
    await handover.handoverStates.settle()
    for (const follow of this.#followers) follow(this.taps, this.config)
    if (!this.#failed) this.#running = this.#engine.run()
    if (this.#aborted) this.#engine.abort()
    else if (this.#deadline) this.#engine.stop(this.#deadline, this.config.shutdownTimeoutMs)
    if (failure) throw failure
  }

  /** If a removed component gave events back, counts them as discarded, because they cannot return to it. */
  #abandonRemoved(): void {
    const ids = new Set(componentsOf(this.config).map(({ id }) => id))
    for (const [id, counters] of this.#runtime.metrics.components) if (!ids.has(id)) counters.abandon()
  }

  #carryOver(renames: readonly Rename[]): Promise<void> {
    return carryOver(this.config.dataDir, renames, this.#runtime.log)
  }

  /** Builds the previous configuration again, after the new one passed the dry run but could not be built. */
  async #goBack(handover: EngineHandover, cause: unknown): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      handover.handoverStates.giveBack()
      try {
        this.#engine = await Engine.build(this.config, this.#runtime, handover)
        return
      } catch (error) {
        const retries = attempt < RESTORE_ATTEMPTS && !this.#deadline
        const text = `cannot restore the previous configuration; ${retries ? 'retrying' : 'nothing is running'}`
        const fields = { code: 'SLUICE_REPLACE_FAILED', error: errorText(error), cause: errorText(cause) }
        this.#runtime.log.error(fields, text)
        if (!retries) break
      }
      await sleep(RESTORE_PAUSE_MS, undefined, (ms, fn) => this.#runtime.clock.after(ms, fn))
    }
    this.#failed = true
    this.abort()
    handover.handoverStates.giveBack()
    for (const run of handover.sources.values()) {
      run.end()
      run.output.close()
    }
    for (const run of handover.destinations.values()) await run.end()
    handover.checkpoints.close()
  }

  /** Stops an engine, except for components that keep running with the next one. */
  async #drain(engine: Engine, loaded: Loaded): Promise<void> {
    const { compare } = await import('./same-components.js')
    const compared = compare(this.#loaded, loaded)
    const { config: next } = loaded
    const emptied = (id: string) =>
      !next.destinations.some(
        other => [other.id, other.renamedFrom].includes(id) && other.delivery?.buffer.type === 'disk',
      )
    const { clock } = this.#runtime
    const after = (ms: number, fn: () => void) => clock.after(ms, fn)
    this.#isDraining = true
    const limit = deadline(this.config.shutdownTimeoutMs, this.#deadline, after)
    const giveUp = new AbortController()
    let cancelLast: (() => void) | undefined
    const last = () => {
      engine.leaveFailing(true)
      if (this.#deadline?.aborted || !engine.cutAttempts()) giveUp.abort()
      else cancelLast = after(STUCK_MS, () => giveUp.abort())
    }
    limit.signal.addEventListener('abort', last, { once: true })
    let cancel: (() => void) | undefined
    const stopChecking = everyOf(clock, CHECK_MS, () => {
      engine.leaveFailing()
      const stuck = engine.stuck()
      if (!stuck) cancel?.()
      else if (!cancel && stuck.processors.length > 0) this.#reportHanging(stuck)
      cancel =
        stuck &&
        (cancel ??
          after(STUCK_MS, () => {
            cancel = undefined
            if (!engine.cutAttempts()) giveUp.abort()
          }))
    })
    try {
      engine.leave(compared, emptied, giveUp.signal, next)
      await this.#running
    } finally {
      this.#isDraining = false
      stopChecking()
      cancel?.()
      cancelLast?.()
      limit.clear()
    }
  }

  #reportHanging({ processors }: Stuck): void {
    const text = `processors have not finished with their events; in ${formatDuration(STUCK_MS)}, the reload continues without these processors, and the new configuration processes the events`
    this.#runtime.log.warn({ code: 'SLUICE_PROCESSOR_STUCK', components: processors }, text)
  }

  /** Stops reading. Delivers the events read so far until `deadline` aborts. */
  stop(deadline: AbortSignal): void {
    this.#deadline = deadline
    this.#engine.stop(deadline, this.config.shutdownTimeoutMs)
    // If the run is over, starts no check, because the check would keep the process alive.
    if (this.#running && !this.#isOver) this.#stopChecking ??= this.#endOnHold()
  }

  /**
   * Ends the shutdown early if the remaining events are safe but cannot be delivered before the deadline, because they
   * wait for an operator or for the end of a pause.
   */
  #endOnHold(): () => void {
    const { clock } = this.#runtime
    const end = clock.now() + this.config.shutdownTimeoutMs
    let checks = 0
    return everyOf(clock, CHECK_MS, () => {
      checks = this.#engine.isOnHold(end - clock.now()) ? checks + 1 : 0
      if (checks < HOLD_CHECKS) return
      this.#stopChecking?.()
      const text = 'not waiting for paused or failing destinations; their events are delivered after the next start'
      this.#runtime.log.info({ events: this.undelivered() }, text)
      this.abort()
    })
  }

  /** Ends at once. Undelivered events are read again after the next start. */
  abort(): void {
    this.#aborted = true
    this.#deadline ??= AbortSignal.abort()
    this.#engine.abort()
  }

  get failed(): boolean {
    return this.#failed || this.#engine.failed
  }

  get config(): Config {
    return this.#loaded.config
  }

  get taps(): Links {
    return this.#engine.links
  }

  /** Calls `follow` with the current engine now, and with each later engine before its first event. */
  follow(follow: Follower): () => void {
    this.#followers.add(follow)
    follow(this.taps, this.config)
    return () => this.#followers.delete(follow)
  }

  states(): DestinationState[] {
    return this.#engine.states()
  }

  flow() {
    return this.#engine.flow()
  }

  get watched(): readonly Watched[] {
    return this.#engine.watched
  }

  get orphans(): readonly Orphan[] {
    return this.#orphans.filter(isThere)
  }

  get unsaved(): readonly UnsavedPositions[] {
    return this.#engine.checkpoints.unsaved()
  }

  failures(): SourceFailure[] {
    return this.#engine.failures()
  }

  /** Processors whose server does not reply, and processors that do not finish with events. */
  outages() {
    return this.#engine.links.outages()
  }

  get isStopping(): boolean {
    return this.#deadline !== undefined
  }

  undelivered(): number {
    return this.#engine.undelivered()
  }
}
