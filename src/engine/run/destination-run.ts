import { codecsIn } from '../../core/codec.js'
import type { ComponentContext, Destination } from '../../core/component.js'
import { labelWords } from '../../core/errors.js'
import type { DestinationState } from '../../core/status-document.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import { LogLimit } from '../../lib/log-limit.js'
import type { Clock } from '../../lib/time.js'
import type { ComponentConfig } from '../config/load.js'
import { type ComponentCounters, sum } from '../flow/counters.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import type { OutageState } from '../flow/delivery/attempts.js'
import { Delivery } from '../flow/delivery/delivery.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import { folderOnDisk } from '../flow/disk-buffer/files.js'
import { directly, finish, Input } from '../flow/fan-out.js'
import type { FateObserver } from '../flow/fates.js'
import { type Watched, watched } from './measure/progress.js'
import type { Runtime } from './runtime.js'
import { pathOf } from './state/inventory.js'

interface DestinationParts extends Pick<ComponentContext, 'log'> {
  readonly metrics: ComponentCounters
  readonly deadLetter: DeadLetters
  readonly outage: OutageState | undefined
  readonly dataDir: string
  readonly wanted: WantedNames
}

export interface DestinationEvents {
  started(): void
  failed(error: unknown): void
}

/** A destination with its delivery and disk buffer. It can keep running while components before it are replaced. */
export class DestinationRun {
  readonly config: ComponentConfig
  readonly destination: Destination
  readonly delivery: Delivery
  readonly buffer: DiskBuffer | undefined
  readonly counters: ComponentCounters
  readonly input: Input
  /** The parts that can get stuck. */
  readonly watched: readonly Watched[]
  readonly #ending = new AbortController()
  #state: 'new' | 'starts' | 'started' | 'failed' | 'ended' = 'new'
  #failure: unknown
  #events: DestinationEvents | undefined
  /** Lets `run` return. */
  #leave: (() => void) | undefined

  private constructor(
    config: ComponentConfig,
    destination: Destination,
    delivery: Delivery,
    buffer: DiskBuffer | undefined,
    counters: ComponentCounters,
  ) {
    this.config = config
    this.destination = destination
    this.delivery = delivery
    this.buffer = buffer
    this.counters = counters
    this.input = new Input(buffer ?? delivery, counters)
    counters.holds = () => sum(delivery.inFlight(), buffer?.inFlight())
    this.watched = [
      watched(config.id, delivery, counters),
      ...(buffer ? [watched(`${config.id} (its buffer)`, buffer, counters)] : []),
    ]
  }

  static async open(
    config: ComponentConfig,
    destination: Destination,
    runtime: Runtime,
    parts: DestinationParts,
  ): Promise<DestinationRun> {
    const { id, options } = config
    const { clock, random, requests } = runtime
    const { log, metrics, deadLetter, outage } = parts
    const buffer = await openBuffer(config, runtime, parts)
    reportLeftOut(options as object, { log, clock, metrics })
    const counters = {
      received: (events: number, bytes: number) =>
        buffer ? buffer.takenUp(events, bytes) : metrics.took(events, bytes),
      found: (events: number, bytes: number) => metrics.found(events, bytes),
      sent: (events: number, bytes: number) => metrics.sent(events, bytes),
      discarded: (reason: string, events: number, bytes: number) => metrics.discarded(reason, events, bytes),
      failed: (kind: string) => metrics.failed(kind),
    }
    const context = { id, log, clock, random, requests, metrics, deadLetter, counters, outage }
    const delivery = new Delivery(destination, config.delivery!, context)
    return new DestinationRun(config, destination, delivery, buffer, metrics)
  }

  set observer(observer: FateObserver | undefined) {
    this.delivery.observer = observer
    if (this.buffer) this.buffer.observer = observer
  }

  get hasStarted(): boolean {
    return this.#state === 'started'
  }

  /** Whether the destination can keep running while the components before it are replaced. */
  get canStay(): boolean {
    return (this.#state === 'starts' || this.#state === 'started') && !this.input.isEnded && !this.delivery.isLeaving
  }

  /** Runs until all its events are delivered or until `leave`. After `leave`, the next engine calls `run` to resume. */
  async run(events: DestinationEvents): Promise<void> {
    // Objects that live as long as the destination must not refer to an engine that has ended (see SourceRun.feed).
    const left = new Promise<void>(resolve => {
      this.#leave = resolve
    })
    this.#events = events
    if (this.#state === 'new') this.#begin()
    else if (this.#state === 'started') events.started()
    else if (this.#state === 'failed') events.failed(this.#failure)
    else if (this.#state === 'ended') this.#leave?.()
    await left
  }

  #begin(): void {
    this.#state = 'starts'
    const { delivery } = this
    const started = () => {
      if (this.#state === 'starts') this.#state = 'started'
      this.#events?.started()
    }
    const failed = (error: unknown) => {
      this.#state = 'failed'
      this.#failure = error
      this.#events?.failed(error)
    }
    const start = delivery.start(this.#ending.signal).then(started, failed)
    this.buffer?.connect(directly(delivery))
    void Promise.all([start, finish(delivery)]).then(() => {
      this.#state = 'ended'
      this.#leave?.()
    })
  }

  /** Prepares for the replacement of the components before it. */
  leave(): void {
    this.input.detach()
    this.#events = undefined
    this.#leave?.()
  }

  abort(): void {
    this.#ending.abort()
    this.buffer?.destroy()
    this.delivery.destroy()
  }

  /** Ends at once and releases everything. */
  async end(): Promise<void> {
    this.abort()
    await this.buffer?.close()
    await this.delivery.stop(this.#ending.signal)
  }
}

async function openBuffer(
  { id, delivery, definition, options }: ComponentConfig,
  runtime: Runtime,
  { log, metrics, dataDir, wanted }: DestinationParts,
): Promise<DiskBuffer | undefined> {
  const { buffer } = delivery!
  if (buffer.type === 'memory') return undefined
  const { DiskBuffer, memoryFor } = await import('../flow/disk-buffer/disk-buffer.js')
  return await DiskBuffer.open({
    ...runtime,
    folder: folderOnDisk(pathOf(dataDir, 'buffer', id)),
    log,
    wanted,
    maxBytes: buffer.max_bytes,
    whenFull: buffer.when_full,
    counters: metrics,
    memory: memoryFor(delivery!),
    keepsIds: definition.usesIds?.(options),
  })
}

/** Counts and logs values that codecs in these options cannot write. */
function reportLeftOut(
  options: object,
  { log, clock, metrics }: Pick<ComponentContext, 'log' | 'clock' | 'metrics'>,
): void {
  const limit = new LogLimit(clock)
  for (const codec of codecsIn(options)) {
    const { leavesOut } = codec.definition
    if (!leavesOut) continue
    const counter = metrics.counter(leavesOut.metric, leavesOut.help)
    codec.onLeftOut = field => {
      counter.value++
      const limited = limit.next(leavesOut.code)
      if (limited) log.warn({ code: leavesOut.code, codec: codec.name, field, ...limited }, leavesOut.log)
    }
  }
}

const FAILING: readonly string[] = ['holding', 'retrying', 'failing', 'starting']

export function destinationState({ config, delivery, buffer }: DestinationRun, clock: Clock): DestinationState {
  const { state, reason, outage, oldestAt, limit, spooled } = delivery
  const now = clock.now()
  const at = (monotonic: number) => new Date(clock.wall() + monotonic - now).toISOString()
  const failures = FAILING.includes(state) ? outage.failures : undefined
  const { past } = outage
  return {
    id: config.id,
    state,
    reason,
    ownReason: delivery.reasonIn(({ reason }) => labelWords(reason)),
    ...(limit && { requests: { in_flight: limit.inFlight, allowed: limit.allowed } }),
    ...(spooled && { spool: spooled }),
    ...(buffer && { buffer: buffer.stored }),
    ...(failures && { since: at(failures.since), failures: failures.count, last_failure: at(failures.lastAt) }),
    ...(failures && outage.nextAt !== undefined && { next_attempt: at(Math.max(now, outage.nextAt)) }),
    ...(past && {
      last_outage: { since: at(past.since), until: at(past.until), failures: past.failures, error: past.error },
    }),
    ...(oldestAt !== undefined && { oldest_event: new Date(oldestAt).toISOString() }),
  }
}
