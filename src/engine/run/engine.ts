import { setMaxListeners } from 'node:events'
import { hostname } from 'node:os'
import { loadCodecs } from '../../core/codec.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import {
  type ComponentContext,
  type DestinationContext,
  type Kind,
  type Kinds,
  type Lifecycle,
  REPLACED,
  type SourceContext,
} from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { Origin } from '../../core/event/origin.js'
import { REJECTED } from '../../core/options/delivery-options.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import type { ComponentConfig } from '../config/load.js'
import { type ComponentCounters, sum } from '../flow/counters.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import type { Delivery, DeliveryState } from '../flow/delivery/delivery.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import { directly, finish, Input } from '../flow/fan-out.js'
import { SourceOutput, shareOf, undecodedCounter } from '../flow/source-output.js'
import { SteadyClock } from '../flow/steady-clock.js'
import type { WaitingBatches } from '../flow/waiting.js'
import { RejectedOutput } from './dead-letter/rejected-output.js'
import { openDeadLetters } from './dead-letter/stock.js'
import { HandoverStates } from './handover-states.js'
import { createOrHold } from './held-source.js'
import { Links } from './links.js'
import { destinationState } from './measure/delivery-report.js'
import { outageBefore, outagesOf } from './measure/outages.js'
import { type Watched, watched } from './measure/progress.js'
import { isOnHold } from './on-hold.js'
import { isOnlyCopied } from './only-copied.js'
import { openBuffer, openDelivery } from './open-delivery.js'
import { OwnOutputs } from './own-outputs.js'
import type { DestinationState, EngineConfig, EngineHandover, Runtime } from './runtime.js'
import { type Fed, readsAgain, type SourceFailure, SourceRun } from './source-run.js'
import { Stages } from './stages.js'
import { type CheckpointStore, openCheckpoints } from './state/checkpoints.js'
import { stateFolder } from './state/state-folder.js'
import { type Stuck, stuckOf } from './stuck.js'
import type { Taps } from './taps.js'

export type { DestinationState, EngineHandover, Runtime } from './runtime.js'

/** States in which a delivery is likely to finish soon. */
const DELIVERING: readonly DeliveryState[] = ['ready', 'refusing', 'stopped']

/** A component's context with the counters of the engine. */
type Wide = ComponentContext & { readonly metrics: ComponentCounters }

/**
 * Builds the topology of a configuration and runs it. Start: destinations, then sources; a destination that does not
 * accept events yet blocks only its own sources. Shutdown: sources stop, streams end one after the other, deliveries
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
  /** Once it is being replaced: whether a destination may leave its events to its successor. */
  #hasSuccessor: (id: string) => boolean = () => false
  /** Once it is being replaced: ids of components that have a successor with the same options. */
  #successors: ReadonlySet<string> | undefined
  readonly #links: Links
  readonly #sources: Fed[] = []
  /** Bytes that each source may have unacknowledged. */
  readonly #share: number
  /** Sources that keep running after this engine has ended. */
  readonly #left = new Map<string, SourceRun>()
  readonly #counters = new Map<string, ComponentCounters>()
  readonly #stages = new Stages()
  /** Processors and destinations, by id. */
  readonly #lasting = new Map<string, Lifecycle>()
  readonly #deliveries = new Map<string, Delivery>()
  /** The disk buffers of the destinations that have one. */
  readonly #buffers = new Map<string, DiskBuffer>()
  readonly #delivering = new AbortController()
  /** The parts that can get stuck. */
  readonly watched: Watched[] = []
  #failed = false

  private constructor(config: EngineConfig, runtime: Runtime, handover: EngineHandover | undefined) {
    this.#config = config
    this.#links = new Links(config, this.#lasting)
    this.#share = shareOf(config.sources.length)
    this.#runtime = runtime
    this.checkpoints = handover?.checkpoints ?? openCheckpoints(config.dataDir, runtime.log, runtime.clock)
    this.#wanted = handover?.wanted ?? new WantedNames()
    this.#outputs = handover?.outputs ?? new OwnOutputs()
    this.#outputs.connect(config)
    this.#handover = handover
    this.#wanted.clear()
    this.#wanted.isUnused = isOnlyCopied(config)
    // One listener and more per component is no leak.
    setMaxListeners(0, this.#delivering.signal)
  }

  /**
   * Creates every component; throws if one cannot be created. Nothing is read or sent yet. `handover` comes from the
   * previous engine, whose sources continue here.
   */
  static async build(config: EngineConfig, runtime: Runtime, handover?: EngineHandover): Promise<Engine> {
    const engine = new Engine(config, runtime, handover)
    try {
      for (const component of config.destinations) await engine.#addDestination(component)
      for (const component of config.processors) await engine.#addProcessor(component)
      for (const component of config.sources) await engine.#addSource(component)
      engine.#links.connect([...config.processors, ...config.destinations])
    } catch (error) {
      await engine.undo()
      throw error
    }
    return engine
  }

  /** Releases everything except what the next engine shares: counters and buffers. */
  async undo(): Promise<void> {
    for (const [id, counters] of this.#counters) if (!this.#handover?.sources.has(id)) counters.retire()
    for (const buffer of this.#buffers.values()) await buffer.close()
    const over = AbortSignal.abort()
    for (const component of this.#lasting.values()) await component.stop?.(over)
  }

  #context({ id, kind, type, reach, renamedFrom }: ComponentConfig): Wide {
    const { log, clock, processorClock = clock, metrics } = this.#runtime
    const counters = metrics.component(id, kind, type)
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

  async #create<K extends Kind>(config: ComponentConfig, context: Kinds[K]['context']): Promise<Kinds[K]['component']> {
    loadCodecs(config.options as object, config.reach)
    const definition = config.definition as { create: (o: unknown, c: unknown) => Kinds[K]['component'] }
    return definition.create(config.options, context)
  }

  async #addDestination(config: ComponentConfig): Promise<void> {
    const context: DestinationContext & Wide = {
      ...this.#context(config),
      stdout: this.#runtime.stdout,
      isAlone: this.#config.destinations.length === 1 && config.delivery!.buffer.type === 'memory',
      writes: stats => this.#outputs.writes(config.id, stats),
    }
    const destination = await this.#create<'destination'>(config, context)
    this.#lasting.set(config.id, destination)
    const buffer = await openBuffer(config, this.#config, this.#runtime, context, this.#wanted)
    if (buffer) this.#buffers.set(config.id, buffer)
    const deadLetter = this.#deadLetters(config.id, context)
    const outage = outageBefore(this.#handover?.outages, config)
    const delivery = openDelivery(config, destination, this.#runtime, { ...context, buffer, deadLetter, outage })
    context.metrics.holds = () => sum(delivery.inFlight(), buffer?.inFlight())
    delivery.once('close', () => this.#links.fanOut(`${config.id}.${REJECTED}`).end())
    this.#deliveries.set(config.id, delivery)
    this.#links.addInput(config.id, new Input(buffer ?? delivery, context.metrics))
    this.watched.push(watched(config.id, delivery, context.metrics))
    if (buffer) this.watched.push(watched(`${config.id} (its buffer)`, buffer, context.metrics))
  }

  /** Where rejected events of a destination go: to the readers of its side output, or else to a file. */
  #deadLetters(id: string, context: Wide): DeadLetters {
    const file = openDeadLetters(id, this.#config.dataDir, { ...context, disk: this.#runtime.disk })
    if (!this.#links.isRead(`${id}.${REJECTED}`)) return file
    return new RejectedOutput(this.#links.fanOut(`${id}.${REJECTED}`), this.#origin(id), context.clock)
  }

  async #addProcessor(config: ComponentConfig): Promise<void> {
    const { id } = config
    const { EventEditor } = await import('../../core/event/event-editor.js')
    const editor = () => new EventEditor(this.#wanted)
    const context = { ...this.#context(config), state: stateFolder(this.#config.dataDir, id, this.#runtime), editor }
    const { metrics } = context
    const processor = await this.#create<'processor'>(config, context)
    this.#lasting.set(id, processor)
    const again = (source: string) => readsAgain(source, this.#sources)
    const isOnce = (id: string) => this.#sources.some(({ run }) => run.config.id === id && run.source.once)
    const around = { ...context, origin: this.#origin(id), disk: this.#runtime.disk, readsAgain: again, isOnce }
    const stage = await this.#stages.add(config, processor, { ...around, dataDir: this.#config.dataDir })
    this.#links.addStage(id, stage, metrics)
    this.watched.push(watched(id, stage, metrics))
  }

  /** The origin of the events of a component. */
  #origin(source: string): Origin {
    return { source, host: hostname(), codec: JSON_OBJECTS, wanted: this.#wanted }
  }

  async #addSource(config: ComponentConfig<'source'>): Promise<void> {
    const fanOut = this.#links.fanOut(config.id)
    const known = this.#handover?.sources.get(config.id)
    if (known) {
      this.#counters.set(config.id, known.counters)
      this.#sources.push({ run: known, fanOut })
      return
    }
    const [base, origin] = [this.#context(config), this.#origin(config.id)]
    const context: SourceContext = {
      ...base,
      checkpoints: this.checkpoints.forSource(config.id),
      stdin: this.#runtime.stdin,
      isOwnOutput: (key, birth) => this.#outputs.isOwn(config.id, key, birth),
      origin: (codec, path) => {
        // Created now, so that the counter shows 0 before the first line.
        undecodedCounter(base.metrics, codec)
        return { ...origin, codec, ...(path === undefined ? {} : { path }) }
      },
    }
    const source = await createOrHold(() => this.#create<'source'>(config, context), context, this.#runtime.random)
    const output = new SourceOutput(fanOut, base.metrics, this.#share, source.once)
    const run = new SourceRun({ ...this.#runtime, config, source, output, counters: base.metrics })
    this.#sources.push({ run, fanOut })
  }

  /** Runs until every source has ended and every event is delivered, or until `stop` has completed. */
  async run(): Promise<void> {
    await this.#stages.start(this.#delivering.signal, (id, error) => this.#cannotStart('processor', id, error))
    if (this.#handover) this.#inherit(this.#handover.handoverStates.takeWaiting())
    const started = [...this.#deliveries].map(([id, delivery]) =>
      delivery.start(this.#delivering.signal).catch(error => this.#cannotStart('destination', id, error)),
    )
    const read = this.#sources.map(({ run, fanOut }) => {
      if (run.isHeld) run.output.attach(fanOut, this.#share)
      return run.feed(fanOut)
    })
    for (const [id, buffer] of this.#buffers) buffer.connect(directly(this.#deliveries.get(id)!))
    void Promise.all(started).then(() => this.#failed || this.#delivering.signal.aborted || this.#runtime.started?.())
    const finished = [...this.#stages.streams(), ...this.#deliveries.values()].map(finish)
    await Promise.all([Promise.all(started), Promise.all(read), Promise.all(finished)])
    const left = [...this.#deliveries].map(([id, delivery]) => [id, delivery.takeLeft()] as const)
    // What comes from a buffer stays there.
    for (const [id, batches] of left) if (this.#buffers.has(id)) for (const batch of batches) batch.giveBack()
    for (const buffer of this.#buffers.values()) await buffer.close()
    await this.checkpoints.flush()
    const over = this.#delivering.signal
    const undelivered = left.filter(([id]) => !this.#buffers.has(id))
    this.#handovers.waiting = this.#stages.takeLeft(this.#left, over.aborted, undelivered)
    // Events that were given back will be decided again, so they must not have been counted.
    const isExact = (id: string) => !over.aborted && !this.repeats(id)
    for (const [id, component] of this.#lasting)
      if (this.#successors?.has(id) && (isExact(id) || this.#stages.keeps(id))) this.#handovers.collect(id, component)
    await this.#stages.stop(over)
    for (const delivery of this.#deliveries.values()) await delivery.stop(over)
    for (const { run } of this.#sources) if (!this.#left.has(run.config.id)) await run.source.stop?.(over)
    // Save the changes made by stopping. After this no save is in progress and others may use data_dir.
    await this.checkpoints.flush()
    if (!this.#successors) this.checkpoints.close()
  }

  /** Passes on what the predecessors of components have left. */
  #inherit(waiting: WaitingBatches): void {
    for (const { id, renamedFrom = id } of this.#config.destinations)
      for (const { batch } of waiting.get(id) ?? waiting.get(renamedFrom) ?? [])
        this.#links.inherit(id, batch.renewed(this.#wanted))
    this.#stages.inherit(waiting, this.#wanted)
  }

  /** Handles a component that cannot start. Waiting would not help: the configuration cannot be carried out. */
  #cannotStart(kind: Kind, component: string, cause: unknown): void {
    const error = errorText(cause)
    this.#runtime.log.error({ component, error }, `${kind} cannot start`)
    this.#failed = true
    const { failed } = this.#runtime
    if (failed) failed(new Error(`${kind} ${component} cannot start: ${error}`, { cause }))
    else this.abort()
  }

  /** Stops reading. Delivers what was read until `deadline` aborts, which is in `timeoutMs`. */
  stop(deadline: AbortSignal, timeoutMs = this.#config.shutdownTimeoutMs): void {
    this.#endSources()
    this.#stages.giveBack()
    // This leaves time to finish what is in progress. The rest is safe in the buffers until the next start.
    for (const buffer of this.#buffers.values()) buffer.restAfter(timeoutMs / 2)
    this.#abortAt(deadline)
  }

  /**
   * Stops for a replacement. Sources among the `same` components pause for the next engine; the other `same` components
   * pass state to their successors. Buffers whose destination `emptied` accepts deliver their events; the other buffers
   * are passed on as they are.
   */
  leave(same: ReadonlySet<string>, emptied: (id: string) => boolean, deadline: AbortSignal, next?: EngineConfig): void {
    this.#successors = same
    for (const { run } of this.#sources) {
      if (!same.has(run.config.id)) continue
      this.#left.set(run.config.id, run)
      run.leave()
    }
    this.#endSources(REPLACED)
    this.#stages.leave(same, next?.processors ?? [], this.#left)
    for (const [id, buffer] of this.#buffers) if (!emptied(id)) buffer.restAfter(0)
    this.#hasSuccessor = id =>
      this.#buffers.has(id)
        ? !emptied(id)
        : next?.destinations.some(to => [to.id, to.renamedFrom].includes(id)) === true
    this.leaveFailing()
    this.#abortAt(deadline)
  }

  /**
   * While it is being replaced: destinations that do not deliver leave what they have to their successors. `all`: those
   * that deliver, too.
   */
  leaveFailing(all = false): void {
    for (const [id, delivery] of this.#deliveries)
      if ((all || !DELIVERING.includes(delivery.state)) && this.#hasSuccessor(id)) delivery.leave()
  }

  /** Ends the attempts of destinations that leave. Returns whether there are any. */
  cutAttempts(): boolean {
    return [...this.#deliveries.values()].filter(delivery => delivery.cut()).length > 0
  }

  #abortAt(deadline: AbortSignal): void {
    if (deadline.aborted) this.abort()
    else deadline.addEventListener('abort', () => this.abort(), { once: true })
  }

  /** Ends immediately. Undelivered events are read again after the next start. */
  abort(): void {
    this.#endSources()
    this.#delivering.abort()
    for (const { run } of this.#sources) if (!this.#left.has(run.config.id)) run.output.close()
    this.#stages.destroy()
    for (const buffer of this.#buffers.values()) buffer.destroy()
    for (const delivery of this.#deliveries.values()) delivery.destroy()
  }

  #endSources(reason?: typeof REPLACED): void {
    for (const { run } of this.#sources) if (!this.#left.has(run.config.id)) run.end(reason)
  }

  /** After a run that `leave` has ended: what the next engine needs. */
  handover(): EngineHandover {
    for (const [id, counters] of this.#counters) if (!this.#left.has(id)) counters.retire()
    const ended = this.#config.sources.filter(({ id }) => !this.#left.has(id))
    this.checkpoints.release(ended.map(({ id }) => id))
    for (const { output } of this.#left.values()) output.giveUp(this.#delivering.signal.aborted)
    const outages = outagesOf(this.#config.destinations, this.#deliveries)
    return { ...this.#shared, sources: this.#left, handoverStates: this.#handovers, outages }
  }

  /** Releases everything, without a run. */
  async discard(): Promise<void> {
    this.abort()
    for (const buffer of this.#buffers.values()) await buffer.close()
    const over = this.#delivering.signal
    await this.#stages.stop(over)
    for (const delivery of this.#deliveries.values()) await delivery.stop(over)
    for (const { run } of this.#sources) await run.source.stop?.(over)
    this.checkpoints.close()
  }

  get #shared() {
    return { checkpoints: this.checkpoints, wanted: this.#wanted, outputs: this.#outputs }
  }

  /** Whether a component, or its successor, will receive again what it has seen; default: whether any will. */
  repeats(id?: string): boolean {
    const reaches = (source: string) => id === undefined || this.#outputs.reaches(source, id)
    return this.#sources.some(({ run }) => run.output.repeats && reaches(run.config.id))
  }

  get taps(): Taps {
    return this.#links.taps
  }

  /** Whether the run ended because a component could not start. */
  get failed(): boolean {
    return this.#failed
  }

  /** What a reload would wait for in vain; undefined: nothing. */
  stuck(): Stuck | undefined {
    return stuckOf(this.#deliveries.values(), this.#buffers.values(), this.#stages)
  }

  /** During a shutdown: whether the remaining events cannot be delivered in `leftMs` and are safe anyway. */
  isOnHold(leftMs: number): boolean {
    return isOnHold(this.#deliveries, this.#buffers, this.#sources, leftMs)
  }

  /** The current state of each destination; the daemon is ready when all of them are. */
  states(): DestinationState[] {
    return [...this.#deliveries].map(([id, delivery]) => destinationState(id, delivery, this.#runtime.clock))
  }

  failures(): SourceFailure[] {
    return this.#sources.flatMap(({ run }) => run.failure ?? [])
  }

  /** Number of events read and not settled. The next start reads them again if the source can. */
  undelivered(): number {
    let events = 0
    for (const one of this.#runtime.metrics.components.values()) events += one.held().events + one.toRead.events
    return events + this.between()
  }

  /** Number of events on their way from one component to the next. */
  between(): number {
    return this.#links.between()
  }
}
