import type {
  ComponentMetrics,
  Destination,
  EncodedRequest,
  Observer,
  Receipt,
  Spool,
} from '../../../core/component.js'
import { DeliveryError, errorText, InternalError, isProgramFault, RepeatedError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Fact } from '../../../core/fact.js'
import { type DeliveryOptions, mostInFlight } from '../../../core/options/delivery-options.js'
import { holdChunk } from '../../../lib/lines/chunk-pool.js'
import { type Linked, LinkedList } from '../../../lib/linked-list.js'
import { after } from '../../../lib/time.js'
import { BatchQueue } from '../batch-queue.js'
import { type Amount, add } from '../counters.js'
import { countDeadLetters, type DeadLetters } from '../dead-letters.js'
import type { FateObserver } from '../fates.js'
import { AdaptiveLimit } from './adaptive-limit.js'
import { Attempts, type AttemptsContext, LEFT, logFields } from './attempts.js'
import { Batcher, divide, halve } from './batcher.js'
import { type Partition, Partitions } from './partitions.js'
import { isDivided, Refusals, rejectsAll } from './refusals.js'
import { type RequestPool, RequestSlots } from './request-slots.js'
import { SentSize } from './sent-size.js'
import { Uploads } from './uploads.js'

/**
 * Turns batches into requests and completes each request. Invariants:
 * - Every batch is in the batcher or in requests until all its parts are settled. Each part is settled exactly once.
 * - A part is settled as `delivered` if the destination accepted it. It is settled as `rejected` if it was rejected
 *   permanently and stored in the dead-letter queue, or discarded by `on_reject`. It is settled as `errored` if the
 *   time was over.
 * - Nothing is written before the destination has started. With `max_in_flight: 1`, events stay in order.
 * - Events that a destination keeps in a spool are settled. They stay in flight until their object is delivered.
 */

export interface DeliveryCounters extends Pick<ComponentMetrics, 'sent' | 'discarded' | 'failed'> {
  received(events: number, bytes: number): void
  /** Counts events that an earlier run left in the spool. */
  found?(events: number, bytes: number): void
}

export interface DeliveryContext extends Pick<AttemptsContext, 'log' | 'clock' | 'random' | 'after' | 'outage'> {
  readonly id: string
  readonly deadLetter: DeadLetters
  readonly counters: DeliveryCounters
  readonly metrics: Pick<ComponentMetrics, 'counter' | 'fact' | 'gauge' | 'histogram'>
  /** The pool of requests that destinations share. If missing, only `max_in_flight` limits requests. */
  readonly requests?: RequestPool | undefined
}

/**
 * `failing`: attempts have failed for long, or from the first one on. `refusing`: most recent requests were rejected
 * permanently.
 */
export type DeliveryState = 'starting' | 'ready' | 'holding' | 'retrying' | 'failing' | 'refusing' | 'stopped'

interface Request extends Readonly<Amount>, Linked<Request> {
  readonly parts: readonly EventBatch[]
  encoded?: EncodedRequest | undefined
}

/** An event that fails this many times in the same way, alone and by a RepeatedError, is rejected. */
const MOST_REPEATED_ERRORS = 5
/** The last failure of this kind, and how many times in a row it occurred. */
type Fault = { what: string; count: number }

export const ATTEMPT_SECONDS = 'sluice_delivery_attempt_seconds'
const LATENCY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/**
 * Whether the receiver answered, or had as long as it may take: only errors of the network have a cause. A refused
 * connection fails faster than any receiver answers.
 */
const tellsLatency = (error: unknown): boolean =>
  error instanceof DeliveryError && (error.status !== undefined || error.cause === undefined)

export class Delivery extends BatchQueue {
  readonly #destination: Destination
  readonly #options: DeliveryOptions
  readonly #context: DeliveryContext
  readonly #batcher: Batcher | Partitions
  readonly #partitions: Partitions | undefined
  readonly #attempts: Attempts
  readonly #uploads: Uploads | undefined
  readonly #unsettled = new LinkedList<Request>()
  /** Receives the requests that were delivered or rejected. */
  observer: FateObserver | undefined
  readonly #carried = new Set<Promise<void>>()
  /** Events that were given back while being written to the spool. The spool has them, so `inFlight` subtracts them. */
  readonly #writtenLate: Amount = { events: 0, bytes: 0 }
  readonly #latency: Observer
  readonly #refusals: Refusals
  readonly #slots: RequestSlots
  readonly #limit: AdaptiveLimit | undefined
  readonly #sentSize: SentSize
  #started = false
  #cancelTimer: (() => void) | undefined
  #isLeaving = false
  /** Whether the events that were in the spool at the start were counted. */
  #hasFound = false
  /** Whether the spool keeps its open objects for the next run. */
  #isResting = false
  /** Whether the delivery ended by `leave`. The successor then takes the remaining events. */
  #hasLeft = false
  #stopping: Promise<Amount> | undefined

  constructor(destination: Destination, options: DeliveryOptions, context: DeliveryContext) {
    super(true)
    this.#destination = destination
    this.#options = options
    this.#context = context
    this.#sentSize = new SentSize(options.batch.max_bytes, context.outage?.size)
    const batcher = () => new Batcher(options.batch, this.#sentSize, destination.keepsBatches)
    if (destination.partitionOf || destination.targetOf) this.#partitions = new Partitions(destination, batcher)
    this.#batcher = this.#partitions ?? batcher()
    const { max_in_flight: max } = options
    const isFixed = typeof max === 'number'
    const limit =
      isFixed && !this.#partitions ? undefined : new AdaptiveLimit(mostInFlight(max), context.outage?.limit, isFixed)
    this.#limit = isFixed ? undefined : limit
    this.#slots = new RequestSlots(
      () => limit?.requests ?? mostInFlight(max),
      context,
      () => this.advance(),
    )
    const { clock, counters, metrics } = context
    this.#refusals = new Refusals(options.hold_after_refusals, clock)
    const retries = 'Failed attempts that are retried.'
    const shown = { live: (retries: number) => ({ retries }) }
    const attempts = {
      log: context.log,
      clock,
      random: context.random,
      ...(context.after && { after: context.after }),
      timeout: options.timeout,
      forgetsSignals: destination.forgetsSignals,
      changed: async () => (await destination.changed?.().catch(() => false)) ?? false,
      failed: (kind: string) => counters.failed(kind),
      retried: (reason: string) => metrics.counter('sluice_delivery_retries_total', retries, { reason }, shown).value++,
    }
    const { spool } = destination
    const { outage } = context
    const own = spool ? {} : { outage }
    this.#attempts = new Attempts({ ...attempts, ...own, retry: options.retry, limit, yielded: () => this.advance() })
    if (spool) {
      // Uploads are retried without limit.
      const { initial, max } = options.retry
      const uploads = new Attempts({ ...attempts, outage, retry: { initial, max } })
      this.#uploads = new Uploads(spool, uploads, () => this.advance())
      spool.changed = () => this.advance()
    }
    const latency = 'Duration of one attempt that was answered or timed out.'
    this.#latency = metrics.histogram(ATTEMPT_SECONDS, latency, LATENCY_SECONDS)
    const attempting = this.#uploads?.attempts ?? this.#attempts
    attempting.show(metrics)
    const show = (name: string, help: string, read: () => number, live: Fact['live']) =>
      metrics.fact({ name, help, read, live })
    const oldest = 'Age of the oldest unsettled event; 0 if all events are settled.'
    const age = () => Math.max(0, clock.wall() - (this.oldestAt ?? clock.wall())) / 1000
    show('sluice_delivery_oldest_event_age_seconds', oldest, age, seconds => ({
      oldest_ms: Math.round(seconds * 1000),
    }))
    const inFlight = () => this.#unsettled.size
    show('sluice_delivery_requests_in_flight', 'Requests that are not settled.', inFlight, in_flight => ({ in_flight }))
    const most = 'Requests that may be in flight: max_in_flight, or the current limit if max_in_flight is auto.'
    show(
      'sluice_delivery_max_in_flight',
      most,
      () => limit?.allowed ?? mostInFlight(max),
      allowed => ({ allowed }),
    )
  }

  get state(): DeliveryState {
    if (this.isOver || this.writableFinished) return 'stopped'
    const attempts = this.#shown
    if (attempts.holding) return 'holding'
    if (!this.#started) return 'starting'
    if (attempts.failing) return 'failing'
    if (attempts.retrying) return 'retrying'
    return this.#refusals.most ? 'refusing' : 'ready'
  }

  /** Shows the operator why the destination is paused, retries, or rejects most requests. */
  get reason(): string | undefined {
    return this.reasonIn(({ message }) => message)
  }

  reasonIn(words: (error: NonNullable<Attempts['error']>) => string): string | undefined {
    const { error = this.#refusals.most, pausedUntil } = this.#shown
    const own = this.#shown.error && this.#shown !== this.#attempts ? this.#attempts.error : undefined
    const message = error && (own ? `${words(error)}; ${words(own)}` : words(error))
    if (message && pausedUntil) return `${message}; it requested a pause until ${pausedUntil}`
    const apart = this.#partitions?.apart
    if (!message || !apart) return message
    return apart.isFull
      ? `${message}; ${apart.events} events that go there wait, which is the most, so all others wait, too`
      : `${message}; only the events that go there wait`
  }

  get outage(): Attempts['outage'] {
    const { outage } = this.#shown
    return { ...outage, state: { ...outage.state, size: this.#sentSize.learned } }
  }

  /** The attempts to show. With a spool, these are its uploads, or the writes to it if only the writes fail. */
  get #shown(): Attempts {
    const [own, uploads] = [this.#attempts, this.#uploads?.attempts]
    const fails = (attempts: Attempts) => attempts.holding || attempts.retrying
    return uploads && (fails(uploads) || !fails(own)) ? uploads : own
  }

  get spooled(): (Amount & Spool['objects'] & { used_bytes: number; max_bytes: number }) | undefined {
    const { spool } = this.#destination
    return spool && { ...spool.held, ...spool.objects, used_bytes: spool.bytes, max_bytes: spool.maxBytes }
  }

  get limit(): Pick<AdaptiveLimit, 'inFlight' | 'allowed'> | undefined {
    return this.#limit
  }

  /** When the oldest unsettled event was received, in wall-clock milliseconds; undefined if there is none. */
  get oldestAt(): number | undefined {
    let oldest = this.#destination.spool?.oldestAt ?? Number.POSITIVE_INFINITY
    for (const { receivedAt } of this.batches) oldest = Math.min(oldest, receivedAt)
    return oldest === Number.POSITIVE_INFINITY ? undefined : oldest
  }

  /** The batches whose acks the delivery holds. */
  get batches(): readonly EventBatch[] {
    return [...[...this.#unsettled].flatMap(({ parts }) => parts), ...this.#batcher.batches]
  }

  /** Whether the delivery has work to do now. Work that waits for a receiver, a time or an operator does not count. */
  override get owes(): boolean {
    if (!(this.state === 'ready' || this.state === 'refusing') || !this.#slots.free) return false
    return this.#batcher.ready(this.#context.clock.now(), false)
  }

  override inFlight(): Amount {
    const amount = this.#batcher.amount()
    for (const { parts } of this.#unsettled) {
      for (const part of parts) add(amount, part.length, part.bytes)
    }
    const { events = 0, bytes = 0 } = (this.#hasFound && this.#destination.spool?.held) || {}
    add(amount, events - this.#writtenLate.events, bytes - this.#writtenLate.bytes)
    return add(amount, this.givenBack.events, this.givenBack.bytes)
  }

  /**
   * Starts the destination, and retries until the start succeeds. Throws any error that is not a DeliveryError. If the
   * signal aborts, gives all events back and resolves, as `stop` does at its deadline.
   */
  async start(signal?: AbortSignal): Promise<void> {
    const giveUp = () => this.giveUp()
    if (signal?.aborted) return giveUp()
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      const attempt = async (deadline: AbortSignal) => await this.#destination.start?.(deadline)
      const result = await this.#attempts.persist({ attempt, classify: classifyStart, kind: 'start' })
      const found = this.#destination.spool?.held
      if (found && !this.#hasFound) this.#context.counters.found?.(found.events, found.bytes)
      this.#hasFound = true
      if (this.isOver || result === LEFT) return
      this.#started = true
      this.advance()
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

  /**
   * After this call, the delivery accepts all batches but starts no more attempts. When the stream has ended,
   * `takeLeft` returns the undelivered events for a successor.
   */
  leave(): void {
    if (this.#isLeaving || this.isOver) return
    this.#isLeaving = true
    this.#attempts.leave()
    this.#uploads?.leave()
    this.advance()
  }

  get isLeaving(): boolean {
    return this.#isLeaving
  }

  /** Aborts the attempts that are still in progress after `leave`. Returns whether any attempts were in progress. */
  cut(): boolean {
    if (!this.#isLeaving) return false
    const uploads = this.#uploads?.attempts.cut() ?? false
    return this.#attempts.cut() || uploads
  }

  /** Keeps the objects of the spool for the next run. */
  rest(): void {
    if (!this.#uploads) return
    this.#isResting = true
    this.#uploads.leave()
    this.advance()
  }

  /**
   * Call this after `leave`, when the stream has ended. Returns the undelivered batches in order. Their events count as
   * in flight until they arrive again.
   */
  takeLeft(): EventBatch[] {
    if (!this.#hasLeft) return []
    const left = [...[...this.#unsettled].flatMap(({ parts }) => parts), ...this.#batcher.takeAll()]
    this.#unsettled.clear()
    for (const { length, bytes } of left) add(this.givenBack, length, bytes)
    return left
  }

  /**
   * Waits until the writer has ended the stream, but not longer than until the deadline. Then gives the remaining
   * events back and stops the destination. Resolves with the amount of undelivered events.
   */
  stop(deadline: AbortSignal): Promise<Amount> {
    this.#stopping ??= this.#stop(deadline)
    return this.#stopping
  }

  async #stop(deadline: AbortSignal): Promise<Amount> {
    await new Promise<void>(resolve => {
      const done = () => {
        deadline.removeEventListener('abort', done)
        this.off('close', done)
        resolve()
      }
      this.on('close', done)
      deadline.addEventListener('abort', done)
      if (this.closed || this.isOver || deadline.aborted) done()
    })
    this.giveUp()
    await this.#uploads?.ended()
    await this.#destination.stop?.(deadline)
    // The spool has stopped and its writes have ended, so the requests that wait for these writes end too.
    if (this.#uploads) await Promise.all(this.#carried)
    return this.givenBack
  }

  protected override count(batch: EventBatch): void {
    this.#context.counters.received(batch.length, batch.bytes)
  }

  protected override put(batch: EventBatch): void {
    this.#batcher.add(batch, this.#context.clock.now())
  }

  protected override advance(): void {
    if (this.isOver) {
      this.finish()
      return
    }
    if (this.#isLeaving) {
      this.letIn()
      if (!this.isEnding || !this.#slots.idle || this.#uploads?.idle === false) return
      this.#hasLeft = true
      this.finish()
      return
    }
    const batcher = this.#batcher
    if (this.#started) {
      const now = this.#context.clock.now()
      while (this.#slots.free && batcher.ready(now, this.isEnding)) this.#begin(batcher.take(now, this.isEnding))
      const { dueAt } = batcher
      if (dueAt < Number.POSITIVE_INFINITY && this.#slots.freeOrWait()) this.#wakeAfter(dueAt - now)
    }
    if (!batcher.full) this.letIn()
    if (!this.#started) return
    const isOver = this.isEnding && batcher.empty && this.#slots.idle
    this.#uploads?.advance(isOver && !this.#isResting)
    if (isOver && this.#uploads?.idle !== false) this.finish()
  }

  /** Sets one timer for the oldest event. If this event no longer waits when the timer fires, a new timer is set. */
  #wakeAfter(ms: number): void {
    // A partition whose request has ended may be due before the current timer fires.
    if (this.#partitions) this.#cancelWake()
    this.#cancelTimer ??= (this.#context.after ?? after)(Math.max(1, Math.ceil(ms)), () => {
      this.#cancelTimer = undefined
      this.advance()
    })
  }

  #cancelWake(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #begin(parts: EventBatch[]): void {
    const request = this.#request(parts)
    const end = this.#slots.begin(request.bytes * this.#sentSize.ratio)
    const carried = this.#carry(request, this.#partitions?.of(parts))
      .catch(error => {
        // This is a bug. The events stay unsettled, and are read again after a restart.
        this.#context.counters.failed('bug')
        const fields = { code: 'SLUICE_DELIVERY_FAILED', error: errorText(error) }
        this.#context.log.error(fields, 'delivery of a request failed unexpectedly')
      })
      .finally(() => {
        this.#carried.delete(carried)
        end()
        this.#partitions?.ended(parts, this.#context.clock.now())
        this.advance()
      })
    this.#carried.add(carried)
  }

  /** `next`: the existing request before which the new request is inserted. */
  #request(parts: EventBatch[], next?: Request): Request {
    const amount = { events: 0, bytes: 0 }
    for (const part of parts) add(amount, part.length, part.bytes)
    const request: Request = { parts, ...amount }
    this.#unsettled.add(request, next)
    return request
  }

  /** Completes a request. Divides it if necessary, and handles its rejected events. */
  async #carry(whole: Request, partition: Partition | undefined): Promise<void> {
    if (partition?.refusal) {
      await this.#refuse(whole, partition.refusal)
      return
    }
    const left = [whole]
    const outcome = { refused: false, oneRefused: false, accepted: 0 }
    for (let next = left.shift(); next; next = left.shift()) {
      let request = next
      try {
        this.#encode(request)
      } catch {
        // The request cannot be encoded. Its first attempt fails in the same way.
      }
      const size = this.#sentSize.of(request)
      if (request.events > 1 && size > this.#sentSize.maxBytes) {
        request.encoded?.release?.()
        left.unshift(...this.#halves(request))
        continue
      }
      const refused: [Request, DeliveryError][] = []
      let lastDivided: DeliveryError | undefined
      let receipt: Receipt | undefined
      const attempt = async (signal: AbortSignal) => {
        receipt = await this.#write(request, signal, partition?.name)
      }
      const fault: Fault = { what: '', count: 0 }
      const isApart = partition !== undefined && partition.key !== ''
      const classify = (thrown: unknown) => {
        if (isApart) partition.isFailing = true
        const isRepeated = thrown instanceof RepeatedError
        const error = isRepeated ? classifyRepeated(thrown, request.events, fault) : classifyWrite(thrown)
        if (groupsOf(error) > 1) return error
        if (error.refused !== undefined) {
          this.#refusals.accepted()
          return error
        }
        if (!isDivided(error, request.events)) return this.#refusals.classify(error)
        if (rejectsAll(error, request.events)) {
          const classified = this.#refusals.classify(error, false)
          if (classified !== error) return classified
        } else this.#refusals.accepted()
        const divided = this.#divide(request, error)
        refused.push(...divided.refused)
        const isAll = divided.again.events === request.events
        request = divided.again
        lastDivided = error
        if (error.failure === 'retry' && this.#setsApart(request, left, partition, isAll)) {
          const { message, reason, status } = error
          request = { parts: [], events: 0, bytes: 0 }
          const rejected = isAll ? undefined : error.rejected
          lastDivided = new DeliveryError(message, { failure: 'reject', reason, status, rejected, cause: error })
        }
        return lastDivided
      }
      const about = { pausesAlone: isApart, ignoresLoad: partition?.target !== undefined }
      const error = await this.#attempts.persist({ attempt, classify, kind: 'events', ...about })
      if (error === LEFT) return
      if (this.isOver && this.#uploads && receipt) {
        const { events = 0, bytes = 0 } = receipt.repeated ?? {}
        add(this.#writtenLate, request.events - events, request.bytes - bytes)
      }
      for (const [events, why] of refused) {
        if (this.isOver || !(await this.#refuse(events, why))) return
      }
      if (this.isOver) return
      if (!error) {
        outcome.accepted = Math.max(outcome.accepted, size)
        this.#accepted(request, receipt)
      } else if (error === lastDivided) {
        // Sends events again if they were neither accepted nor rejected.
        if (request.events > 0) left.unshift(request)
        else this.#unsettled.delete(request)
      } else if (groupsOf(error) > 1) {
        left.unshift(...this.#grouped(request, error.groups!))
      } else if (error.failure === 'too_large' && request.events > 1) {
        outcome.refused = true
        left.unshift(...this.#cut(request, error))
      } else {
        outcome.oneRefused ||= error.failure === 'too_large'
        if (!(await this.#refuse(request, error))) return
      }
      if (this.isOver) return
    }
    this.#sentSize.learn(outcome)
  }

  /** Queues the events that failed by their targets, if only these fail, and the rest of the request behind them. */
  #setsApart(request: Request, left: Request[], partition: Partition | undefined, isAll: boolean): boolean {
    const rest = left.flatMap(({ parts }) => parts)
    const now = this.#context.clock.now()
    if (!partition || !this.#partitions!.setApart(request.parts, rest, partition, isAll, now)) return false
    for (const queued of [request, ...left.splice(0)]) this.#unsettled.delete(queued)
    return true
  }

  /** Settles the accepted events of a request. Returns the rejected events, by reason, and the events to send again. */
  #divide(request: Request, error: DeliveryError): { refused: [Request, DeliveryError][]; again: Request } {
    const groups = new Uint16Array(request.events)
    for (const index of error.again) groups[index] = 1
    const errors = error.byReason()
    for (const [n, { rejected }] of errors.entries()) for (const index of rejected!) groups[index] = n + 2
    const divided = divide(request.parts, errors.length + 2, index => groups[index]!)
    const [taken, again, ...refused] = this.#replace(request, divided)
    this.#settle(taken!, undefined)
    const pairs = refused.map((events, n): [Request, DeliveryError] => [events, errors[n]!])
    return { refused: pairs.filter(([{ events }]) => events > 0), again: again! }
  }

  #encode(request: Request): EncodedRequest | undefined {
    request.encoded ??= this.#destination.encode?.(request.parts)
    return request.encoded
  }

  async #write(request: Request, signal: AbortSignal, partition: string | undefined): Promise<Receipt | undefined> {
    const { parts } = request
    const { clock } = this.#context
    const began = clock.now()
    let requestId: string | undefined
    let isTimed = true
    // Nothing that was sent can be answered before the next turn of the event loop.
    let mayBeAnswered = false
    const turn = setImmediate(() => {
      mayBeAnswered = true
    })
    // At a deadline, events are settled even if the destination is still reading their bytes. So the chunks with these
    // bytes are held until the destination has finished.
    const releases = parts.map(({ chunk }) => holdChunk(chunk))
    try {
      const accepted = await this.#destination.write(parts, signal, partition, this.#encode(request))
      if (accepted) requestId = accepted.requestId
      return accepted ?? undefined
    } catch (error) {
      if (error instanceof DeliveryError) requestId = error.requestId
      isTimed = tellsLatency(error)
      throw !mayBeAnswered && isProgramFault(error) ? new InternalError(error) : error
    } finally {
      clearImmediate(turn)
      for (const release of releases) release?.()
      const exemplar = requestId === undefined ? undefined : { requestId, at: clock.wall() }
      if (isTimed) this.#latency.observe((clock.now() - began) / 1000, exemplar)
    }
  }

  #cut(request: Request, error: DeliveryError): Request[] {
    const { events, bytes } = request
    const more = this.#attempts.mayLog('too_large')
    if (more) {
      const advice =
        'the receiver rejected a request as too large; sending it in halves. A lower batch.max_bytes prevents this'
      this.#context.log.warn({ ...logFields(error), events, bytes, ...more }, advice)
    }
    return this.#halves(request)
  }

  #halves(request: Request): Request[] {
    return this.#replace(request, halve(request.parts))
  }

  /** Replaces a request by several. A successor receives them in this order. */
  #replace(request: Request, divided: EventBatch[][]): Request[] {
    const { next } = request
    this.#unsettled.delete(request)
    return divided.map(parts => this.#request(parts, next))
  }

  #grouped(request: Request, groups: readonly number[]): Request[] {
    const divided = divide(request.parts, Math.max(...groups) + 1, index => groups[index]!)
    return this.#replace(
      request,
      divided.filter(parts => parts.length > 0),
    )
  }

  /**
   * Stores a rejected request in the dead-letter queue, with retries, or discards the request. Returns false if the
   * delivery ended before this was done.
   */
  async #refuse(request: Request, error: DeliveryError): Promise<boolean> {
    const { log, deadLetter, metrics } = this.#context
    const { on_reject: where } = this.#options
    if (where === 'dead_letter') {
      const attempt = () => deadLetter.write(request.parts, error)
      const result = await this.#attempts.persist({ attempt, classify: classifyDeadLetter, kind: 'dead_letter' })
      if (this.isOver || result === LEFT) return false
      countDeadLetters(metrics, error.reason, request.events)
    }
    const more = this.#attempts.mayLog(`reject ${error.reason}`)
    const fields = { ...logFields(error), events: request.events, on_reject: where, ...more }
    if (more) log.warn(fields, 'the destination rejected events')
    this.observer?.rejected(request.parts, error)
    this.#settleRefused(request, error)
    return true
  }

  /**
   * Settles a refused request. If the response states only how many events were refused, treats this number of events
   * at the beginning of the request as refused.
   */
  #settleRefused(request: Request, { reason, refused }: DeliveryError): void {
    if (refused === undefined) {
      this.#settle(request, reason)
      return
    }
    const divided = divide(request.parts, 2, index => (index < refused ? 1 : 0))
    const [taken, left] = this.#replace(request, divided)
    this.#settle(taken!, undefined)
    this.#settle(left!, reason)
  }

  #accepted(request: Request, receipt: Receipt | undefined): void {
    this.#refusals.accepted()
    this.observer?.delivered(request.parts)
    if (receipt?.repeated) this.#context.counters.sent(receipt.repeated.events, receipt.repeated.bytes)
    this.#settle(request, undefined)
  }

  /** `refused`: the discard reason; undefined if the request was delivered. */
  #settle(request: Request, refused: string | undefined): void {
    const { counters } = this.#context
    const { parts, events, bytes } = request
    this.#unsettled.delete(request)
    if (refused !== undefined) counters.discarded(refused, events, bytes)
    else if (!this.#uploads) counters.sent(events, bytes)
    for (const part of parts) part.ack.settle(refused === undefined ? 'delivered' : 'rejected')
  }

  protected override abandon(): void {
    this.#cancelTimer?.()
    this.#attempts.close()
    this.#uploads?.close()
    if (this.#hasLeft) return
    for (const { parts } of this.#unsettled) for (const part of parts) this.giveBack(part)
    this.#unsettled.clear()
    const { events, bytes } = this.#batcher.giveBack()
    add(this.givenBack, events, bytes)
  }
}

const groupsOf = ({ failure, groups }: DeliveryError) => (failure === 'reject' ? new Set(groups).size : 0)

/** Treats any error that is not a DeliveryError as temporary, so the request is retried. */
function classifyWrite(error: unknown): DeliveryError {
  if (error instanceof DeliveryError) return error
  return new DeliveryError(errorText(error), { failure: 'retry', reason: 'unknown', cause: error })
}

/** Divides a request of several events. A single event is retried, and then rejected. */
function classifyRepeated(error: RepeatedError, events: number, fault: Fault): DeliveryError {
  const { message, reason, status, requestId, cause } = error
  if (events > 1) {
    const groups = Array.from({ length: events }, (_, i) => (i < events / 2 ? 0 : 1))
    return new DeliveryError(message, { failure: 'reject', reason, groups, cause })
  }
  // Messages about an answer differ, for example by its status.
  const what = error instanceof InternalError ? message : reason
  fault.count = what === fault.what ? fault.count + 1 : 1
  fault.what = what
  if (fault.count < MOST_REPEATED_ERRORS) return error
  const advice = `the destination failed ${fault.count} times to send this event: ${message}`
  return new DeliveryError(advice, { failure: 'reject', reason, status, requestId, cause })
}

/** If the receiver rejects the start, only the configuration can be the cause. So the start waits for an operator. */
function classifyStart(error: unknown): DeliveryError {
  if (!(error instanceof DeliveryError)) throw error
  if (error.failure === 'retry' || error.failure === 'hold') return error
  const { reason, status, requestId } = error
  return new DeliveryError(error.message, { failure: 'hold', reason, status, requestId, cause: error })
}

function classifyDeadLetter(cause: unknown): DeliveryError {
  const message = `cannot write to the dead-letter queue: ${errorText(cause)}`
  const reason = cause instanceof DeliveryError ? cause.reason : 'dead_letter'
  return new DeliveryError(message, { failure: 'retry', reason, cause })
}
