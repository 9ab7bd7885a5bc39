export type { DestinationState } from '../../core/status-document.js'

import { setMaxListeners } from 'node:events'
import { hostname } from 'node:os'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import {
  type ComponentContext,
  type DestinationContext,
  type Kind,
  type Lifecycle,
  REPLACED,
  type SourceContext,
  type StateFolder,
} from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { Origin } from '../../core/event/origin.js'
import { REJECTED } from '../../core/options/delivery-options.js'
import type { DestinationState, SourceFailure } from '../../core/status-document.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import type { ComponentConfig } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import type { DeliveryState } from '../flow/delivery/delivery.js'
import { shareOf, undecodedCounter } from '../flow/source-output.js'
import { SteadyClock } from '../flow/steady-clock.js'
import type { WaitingBatches } from '../flow/waiting.js'
import { isOnHold, type Stuck, stuckOf } from './blocked.js'
import { createComponent } from './create-component.js'
import { openDeadLetters, RejectedOutput } from './dead-letter/queue.js'
import { DestinationRun, destinationState } from './destination-run.js'
import type { EngineHandover } from './handover.js'
import { HandoverStates } from './handover-states.js'
import { isRead, Links } from './links.js'
import { outageBefore, outagesOf } from './measure/outages.js'
import { movedBy, type Watched } from './measure/progress.js'
import { showWaits } from './measure/wait-facts.js'
import type { Flow } from './measure/waits.js'
import { OwnOutputs } from './own-outputs.js'
import type { EngineConfig, Runtime } from './runtime.js'
import type { ConfigComparison } from './same-components.js'
import { type Fed, SourceRun } from './source-run.js'
import { type Fate, Stages } from './stages.js'
import { CheckpointStore } from './state/checkpoints.js'
import { type DataKind, pathOf } from './state/inventory.js'

export type { EngineHandover } from './handover.js'
export type { Runtime } from './runtime.js'

/** States in which a delivery is likely to finish soon. */
const DELIVERING: readonly DeliveryState[] = ['ready', 'refusing', 'stopped']

/** If there are more field names than this, every destination ends at a reload, so that unused names are forgotten. */
const MOST_NAMES = 200

/** A component's context with the counters of the engine. */
type Wide = ComponentContext & { readonly metrics: ComponentCounters }

/**
 * Builds the topology of a configuration and runs it. Destinations start first, then sources. If a destination does not
 * accept events yet, only its own sources wait. On shutdown, sources stop, streams end one after the other, deliveries
 * finish within the time allowed, checkpoints are written, and finally destinations release their resources.
 */
export class Engine {
  readonly #config: EngineConfig
  readonly #runtime: Runtime
  readonly checkpoints: CheckpointStore
  readonly #wanted: WantedNames
  readonly #outputs: OwnOutputs
  readonly #handover: EngineHandover | undefined
  readonly #handovers = new HandoverStates()
  /** Set when the engine is replaced: whether a destination may pass its events to its successor. */
  #hasSuccessor: (id: string) => boolean = () => false
  /** Set when the engine is replaced: ids of components that have a successor with the same options. */
  #successors: ReadonlySet<string> | undefined
  readonly links: Links
  readonly #sources = new Map<string, Fed>()
  /** Maximum number of unacknowledged bytes of each source. */
  readonly #share: number
  /** Sources that keep running after this engine has ended. */
  readonly #left = new Map<string, SourceRun>()
  readonly #destinations = new Map<string, DestinationRun>()
  /** Destinations that keep running after this engine has ended. */
  readonly #leftDestinations = new Map<string, DestinationRun>()
  readonly #counters = new Map<string, ComponentCounters>()
  readonly #stages = new Stages()
  /** Processors and destinations, by id. */
  readonly #lasting = new Map<string, Lifecycle>()
  readonly #delivering = new AbortController()
  readonly watched: Watched[] = []
  /** Whether the run ended because a component could not start. */
  failed = false
  /** Processors and destinations that had not ended when the run was aborted. */
  readonly #cut = new Set<string>()

  private constructor(config: EngineConfig, runtime: Runtime, handover: EngineHandover | undefined) {
    this.#config = config
    this.links = new Links(config)
    this.#share = shareOf(config.sources.length)
    this.#runtime = runtime
    this.checkpoints = handover?.checkpoints ?? new CheckpointStore(config.dataDir, runtime.log, runtime.clock)
    this.#wanted = handover?.wanted ?? new WantedNames()
    this.#outputs = handover?.outputs ?? new OwnOutputs()
    this.#outputs.connect(config)
    this.#handover = handover
    // Clears the names only if no component keeps running, because running components use the slots of these names.
    if (!handover || handover.destinations.size === 0) this.#wanted.clear()
    this.#wanted.isUnused = isOnlyCopied(config)
    const users = [...config.processors, ...config.destinations]
    this.#wanted.areIdsUsed = users.some(({ definition, options }) => definition.usesIds?.(options))
    // Every component adds listeners, which is not a leak.
    setMaxListeners(0, this.#delivering.signal)
  }

  /**
   * Creates every component. Throws if one cannot be created. Does not read or send anything yet. `handover` comes from
   * the previous engine, some of whose components continue here.
   */
  static async build(config: EngineConfig, runtime: Runtime, handover?: EngineHandover): Promise<Engine> {
    const engine = new Engine(config, runtime, handover)
    try {
      for (const component of config.destinations) await engine.#addDestination(component)
      for (const component of config.processors) await engine.#addProcessor(component)
      for (const component of config.sources) await engine.#addSource(component)
      engine.links.connect([...config.processors, ...config.destinations])
    } catch (error) {
      await engine.undo()
      throw error
    }
    return engine
  }

  /** Undoes `build`. Releases everything except the components in `handover`, which the next engine takes over. */
  async undo(): Promise<void> {
    const { sources, destinations } = this.#handover ?? {}
    const isShared = (id: string) => sources?.has(id) || destinations?.has(id)
    for (const [id, counters] of this.#counters) if (!isShared(id)) counters.retire()
    for (const [id, { buffer }] of this.#destinations) if (!destinations?.has(id)) await buffer?.close()
    const over = AbortSignal.abort()
    for (const [id, component] of this.#lasting) if (!isShared(id)) await component.stop?.(over)
  }

  #context(config: ComponentConfig): Wide {
    const { id, kind, type, reach, renamedFrom } = config
    const { log, clock, processorClock = clock, metrics, waits } = this.#runtime
    const counters = metrics.component(id, kind, type)
    if (waits) showWaits(counters, config, () => waits.all)
    this.#counters.set(id, counters)
    return {
      id,
      log: log.child({ component: id }),
      clock: kind === 'processor' ? new SteadyClock(processorClock) : clock,
      metrics: counters,
      reach,
      inherited: this.#handover?.handoverStates.take(id, renamedFrom),
      field: path => new FieldReader(path, this.#wanted),
    }
  }

  async #addDestination(config: ComponentConfig): Promise<void> {
    const { id } = config
    const run = this.#handover?.destinations.get(id) ?? (await this.#openDestination(config))
    run.input.attach()
    this.#counters.set(id, run.counters)
    this.#lasting.set(id, run.destination)
    this.#destinations.set(id, run)
    this.links.addDestination(id, run)
    this.watched.push(...run.watched)
  }

  async #openDestination(config: ComponentConfig): Promise<DestinationRun> {
    const { id } = config
    const context: DestinationContext & Wide = {
      ...this.#context(config),
      stdout: this.#runtime.stdout,
      ...(config.definition.spools && { state: stateFolder(this.#config.dataDir, 'spool', id, this.#runtime) }),
      isAlone: isAlone(config, this.#config),
      writes: stats => this.#outputs.writes(id, stats),
    }
    const destination = await createComponent<'destination'>(config, context)
    // Registers the processor now, so that it is released if a later step fails.
    this.#lasting.set(id, destination)
    const deadLetter = this.#deadLetters(id, context)
    const outage = outageBefore(this.#handover?.outages, config)
    const parts = { ...context, deadLetter, outage, dataDir: this.#config.dataDir, wanted: this.#wanted }
    const run = await DestinationRun.open(config, destination, this.#runtime, parts)
    run.delivery.once('close', () => this.links.fanOut(`${id}.${REJECTED}`).end())
    return run
  }

  /** Where rejected events of a destination go: to the readers of its side output or, if there are none, to a file. */
  #deadLetters(id: string, context: Wide): DeadLetters {
    const file = openDeadLetters(id, this.#config.dataDir, { ...context, disk: this.#runtime.disk })
    if (!isRead(`${id}.${REJECTED}`, this.#config)) return file
    return new RejectedOutput(this.links.fanOut(`${id}.${REJECTED}`), this.#origin(id), context.clock)
  }

  async #addProcessor(config: ComponentConfig): Promise<void> {
    const { id } = config
    const { EventEditor } = await import('../../core/event/event-editor.js')
    const editor = () => new EventEditor(this.#wanted)
    const context = {
      ...this.#context(config),
      state: stateFolder(this.#config.dataDir, 'buckets', id, this.#runtime),
      editor,
    }
    const processor = await createComponent<'processor'>(config, context)
    // Registers the processor now, so that it is released if a later step fails.
    this.#lasting.set(id, processor)
    const isOnce = (id: string) => this.#isOnce(id)
    const readsAgain = (id: string) => this.#sources.has(id) && !isOnce(id)
    const { dataDir } = this.#config
    const around = { ...context, origin: this.#origin(id), disk: this.#runtime.disk, readsAgain, isOnce, dataDir }
    const run = await this.#stages.create(config, processor, around, output => isRead(output, this.#config))
    this.links.addProcessor(run)
    this.watched.push(run.watched)
  }

  #isOnce(source: string): boolean {
    return this.#sources.get(source)?.run.source?.once === true
  }

  #origin(source: string): Origin {
    return { source, host: hostname(), codec: JSON_OBJECTS, wanted: this.#wanted }
  }

  async #addSource(config: ComponentConfig<'source'>): Promise<void> {
    const fanOut = this.links.fanOut(config.id)
    const known = this.#handover?.sources.get(config.id)
    if (known) {
      this.#counters.set(config.id, known.counters)
      this.#sources.set(config.id, { run: known, fanOut })
      return
    }
    const [base, origin] = [this.#context(config), this.#origin(config.id)]
    const checkpoints = this.checkpoints.forSource(config.id)
    base.metrics.fact(checkpoints.fact)
    const context: SourceContext = {
      ...base,
      checkpoints,
      stdin: this.#runtime.stdin,
      isOwnOutput: (key, birth) => this.#outputs.isOwn(config.id, key, birth),
      origin: (codec, path) => {
        // Creates the counter now, since it must show 0 before the first line.
        undecodedCounter(base.metrics, codec)
        return { ...origin, codec, ...(path === undefined ? {} : { path }) }
      },
    }
    const create = () => createComponent<'source'>(config, context)
    const parts = { config, create, context, fanOut, share: this.#share, counters: base.metrics }
    this.#sources.set(config.id, { run: await SourceRun.open({ ...this.#runtime, ...parts }), fanOut })
  }

  /** Runs until every source has ended and every event is delivered, or until `stop` has completed. */
  async run(): Promise<void> {
    await this.#stages.start(
      this.#delivering.signal,
      (id, error) => this.#cannotStart('processor', id, error),
      this.#handover?.handoverStates.dueAt,
    )
    if (this.#handover) this.#inherit(this.#handover.handoverStates.takeWaiting())
    const delivered = [...this.#destinations].map(([id, run]) =>
      run.run({
        started: () => this.#destinationStarted(),
        failed: error => this.#cannotStart('destination', id, error),
      }),
    )
    const read = [...this.#sources.values()].map(({ run, fanOut }) => {
      if (run.output.isHeld) run.output.attach(fanOut, this.#share)
      return run.feed(fanOut)
    })
    await Promise.all([...read, this.#stages.run(), ...delivered])
    const ended = this.#endingDestinations()
    const left = ended.map(([id, { delivery }]) => [id, delivery.takeLeft()] as const)
    // A disk buffer still has its destination's undelivered events, so their batches are given back, not passed on.
    for (const [id, batches] of left)
      if (this.#destinations.get(id)!.buffer) for (const batch of batches) batch.giveBack()
    for (const [, { buffer }] of ended) await buffer?.close()
    const undelivered = left.filter(([id]) => !this.#destinations.get(id)!.buffer)
    this.#handovers.waiting = this.#takeLeft(undelivered)
    await this.checkpoints.flush()
    const over = this.#delivering.signal
    // Events that were given back will be decided again. A state that already counts them must not be passed on.
    for (const [id, component] of this.#lasting)
      if (!this.#keepsRunning(id) && this.#successors?.has(id) && (!this.#repeats(id) || this.#stages.keeps(id)))
        this.#handovers.collect(id, component)
    for (const { config, stage } of this.#stages.all())
      if (stage.dueAt !== undefined && stage.isReplaced) this.#handovers.dueAt.set(config.id, stage.dueAt)
    await this.#stages.stop(over)
    for (const [, { delivery }] of ended) await delivery.stop(over)
    for (const { run } of this.#sources.values()) if (!this.#left.has(run.config.id)) await run.source?.stop?.(over)
    // Saves what stopping has changed. After this no save is in progress, and others may use data_dir.
    await this.checkpoints.flush()
    if (!this.#successors) this.checkpoints.close()
  }

  #keepsRunning(id: string): boolean {
    return this.#left.has(id) || this.#leftDestinations.has(id)
  }

  /** Whether an aborted run has given back events of a source. */
  #isCut(source: string): boolean {
    return [...this.#cut].some(id => this.#outputs.reaches(source, id))
  }

  /** Takes the events that wait for successors. */
  #takeLeft(deliveries: readonly (readonly [string, readonly EventBatch[]])[]): WaitingBatches {
    // If a source ends and cannot read its events again, the events must wait for the successor. Nobody would resend
    // them.
    const mayWait = (id: string) => {
      const stays = this.#left.get(id)
      return stays ? !stays.output.repeats : this.#isOnce(id)
    }
    return this.#stages.takeLeft(({ origin }: EventBatch): Fate => {
      const sources = this.#sourcesOf(origin)
      if (sources.length === 0 || sources.some(id => this.#isCut(id))) return 'given_back'
      if (sources.every(mayWait)) return 'passed_on'
      return !this.#sources.has(origin.source) && sources.some(id => this.#isOnce(id)) ? 'both' : 'given_back'
    }, deliveries)
  }

  /** The sources of a batch's events; for events that a processor made, all sources that reach it. */
  #sourcesOf({ source: id }: Origin): string[] {
    if (this.#sources.has(id)) return [id]
    if (!this.#config.processors.some(processor => processor.id === id)) return []
    return [...this.#sources.keys()].filter(source => this.#outputs.reaches(source, id))
  }

  #endingDestinations(): (readonly [string, DestinationRun])[] {
    return [...this.#destinations].filter(([id]) => !this.#leftDestinations.has(id))
  }

  #destinationStarted(): void {
    if (this.failed || this.#delivering.signal.aborted) return
    if (this.hasStarted) this.#runtime.started?.()
  }

  get hasStarted(): boolean {
    return !this.failed && [...this.#destinations.values()].every(({ hasStarted }) => hasStarted)
  }

  /** Passes on the events that the components' predecessors left. */
  #inherit(waiting: WaitingBatches): void {
    for (const { id, renamedFrom = id } of this.#config.destinations)
      for (const { batch } of waiting.get(id) ?? waiting.get(renamedFrom) ?? []) {
        batch.renew()
        this.links.inherit(id, batch)
      }
    this.#stages.inherit(waiting)
  }

  /** Handles a component that cannot start. The configuration cannot run, so waiting would not help. */
  #cannotStart(kind: Kind, component: string, cause: unknown): void {
    const error = errorText(cause)
    this.#runtime.log.error({ component, error }, `${kind} cannot start`)
    this.failed = true
    const { failed } = this.#runtime
    if (failed) failed(new Error(`${kind} ${component} cannot start: ${error}`, { cause }))
    else this.abort()
  }

  /** Stops reading. Until `deadline` aborts (`timeoutMs` from now), delivers the events read so far. */
  stop(deadline: AbortSignal, timeoutMs = this.#config.shutdownTimeoutMs): void {
    this.#endSources()
    this.#stages.giveBack()
    // Buffers stop early, to leave time for requests in progress. Remaining events stay safe until the next start.
    for (const { buffer, delivery } of this.#destinations.values()) {
      buffer?.restAfter(timeoutMs / 2)
      delivery.rest()
    }
    this.#abortAt(deadline)
  }

  /**
   * Stops for a replacement. The `same` sources pause for the next engine. The `same` destinations keep running, unless
   * one of their sources ends. All other components pass their state to successors with the same options. If `emptied`
   * returns true for an ending destination, its buffer first delivers its events. All other buffers are passed on
   * unchanged.
   */
  leave(
    { same, succeeded }: Pick<ConfigComparison, 'same' | 'succeeded'>,
    emptied: (id: string) => boolean,
    deadline: AbortSignal,
    next: EngineConfig,
  ): void {
    this.#successors = succeeded
    for (const { run } of this.#sources.values()) {
      if (!same.has(run.config.id)) continue
      this.#left.set(run.config.id, run)
      run.leave()
    }
    for (const [id, run] of this.#destinations) {
      if (!same.has(id) || !this.#canStay(run, next)) continue
      this.#leftDestinations.set(id, run)
      run.leave()
    }
    this.#endSources(REPLACED)
    this.#stages.leave(succeeded, next, this.#left)
    const isSucceeded = (id: string) => next.destinations.some(to => [to.id, to.renamedFrom].includes(id))
    for (const [id, { buffer, delivery }] of this.#endingDestinations()) {
      if (!emptied(id)) buffer?.restAfter(0)
      if (isSucceeded(id)) delivery.rest()
    }
    this.#hasSuccessor = id => (this.#destinations.get(id)!.buffer ? !emptied(id) : isSucceeded(id))
    this.leaveFailing()
    this.#abortAt(deadline)
  }

  /**
   * Whether a destination can keep running with the next configuration. If one of its sources has ended, the
   * destination must end, too, because its undelivered events would be sent again.
   */
  #canStay(run: DestinationRun, next: EngineConfig): boolean {
    const { id } = run.config
    const rejected = `${id}.${REJECTED}`
    const isFed = (source: string) => this.#outputs.reaches(source, id)
    return (
      run.canStay &&
      this.#wanted.names.length <= MOST_NAMES &&
      isAlone(run.config, this.#config) === isAlone(run.config, next) &&
      !isRead(rejected, this.#config) &&
      !isRead(rejected, next) &&
      [...this.#sources.values()].every(({ run: { config } }) => this.#left.has(config.id) || !isFed(config.id))
    )
  }

  /**
   * During a replacement: a destination that does not deliver passes its events to its successor. With `all`,
   * delivering destinations also do this.
   */
  leaveFailing(all = false): void {
    for (const [id, { delivery }] of this.#endingDestinations())
      if ((all || !DELIVERING.includes(delivery.state)) && this.#hasSuccessor(id)) delivery.leave()
  }

  /** Ends the attempts of destinations that pass on their events. Returns whether there were any attempts. */
  cutAttempts(): boolean {
    return this.#endingDestinations().filter(([, { delivery }]) => delivery.cut()).length > 0
  }

  #abortAt(deadline: AbortSignal): void {
    if (deadline.aborted) this.abort()
    else deadline.addEventListener('abort', () => this.abort(), { once: true })
  }

  /** Ends at once. Undelivered events are read again after the next start. */
  abort(): void {
    this.#endSources()
    for (const { config, stage } of this.#stages.all()) if (!stage.closed) this.#cut.add(config.id)
    for (const [id, { delivery }] of this.#endingDestinations()) if (!delivery.closed) this.#cut.add(id)
    this.#delivering.abort()
    for (const { run } of this.#sources.values()) if (!this.#left.has(run.config.id)) run.output.close()
    this.#stages.destroy()
    for (const [, run] of this.#endingDestinations()) run.abort()
  }

  #endSources(reason?: typeof REPLACED): void {
    for (const { run } of this.#sources.values()) if (!this.#left.has(run.config.id)) run.end(reason)
  }

  /** Returns the state for the next engine. Call it when the run has ended after `leave`. */
  handover(): EngineHandover {
    for (const [id, counters] of this.#counters) if (!this.#keepsRunning(id)) counters.retire()
    const ended = this.#config.sources.filter(({ id }) => !this.#left.has(id))
    this.checkpoints.release(ended.map(({ id }) => id))
    for (const [id, { output }] of this.#left) output.giveUp(this.#isCut(id))
    // Events made from the events of an ended source may still wait for a successor.
    for (const { id } of ended) this.#sources.get(id)?.run.output.giveUp()
    return {
      checkpoints: this.checkpoints,
      wanted: this.#wanted,
      outputs: this.#outputs,
      sources: this.#left,
      destinations: this.#leftDestinations,
      handoverStates: this.#handovers,
      outages: outagesOf(this.#destinations.values()),
    }
  }

  /** Releases everything. For an engine that did not run. */
  async discard(): Promise<void> {
    this.abort()
    for (const { buffer } of this.#destinations.values()) await buffer?.close()
    const over = this.#delivering.signal
    await this.#stages.stop(over)
    for (const { delivery } of this.#destinations.values()) await delivery.stop(over)
    for (const { run } of this.#sources.values()) await run.source?.stop?.(over)
    this.checkpoints.close()
  }

  /** Whether a component's successor will receive events that the component has already received. */
  #repeats(id: string): boolean {
    return [...this.#sources].some(
      ([source, { run }]) => this.#outputs.reaches(source, id) && (run.output.repeats || this.#isCut(source)),
    )
  }

  /** The components that would block a reload; undefined if none would. */
  stuck(): Stuck | undefined {
    const ending = this.#endingDestinations().map(([, run]) => run)
    return stuckOf(ending, this.#stages)
  }

  /** During a shutdown: whether the remaining events are safe but cannot be delivered in the remaining `leftMs`. */
  isOnHold(leftMs: number): boolean {
    return isOnHold([...this.#destinations.values()], [...this.#sources.values()], leftMs)
  }

  /** The current state of each destination. The daemon is ready when all are ready. */
  states(): DestinationState[] {
    return [...this.#destinations.values()].map(run => destinationState(run, this.#runtime.clock))
  }

  failures(): SourceFailure[] {
    return [...this.#sources.values()].flatMap(({ run }) => run.failure ?? [])
  }

  /** The components, for WaitWatch. */
  flow(): Flow {
    const sources = [...this.#sources].map(([id, { run }]) => {
      return { id, moved: () => movedBy(run.counters), owes: () => true, isBlocked: () => run.output.blocked > 0 }
    })
    const processors = this.#stages.all().map(({ config: { id }, stage, counters }) => {
      const holds = () => !stage.isBlocked && stage.holds().events > 0
      const owes = () => stage.isBlocked || stage.waiting.events === 0
      return { id, moved: () => movedBy(counters), owes, holds }
    })
    const destinations = [...this.#destinations].map(([id, { delivery, buffer, counters }]) => {
      const isOf = (source?: string) => (batch: EventBatch) => !source || this.#sourcesOf(batch.origin).includes(source)
      const holds = (source?: string) => buffer?.writableNeedDrain ?? delivery.batches.some(isOf(source))
      // If it is ready but makes no attempt, its events wait only for more events, to be sent together.
      const isIdle = () => delivery.state === 'ready' && !delivery.outage.isAttempting
      const owes = () => buffer !== undefined || !isIdle() || delivery.batches.length === 0
      return { id, moved: () => movedBy(counters), owes, holds }
    })
    const reaches = (source: string, id: string) => this.#outputs.reaches(source, id)
    return { sources, readers: [...processors, ...destinations], reaches }
  }

  /**
   * Number of events that were read but not settled. If a source can read its events again, it does so after the next
   * start.
   */
  undelivered(): number {
    let events = 0
    for (const one of this.#runtime.metrics.components.values()) events += one.held().events + one.toRead.events
    return events + this.between()
  }

  between(): number {
    return this.links.between()
  }
}

/** Whether the destination may block the process: it is the only destination and has no disk buffer. */
function isAlone({ delivery }: ComponentConfig, { destinations }: EngineConfig): boolean {
  return destinations.length === 1 && delivery!.buffer.type === 'memory'
}

/**
 * The folder for a component's state. Undefined with a `processorClock`, whose times have no meaning in a later run.
 */
function stateFolder(
  dataDir: string,
  kind: DataKind,
  id: string,
  { disk, processorClock }: Runtime,
): StateFolder | undefined {
  if (processorClock) return undefined
  const path = pathOf(dataDir, kind, id)
  return {
    path,
    hasRoom: bytes => disk?.hasRoom(bytes, kind !== 'spool') ?? true,
    // This callback releases nothing, because a component needs all of its state.
    count: (bytes, isLast) => disk?.count(path, bytes, isLast ? undefined : () => {}),
  }
}

/** Whether all components copy lines unchanged and inspect no fields. If so, lines need not be decoded. */
function isOnlyCopied({ processors, destinations }: EngineConfig): boolean {
  return [...processors, ...destinations].every(({ definition, options, delivery }) => {
    const copies = definition.copiesLines?.(options) === true
    const fields = definition.usesFields?.(options) ?? []
    // Lines must be decoded for a disk buffer, since its records say which lines were decoded.
    return copies && fields.length === 0 && delivery?.buffer.type !== 'disk'
  })
}
