import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/load.js'
import type { KeyWatch } from '../core/component.js'
import { errorText } from '../core/errors.js'
import { looseCounters } from '../flow/counters.js'
import type { Tap } from '../flow/fan-out.js'
import { makeFolderSync } from '../lib/files/make-folder.js'
import { after, deadline, every, nextTurn } from '../lib/time.js'
import { type DestinationState, Engine, type EngineHandover, type Runtime } from './engine.js'
import type { Watched } from './measure/progress.js'
import { sameOptions } from './same-options.js'
import type { SourceFailure } from './source-run.js'
import type { UnsavedPositions } from './state/checkpoints.js'
import { EventsLeftBehind, leftBehind } from './state/left-behind.js'
import { discardOrphans, findOrphans, type Orphan, reportOrphans, stillThere } from './state/orphans.js'
import { carryOver, type Rename, renamesBack, renamesOf } from './state/renames.js'
import { findRepeats, refuseRepeats } from './state/repeats.js'

/** How long nothing but destinations that fail, or wait for an operator, is waited for: the next configuration may be their cure. */
const STUCK_MS = 2000
const LOOK_MS = 100
/** What a destination may have in a disk buffer that is to be emptied during a replacement. */
const MOST_DRAINED_BYTES = 16 * 1024 * 1024
/** So many looks in a row have to find destinations on hold before the end is not put off for them. */
const HOLD_LOOKS = 2

/**
 * Called when `failed` was built and could not start: `back`, which ran before it, runs again. Whoever replaced `back` has
 * heard of that before.
 */
export type WentBack = (error: Error, failed: Config, back: Config) => void

/** Nothing is wrong with the configuration: none can take the place of another at this moment. */
export class NotNow extends Error {}

export interface ReplaceOptions {
  /** Whether a configuration is refused that has no destination for events in a disk buffer, once they cannot be delivered before. */
  readonly keepsEvents?: boolean
}

/**
 * Runs a configuration, and replaces it by another while events flow. Invariants:
 * - A configuration is built in rehearsal before anything of the one that runs is touched; what cannot be built changes
 *   nothing.
 * - Two engines never run at the same time. The old one delivers what it has; sources that are the same in both
 *   configurations stay as they are, with their connections, open files and unfinished lines, and wait meanwhile.
 * - Processors and destinations whose options are the same leave theirs what they have: the throttle its buckets, http its
 *   connections. Not when something comes again: it must not be counted twice.
 * - What the old one cannot deliver in time is sent again through the new one: by the source, or in its place when it
 *   cannot read that again.
 */
export class Supervisor {
  readonly #runtime: Runtime
  readonly #wentBack: WentBack | undefined
  #config: Config
  /** What ran before, until the present one is known to start. */
  #fallback: Config | undefined
  /** A configuration that cannot start, until another one has taken its place. */
  #broken: Config | undefined
  #engine: Engine
  #running: Promise<void> | undefined
  /** Replacements come one after the other. */
  #queue: Promise<unknown> = Promise.resolve()
  #deadline: AbortSignal | undefined
  #aborted = false
  /** Whether another engine is about to take the place of the present one. */
  #isDraining = false
  #stopLooking: (() => void) | undefined
  #failed = false
  #replaced = 0
  #orphans: readonly Orphan[] = []

  /** Creates every component; throws when one cannot be. Nothing is read or sent yet. */
  static async build(config: Config, runtime: Runtime, wentBack?: WentBack): Promise<Supervisor> {
    const supervised: { by?: Supervisor } = {}
    const all = {
      ...runtime,
      failed: (error: Error) => supervised.by!.#cannotStart(error),
      started: () => supervised.by!.#letOrphansGo(),
    }
    // Events that come twice are better than none: a start is not refused for it, unlike a reload.
    for (const { path, message } of findRepeats(config))
      runtime.log.warn(
        { code: 'SLUICE_SOURCE_REPEATS', component: path, error: message },
        'a source starts from the beginning',
      )
    await carryOver(config.dataDir, renamesOf(config), runtime.log)
    supervised.by = new Supervisor(config, all, await Engine.build(config, all), wentBack)
    await supervised.by.#lookForOrphans(config)
    return supervised.by
  }

  private constructor(config: Config, runtime: Runtime, engine: Engine, wentBack: WentBack | undefined) {
    this.#config = config
    this.#runtime = runtime
    this.#engine = engine
    this.#wentBack = wentBack
  }

  /** Nothing is deleted before the configuration that asks for it is known to run, nor while another replaces it. */
  #letOrphansGo(): void {
    this.#queue = this.#queue.then(async () => {
      this.#orphans = await discardOrphans(this.#orphans, this.#config, this.#runtime.log)
    })
  }

  async #lookForOrphans(config: Config): Promise<void> {
    const { log } = this.#runtime
    this.#orphans = await findOrphans(config, log)
    reportOrphans(
      this.#orphans.filter(({ id }) => !config.discardOrphans.includes(id)),
      log,
    )
  }

  #cannotStart(error: Error): void {
    if (this.#isDraining) {
      // It is being replaced anyway, and delivers nothing.
      this.#engine.abort()
      return
    }
    const fallback = this.#fallback
    if (!fallback) {
      this.abort()
      return
    }
    const failed = this.#config
    // Another destination of the same configuration.
    if (failed === this.#broken) return
    this.#broken = failed
    const back = this.#queue.then(nextTurn).then(async () => {
      // A replacement that was under way has taken its place.
      if (this.#config !== failed) return
      this.#wentBack?.(error, failed, fallback)
      await this.#swap(fallback, undefined)
    })
    this.#queue = back.catch(() => this.abort())
  }

  /** Runs until every source has ended and everything is delivered, or `stop` has brought it to its end. */
  async run(): Promise<void> {
    this.#running = this.#engine.run()
    for (let known: Promise<void> | undefined; known !== this.#running; ) {
      known = this.#running
      await known
      await this.#queue
    }
    this.#stopLooking?.()
  }

  /**
   * Goes on with another configuration; resolves when it runs. Rejects when it cannot be used, and what ran before goes
   * on then.
   */
  replace(config: Config, options: ReplaceOptions = {}): Promise<void> {
    const replaced = this.#queue.then(() => this.#replace(config, options))
    this.#queue = replaced.catch(() => {})
    return replaced
  }

  async #replace(config: Config, { keepsEvents = false }: ReplaceOptions): Promise<void> {
    if (this.#deadline || !this.#running) throw new NotNow('it is ending, or does not run yet')
    if (config.dataDir !== this.#config.dataDir) throw new Error('another data_dir is used after a restart only')
    refuseRepeats(config)
    // Those that deliver empty their buffers before they are replaced; sources wait for it, so not where that takes long.
    const delivering = new Set(this.states().flatMap(({ id, state }) => (state === 'ready' ? [id] : [])))
    if (keepsEvents)
      await this.#refuseLeftBehind(config, ({ id, bytes }) => !delivering.has(id) || bytes > MOST_DRAINED_BYTES)
    await rehearse(config, this.#runtime)
    await this.#swap(config, this.#config === this.#broken ? this.#fallback : this.#config, keepsEvents)
  }

  /** Throws EventsLeftBehind. */
  async #refuseLeftBehind(config: Config, isMeant: (buffer: Orphan) => boolean = () => true): Promise<void> {
    const left = (await leftBehind(this.#config, config, this.#runtime.log)).filter(isMeant)
    if (left.length > 0) throw new EventsLeftBehind(left)
  }

  /** `fallback` runs again when `config` cannot start. */
  async #swap(config: Config, fallback: Config | undefined, keepsEvents = false): Promise<void> {
    if (this.#deadline) throw new NotNow('it is ending')
    const before = this.#engine
    await this.#drain(before, config)
    const handover = before.handover()
    let failure: unknown
    let carried = false
    try {
      if (keepsEvents) await this.#refuseLeftBehind(config)
      carried = true
      await this.#carryOver([...renamesOf(config), ...(fallback ? [] : renamesBack(this.#config, config))])
      this.#engine = await Engine.build(config, this.#runtime, handover)
      await this.#lookForOrphans(config)
      this.#config = config
      this.#fallback = fallback
      this.#broken = undefined
      this.#replaced++
    } catch (error) {
      failure = error
      if (carried) await this.#carryOver(renamesBack(config, this.#config))
      await this.#goBack(handover)
    }
    this.#abandonRemoved()
    await handover.handoverStates.settle()
    if (!this.#failed) this.#running = this.#engine.run()
    if (this.#aborted) this.#engine.abort()
    else if (this.#deadline) this.#engine.stop(this.#deadline)
    if (failure) throw failure
  }

  /** What components gave back that are not configured any more does not come to them again. */
  #abandonRemoved(): void {
    const { sources, processors, destinations } = this.#config
    const ids = new Set([...sources, ...processors, ...destinations].map(({ id }) => id))
    for (const [id, counters] of this.#runtime.metrics.components) if (!ids.has(id)) counters.abandon()
  }

  #carryOver(renames: readonly Rename[]): Promise<void> {
    return carryOver(this.#config.dataDir, renames, this.#runtime.log)
  }

  /** What was built in rehearsal can fail all the same: then with the configuration that worked until now. */
  async #goBack(handover: EngineHandover): Promise<void> {
    handover.handoverStates.giveBack()
    try {
      this.#engine = await Engine.build(this.#config, this.#runtime, handover)
    } catch (error) {
      const text = 'the configuration that ran until now cannot be built again'
      this.#runtime.log.error({ code: 'SLUICE_REPLACE_FAILED', error: errorText(error) }, text)
      this.#failed = true
      handover.handoverStates.giveBack()
      for (const run of handover.sources.values()) {
        run.end()
        run.output.close()
      }
      handover.checkpoints.close()
    }
  }

  /** Brings an engine to its end, but for the sources that `next` has too. */
  async #drain(engine: Engine, next: Config): Promise<void> {
    const same = sameComponents(this.#config, next)
    const emptied = (id: string) =>
      !next.destinations.some(
        other => [other.id, other.renamedFrom].includes(id) && other.delivery?.buffer.type === 'disk',
      )
    this.#isDraining = true
    const limit = deadline(this.#config.shutdownTimeoutMs, this.#deadline)
    const giveUp = new AbortController()
    limit.signal.addEventListener('abort', () => giveUp.abort(), { once: true })
    let cancel: (() => void) | undefined
    const stopLooking = every(LOOK_MS, () => {
      if (!engine.isStuck()) {
        cancel?.()
        cancel = undefined
      } else cancel ??= after(STUCK_MS, () => giveUp.abort())
    })
    try {
      engine.leave(same, emptied, giveUp.signal)
      await this.#running
    } finally {
      this.#isDraining = false
      stopLooking()
      cancel?.()
      limit.clear()
    }
  }

  /** Ends the reading; what was read is delivered, at most until `deadline` aborts. */
  stop(deadline: AbortSignal): void {
    this.#deadline = deadline
    this.#engine.stop(deadline)
    this.#stopLooking ??= this.#endOnHold()
  }

  /** Does not wait for an operator, or for a pause that takes longer, where what is left is safe without that. */
  #endOnHold(): () => void {
    const { clock } = this.#runtime
    const end = clock.now() + this.config.shutdownTimeoutMs
    let looks = 0
    return every(LOOK_MS, () => {
      looks = this.#engine.isOnHold(end - clock.now()) ? looks + 1 : 0
      if (looks < HOLD_LOOKS) return
      this.#stopLooking?.()
      const text = 'destinations are on hold: not waiting for them; they get their events after the next start'
      this.#runtime.log.info({ events: this.undelivered() }, text)
      this.abort()
    })
  }

  /** Ends everything now: what is not delivered is read again after the next start. */
  abort(): void {
    this.#aborted = true
    this.#deadline ??= AbortSignal.abort()
    this.#engine.abort()
  }

  /** Whether the run ended because a component could not start. */
  get failed(): boolean {
    return this.#failed || this.#engine.failed
  }

  /** The configuration that runs. */
  get config(): Config {
    return this.#config
  }

  /** How often another configuration took the place of the one before. */
  get replaced(): number {
    return this.#replaced
  }

  /** As Taps, of what runs at this moment. */
  tap(output: string, tap: Tap): (() => void) | undefined {
    return this.#engine.taps.tap(output, tap)
  }

  outputs(): string[] {
    return this.#engine.taps.outputs()
  }

  /** Counts by key what a component decides from now on; undefined: it has no keys. */
  watchKeys(component: string): KeyWatch | undefined {
    return this.#engine.taps.watchKeys(component)
  }

  /** What each destination is up to. */
  states(): DestinationState[] {
    return this.#engine.states()
  }

  /** What can be seen to stand still, of what runs at this moment. */
  get watched(): readonly Watched[] {
    return this.#engine.watched
  }

  /** Data of components that are not configured. */
  get orphans(): readonly Orphan[] {
    return stillThere(this.#orphans)
  }

  /** Sources whose positions could not be saved the last time. */
  get unsaved(): readonly UnsavedPositions[] {
    return this.#engine.checkpoints.unsaved()
  }

  /** Sources that wait, or failed a short while ago, and why. */
  failures(): SourceFailure[] {
    return this.#engine.failures()
  }

  /** Events read and not settled. */
  undelivered(): number {
    return this.#engine.undelivered()
  }
}

/** Ids of the components that have the same options in both. */
function sameComponents(before: Config, next: Config): Set<string> {
  const all = ({ sources, processors, destinations }: Config) => [...sources, ...processors, ...destinations]
  const others = new Map(all(next).map(component => [component.id, component]))
  const same = all(before).filter(({ id, kind, type, options }) => {
    const other = others.get(id)
    return other?.kind === kind && other.type === type && sameOptions(options, other.options)
  })
  return new Set(same.map(({ id }) => id))
}

/** Creates every component of a configuration, in a folder of its own, and lets go of them again; throws when one cannot be. */
export async function rehearse(config: Config, runtime: Omit<Runtime, 'metrics'>): Promise<void> {
  makeFolderSync(config.dataDir, 0o700)
  const dataDir = mkdtempSync(join(config.dataDir, 'rehearsal-'))
  try {
    const log = runtime.log.child({}, { level: 'silent' })
    const apart = { ...runtime, log, metrics: looseCounters(), disk: undefined }
    const engine = await Engine.build({ ...config, dataDir }, apart)
    await engine.discard()
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}
