import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../../core/component.js'
import { DeliveryError } from '../../../core/errors.js'
import { Backoff, type Random } from '../../../lib/backoff.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { type after, type Clock, sleep, unlessAnswered } from '../../../lib/time.js'
import { formatDuration, lasting } from '../../../lib/units.js'
import type { AdaptiveLimit, AttemptOutcome, LimitState } from './adaptive-limit.js'
import type { LearnedSize } from './sent-size.js'

/** During a hold: the time between two checks for a change, and the longest time between two attempts. */
const CHECK_EVERY_MS = 1000
const LONGEST_WAIT_MS = 60_000

const LONGEST_RETRY_AFTER_MS = 3_600_000
/** A destination that fails for longer than this is not ready. */
const LONG_MS = 5 * 60_000
/** An attempt that runs for longer than this is shown. */
const LONG_ATTEMPT_S = 5
/** Pauses requested by the receiver are logged if they exceed this. */
const LONG_PAUSE_MS = 60_000

/** With `max_in_flight: auto`, a pause up to this length applies only to the refused request. */
const SHORT_PAUSE_MS = 2000

/** A finished outage. Its times are from `Clock.now`. */
export interface PastOutage {
  readonly since: number
  readonly until: number
  readonly failures: number
  readonly error: string
}

interface Failures {
  readonly since: number
  readonly lastAt: number
  readonly count: number
}

/** State for a delivery's successor: outages, and the number and size of requests that the receiver accepts. */
export interface OutageState {
  readonly failures: Failures | undefined
  readonly error: string
  /** The kind of the task that failed. If tasks of several kinds failed, the kind that comes last in `TASKS`. */
  readonly of: TaskKind
  readonly hasDelivered: boolean
  readonly isLogged: boolean
  readonly past: PastOutage | undefined
  /** With `max_in_flight: auto`: how many requests the receiver accepts. */
  readonly limit?: LimitState | undefined
  readonly size?: LearnedSize | undefined
}

export interface AttemptsContext {
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
  /** Sets a timer. Default: `after` of lib/time.ts. */
  readonly after?: typeof after
  /** The state of the previous delivery to this destination, before a reload. */
  readonly outage?: OutageState | undefined
  /** Timeout of one attempt, in milliseconds. */
  readonly timeout: number
  readonly retry: RetryLimits
  readonly limit?: AdaptiveLimit | undefined
  /** Called when a refused request starts to wait. Another request may then use the slot of the refused request. */
  readonly yielded?: () => void
  /** During a hold: whether something changed that justifies an immediate attempt. */
  readonly changed: () => Promise<boolean>
  /** As in `Destination`. */
  readonly forgetsSignals?: boolean | undefined
  readonly failed: (kind: string) => void
  readonly retried: (reason: string) => void
}

export interface RetryLimits {
  readonly initial: number
  readonly max: number
  readonly max_attempts?: number | undefined
  readonly max_elapsed?: number | undefined
}

/** The error of a failed attempt, and whether the request is at fault. */
interface Thrown {
  readonly error: unknown
  /** When the attempt began, or the last success if that was later. */
  readonly since: number
  /**
   * With `max_in_flight: auto`: whether this request was refused while others were in flight. It is then not at fault.
   */
  readonly isBeside: boolean
  readonly isAdapting: boolean
}

/** `persist` resolves with this value if the delivery's successor takes over the task. */
export const LEFT = 'left'

/** The kinds of tasks. A task that succeeds ends an outage of its own kind, and of each kind before it in this list. */
const TASKS = ['start', 'dead_letter', 'events'] as const
type TaskKind = (typeof TASKS)[number]

/** Work that is attempted again and again until it succeeds or fails permanently. */
export interface Task {
  /** `max_attempts` and `max_elapsed` apply only to `events`. */
  readonly kind: TaskKind
  /** Makes one attempt. Rejects soon after the signal aborts. */
  attempt(signal: AbortSignal): Promise<void>
  /** Classifies an error. If this throws, `persist` throws, too. */
  classify(error: unknown): DeliveryError
  /** Whether a pause that the receiver requests concerns only this task. */
  readonly pausesAlone?: boolean
  /** Whether a failure does not show the load of the receiver, because the receiver accepts other events meanwhile. */
  readonly ignoresLoad?: boolean
}

/**
 * Makes the attempts of a destination to start and to send requests. Handles timeouts, retries, holds, and pauses that
 * the receiver requests. Logs what an operator should know, without repetition.
 */
export class Attempts {
  readonly #context: AttemptsContext
  readonly #hold: Hold
  readonly #outage: Outage
  /** The error of each task that waits between two attempts. */
  readonly #failing = new Map<object, DeliveryError>()
  /** The running attempts in the order of their beginnings, each with the time of its timeout. */
  readonly #running = new Map<AbortController, number>()
  /** Stops the timer, which serves all attempts: if each had its own, short attempts would take more CPU time. */
  #stopTimer: (() => void) | undefined
  /** The controller of an attempt that has ended, for the next attempt. */
  #spare: AbortController | undefined
  readonly #ended = new AbortController()
  readonly #limit: LogLimit
  /** Requests that the adaptive limit does not allow yet. */
  readonly #queue: (() => void)[] = []
  /** When an attempt last succeeded. */
  #workedAt = Number.NEGATIVE_INFINITY
  /** When the first of the attempts began that have timed out since an attempt last ended otherwise. */
  #silentSince: number | undefined
  #isLeaving = false
  #isClosed = false
  /** End of the pause requested by the receiver. */
  #pausedUntil = 0
  #longPauseEnds: string | undefined
  /** The last refusal that requested a short pause and lowered the limit. `at`: its time. `until`: the pause's end. */
  #adapted = { at: 0, until: Number.NEGATIVE_INFINITY }

  constructor(context: AttemptsContext) {
    this.#context = context
    const { clock, outage } = context
    this.#outage = new Outage(clock, outage)
    // Each attempt may add a listener.
    setMaxListeners(0, this.#ended.signal)
    this.#limit = new LogLimit(clock)
    this.#hold = new Hold(context, ms => this.#sleep(ms))
  }

  get holding(): boolean {
    return this.#hold.error !== undefined
  }

  /**
   * Whether a failed task is being retried. If the predecessor was failing before a reload, the first attempt after the
   * reload counts as a retry.
   */
  get retrying(): boolean {
    return this.#failing.size > 0 || (this.#outage.inheritedError !== undefined && this.#running.size > 0)
  }

  get #failingMs(): number {
    const { failures } = this.#outage
    return this.retrying && failures ? this.#context.clock.now() - failures.since : 0
  }

  /** The age of the oldest attempt that is running, or that timed out and is being retried. */
  get #unansweredMs(): number {
    const now = this.#context.clock.now()
    const [lateAt = Infinity] = this.#running.values()
    return now - Math.min(now, lateAt - this.#context.timeout, this.#silentSince ?? now)
  }

  show(metrics: Pick<ComponentMetrics, 'fact' | 'gauge'>): void {
    const seconds = (ms: number) => Math.max(0, ms) / 1000
    const { clock } = this.#context
    metrics.gauge('sluice_delivery_holding', '1 if the destination is paused until an operator intervenes.', () =>
      this.holding ? 1 : 0,
    )
    const failing =
      'Time during which at least one request has been failing without interruption; 0 while delivery works.'
    metrics.gauge('sluice_delivery_failing_seconds', failing, () => seconds(this.#failingMs))
    metrics.fact({
      name: 'sluice_delivery_unanswered_seconds',
      help: 'How long the receiver has not answered, since the oldest attempt began that is running or timed out; 0 without such attempts.',
      read: () => seconds(this.#unansweredMs),
      shown: (unanswered = 0) => unanswered >= LONG_ATTEMPT_S && `no answer for ${lasting(unanswered)}`,
      live: unanswered => ({ unanswered_ms: unanswered >= LONG_ATTEMPT_S ? Math.round(unanswered * 1000) : 0 }),
    })
    const paused = 'Time until the end of a pause requested by the receiver (Retry-After); at most an hour.'
    metrics.gauge('sluice_delivery_paused_seconds', paused, () => seconds(this.#pausedUntil - clock.now()))
  }

  /** The end of a long pause that the receiver requested, as ISO 8601; undefined without such a pause. */
  get pausedUntil(): string | undefined {
    const { clock } = this.#context
    return this.#longPauseEnds !== undefined && clock.now() < this.#pausedUntil ? this.#longPauseEnds : undefined
  }

  /** Whether attempts have failed for long, or since the start. If so, the destination is not ready. */
  get failing(): boolean {
    const { failures, hasDelivered, inheritedError } = this.#outage
    if (hasDelivered) return this.#failingMs >= LONG_MS
    // Failures before a reload do not count until the first attempt with the new options begins.
    return failures !== undefined && (inheritedError === undefined || this.retrying)
  }

  /**
   * The current outage, the next attempt and the previous outage. `pausedMs`: the remaining time of a pause that the
   * receiver requested; 0 during an attempt. `isAttempting`: whether an attempt is in progress. `state`: for this
   * delivery's successor.
   */
  get outage(): Pick<Outage, 'failures' | 'nextAt' | 'past' | 'state'> & {
    readonly pausedMs: number
    readonly isAttempting: boolean
  } {
    const { failures, nextAt, past } = this.#outage
    const isLogged = this.#outage.isLogged || this.holding
    const state = { ...this.#outage.state, isLogged, limit: this.#context.limit?.state }
    const next = this.holding ? this.#hold.nextAt : nextAt
    const isAttempting = this.#running.size > 0
    const pausedMs = isAttempting ? 0 : Math.max(0, this.#pausedUntil - this.#context.clock.now())
    return {
      failures,
      past,
      pausedMs,
      isAttempting,
      state,
      nextAt: next === undefined ? undefined : Math.max(next, this.#pausedUntil),
    }
  }

  /** The error that causes the hold or the retries. The message may quote the receiver; the reason is a label. */
  get error(): Pick<DeliveryError, 'message' | 'reason'> | undefined {
    const error = this.#hold.error ?? this.#failing.values().next().value
    if (error) return error
    if (!this.retrying && !this.failing) return undefined
    return { message: this.#outage.error, reason: 'failed_before_the_reload' }
  }

  /**
   * Makes attempts until one succeeds or the task fails permanently. Resolves with undefined after a success or
   * `close`, with the error after a failure, and with LEFT if `leave` came first.
   */
  async persist(task: Task): Promise<DeliveryError | typeof LEFT | undefined> {
    const { failed, retried, retry, random, clock } = this.#context
    const { max_attempts: maxAttempts = Infinity, max_elapsed: maxElapsed = Infinity } =
      task.kind === 'events' ? retry : {}
    const backoff = new Backoff(retry.initial, retry.max, random)
    let failures = 0
    /** Failed attempts that count for `max_attempts`. */
    let counted = 0
    let since = 0
    for (;;) {
      do await this.#turn(task)
      while (!this.#hasRoom(task))
      if (this.#ended.signal.aborted) return this.#isLeaving ? LEFT : undefined
      const { ended } = this.#hold
      const thrown = await this.#attempt(task, failures === 0)
      if (this.#isClosed) return undefined
      const error = thrown && task.classify(thrown.error)
      if (error && this.#isLeaving) return LEFT
      if (error) failed(error.reason)
      const { isBeside = false, isAdapting = false } = thrown ?? {}
      if ((error?.failure === 'hold' || error?.failure === 'retry') && !isAdapting)
        this.#outage.failed(error.message, task.kind, thrown!.since)
      if (error?.failure === 'hold') {
        this.#failing.delete(task)
        // A hold ended after this attempt began, so this error does not start another hold.
        if (!this.holding && this.#hold.ended > ended) continue
        if (this.#hold.begin(error)) this.#logHold(error)
      } else if (error?.failure === 'retry') {
        retried(error.reason)
        // During a hold, only the probe makes attempts, and no request is given up.
        if (this.holding) continue
        if (failures++ === 0) since = clock.now()
        if (!isBeside) counted++
        if (counted >= maxAttempts || clock.now() - since >= maxElapsed) {
          this.#failing.delete(task)
          if (this.#failing.size === 0) this.#silentSince = undefined
          return exhausted(error, failures)
        }
        if (isAdapting) await this.#wait(task, error, this.#waitMs(error, backoff.next()))
        else await this.#waitAfter(task, error, failures, backoff.next())
      } else {
        this.#failing.delete(task)
        const endsHold = this.#hold.isProbe(task)
        if (endsHold) this.#hold.end()
        if (task.kind === 'events' && (!error || error.rejected)) this.#outage.hasDelivered = true
        const past = this.holding || this.#failing.size > 0 ? undefined : this.#outage.worked(task.kind)
        this.#logEnd(past, endsHold)
        return error
      }
    }
  }

  /** Ends all waits. Starts no more attempts, but attempts in progress complete. */
  leave(): void {
    this.#isLeaving = true
    this.#stopIfIdle()
    this.#hold.close()
    this.#ended.abort()
    this.#wake()
  }

  /** Aborts attempts in progress. Returns whether there were any attempts. */
  cut(): boolean {
    const { size } = this.#running
    this.#abort(new Error('the reload does not wait for this attempt'))
    return size > 0
  }

  /** Ends all waits and aborts all attempts. Starts no more attempts. */
  close(): void {
    this.#isClosed = true
    const suppressed = this.#limit.rest()
    if (!this.#ended.signal.aborted && Object.keys(suppressed).length > 0)
      this.#context.log.info({ suppressed }, 'messages were suppressed')
    this.#abort(new Error('the time to deliver is over'))
    this.#stopTimer?.()
    this.#hold.close()
    this.#ended.abort()
    this.#wake()
    this.#failing.clear()
  }

  /** If a message of this kind may be logged now, returns the number of suppressed messages; otherwise undefined. */
  mayLog(kind: string): { suppressed?: number } | undefined {
    return this.#limit.next(kind)
  }

  /**
   * Whether a refusal only lowers the limit. The refusal then does not count as a failure, and only the refused request
   * pauses. If the receiver also refuses a request that was sent during that pause, all requests pause.
   */
  #isAdapting({ retryAfterMs = 0 }: DeliveryError, began: number): boolean {
    const now = this.#context.clock.now()
    const isPaused = now < this.#adapted.until
    if (retryAfterMs > SHORT_PAUSE_MS || (isPaused && began >= this.#adapted.at)) return false
    if (!isPaused) this.#adapted = { at: now, until: now + retryAfterMs }
    return true
  }

  /** Whether the adaptive limit allows an attempt now. Always true after `leave` or `close`. */
  #hasRoom({ kind }: Task): boolean {
    const { limit } = this.#context
    return kind !== 'events' || !limit || limit.inFlight < limit.allowed || this.#ended.signal.aborted
  }

  #wake(): void {
    for (const resume of this.#queue.splice(0)) resume()
  }

  async #turn(task: Task): Promise<void> {
    while (!this.#hasRoom(task)) await new Promise<void>(resolve => this.#queue.push(resolve))
    do {
      await this.#hold.pass(task)
      const { clock } = this.#context
      while (!this.#ended.signal.aborted && clock.now() < this.#pausedUntil)
        await this.#sleep(this.#pausedUntil - clock.now())
    } while (!this.#ended.signal.aborted && this.holding && !this.#hold.isProbe(task))
  }

  /** Makes one attempt. If the attempt fails, returns its error. `isFirst`: whether the task has not failed before. */
  async #attempt(task: Task, isFirst: boolean): Promise<Thrown | undefined> {
    const { timeout, clock, limit, forgetsSignals } = this.#context
    const controller = this.#spare ?? new AbortController()
    this.#spare = undefined
    const { signal } = controller
    const ended = task.kind === 'events' ? limit?.sent() : undefined
    const began = clock.now()
    this.#running.set(controller, began + timeout)
    if (!this.#stopTimer) this.#setTimer(began + timeout)
    let outcome: AttemptOutcome = 'ok'
    let pauseMs = 0
    try {
      await task.attempt(signal)
      this.#workedAt = clock.now()
      this.#silentSince = undefined
      return undefined
    } catch (thrown) {
      // What the receiver has confirmed stays confirmed, even if the attempt was aborted before the rest was.
      const error = signal.aborted && !isPartial(thrown) ? signal.reason : thrown
      const since = Math.max(began, this.#workedAt)
      const isSilent = signal.aborted && error instanceof DeliveryError && error.reason === 'timeout'
      this.#silentSince = isSilent ? Math.min(since, this.#silentSince ?? since) : undefined
      outcome = task.ignoresLoad ? 'other' : outcomeOf(error)
      const adapts = ended !== undefined && !limit!.isFixed && !task.ignoresLoad
      const isBeside = adapts && limit!.inFlight > 1 && isRefusal(error)
      const isAdapting = isBeside && isFirst && this.#isAdapting(error, began)
      if (error instanceof DeliveryError && !task.pausesAlone && !isAdapting) pauseMs = pauseOf(error)
      return { error, since, isBeside, isAdapting }
    } finally {
      this.#running.delete(controller)
      if (forgetsSignals && !signal.aborted) this.#spare = controller
      this.#stopIfIdle()
      ended?.(clock.now() - began, outcome, pauseMs)
      this.#wake()
    }
  }

  /** Aborts the attempts that are late at `at`. All have the same timeout, so the oldest attempt is late first. */
  #setTimer(at: number): void {
    const { timeout, clock, after } = this.#context
    const abortLate = () => {
      const now = Math.max(at, clock.now())
      this.#stopTimer = undefined
      for (const [controller, lateAt] of this.#running) {
        if (lateAt > now) return this.#setTimer(lateAt)
        const message = `no answer within ${formatDuration(timeout)}`
        controller.abort(new DeliveryError(message, { failure: 'retry', reason: 'timeout', causedBy: 'overload' }))
      }
    }
    this.#stopTimer = unlessAnswered(at - clock.now(), abortLate, after)
  }

  #stopIfIdle(): void {
    if (this.#isLeaving && this.#running.size === 0) this.#stopTimer?.()
  }

  #abort(reason: Error): void {
    for (const controller of this.#running.keys()) controller.abort(reason)
  }

  async #waitAfter(task: Task, error: DeliveryError, failures: number, backoffMs: number): Promise<void> {
    const { clock, log } = this.#context
    this.#failing.set(task, error)
    const pauseMs = pauseOf(error)
    // A pause applies to all requests, or only to the requests of a partition.
    if (clock.now() + pauseMs > this.#pausedUntil + LONG_PAUSE_MS) this.#logPause(error, pauseMs)
    if (!task.pausesAlone) this.#pausedUntil = Math.max(this.#pausedUntil, clock.now() + pauseMs)
    const waitMs = this.#waitMs(error, backoffMs)
    const more = this.mayLog(`retry ${error.reason}`)
    if (more) {
      this.#outage.isLogged = true
      const count = this.#outage.failures?.count ?? failures
      const fields = { ...logFields(error), failures: count, again_in: formatDuration(waitMs), ...more }
      log.warn(fields, 'delivery failed; retrying, and events wait')
    }
    this.#outage.waits(task, clock.now() + waitMs)
    await this.#wait(task, error, waitMs)
    this.#outage.tries(task)
  }

  /** Milliseconds until the next attempt. A random part spreads the requests after a pause. */
  #waitMs(error: DeliveryError, backoffMs: number): number {
    const pauseMs = pauseOf(error)
    return pauseMs === 0
      ? backoffMs
      : Math.max(backoffMs, pauseMs + this.#context.random() * Math.min(1000, pauseMs / 10))
  }

  /**
   * Waits before the next attempt. A request that is the only one of its partition frees its slot during the wait. With
   * an adaptive limit, a refused request does, too.
   */
  async #wait({ pausesAlone = false }: Task, error: DeliveryError, ms: number): Promise<void> {
    const { limit, yielded } = this.#context
    const isApart = pausesAlone || error.ofPartition
    const yields = isApart || (!limit?.isFixed && outcomeOf(error) === 'overload')
    const back = yields ? limit?.yields(isApart) : undefined
    if (back) yielded?.()
    await this.#sleep(ms)
    back?.()
  }

  #logPause(error: DeliveryError, pauseMs: number): void {
    if (pauseMs < LONG_PAUSE_MS) return
    const { clock, log } = this.#context
    this.#longPauseEnds = new Date(clock.wall() + pauseMs).toISOString()
    const asked = formatDuration(error.retryAfterMs!)
    const fields = { ...logFields(error), asked, waits: formatDuration(pauseMs), until: this.#longPauseEnds }
    log.warn(fields, 'the receiver requested a long pause (Retry-After); events wait until it ends, at most an hour')
  }

  #logHold(error: DeliveryError): void {
    const text = 'the destination is paused until the cause is corrected; its events wait and are not lost'
    this.#context.log.error(logFields(error), text)
  }

  #logEnd(past: PastOutage | undefined, endsHold: boolean): void {
    const { clock, log } = this.#context
    const fields = past && {
      since: new Date(clock.wall() + past.since - clock.now()).toISOString(),
      lasted: formatDuration(past.until - past.since),
      failures: past.failures,
    }
    if (endsHold) log.info(fields ?? {}, 'the destination is no longer paused')
    else if (past && this.#outage.isLogged) log.info(fields, 'delivery works again')
    if (past) this.#outage.isLogged = false
  }

  /** Resolves after `ms` milliseconds, or as soon as `leave` or `close` is called. */
  #sleep(ms: number): Promise<void> {
    return sleep(ms, this.#ended.signal, this.#context.after)
  }
}

function outcomeOf(error: unknown): AttemptOutcome {
  if (!(error instanceof DeliveryError) || error.ofPartition) return 'other'
  if (error.causedBy === 'overload') return error.causedBy
  return error.rejected ? 'ok' : 'other'
}

/** Whether the receiver refused the request because of overload. */
const isRefusal = (error: unknown): error is DeliveryError =>
  error instanceof DeliveryError && error.reason !== 'timeout' && outcomeOf(error) === 'overload'

/** Whether the error says which events of the request failed. */
const isPartial = (error: unknown) => error instanceof DeliveryError && error.rejected !== undefined

const pauseOf = ({ retryAfterMs = 0 }: DeliveryError) => Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS)

const isBehind = (kind: TaskKind, other: TaskKind) => TASKS.indexOf(kind) > TASKS.indexOf(other)

export function logFields({ reason, status, requestId, message }: DeliveryError): Record<string, unknown> {
  return { reason, status, request_id: requestId, error: message }
}

function exhausted(error: DeliveryError, failures: number): DeliveryError {
  const { status, requestId } = error
  const message = `gave up after ${failures} attempts: ${error.message}`
  return new DeliveryError(message, { failure: 'reject', reason: 'retries_exhausted', status, requestId, cause: error })
}

/**
 * Pauses a destination until an operator intervenes. All requests of the destination wait. One of them is the probe,
 * and only the probe makes attempts. The same request stays the probe until one of its attempts ends the hold.
 */
class Hold {
  readonly #context: AttemptsContext
  readonly #sleep: (ms: number) => Promise<void>
  readonly #backoff: Backoff
  readonly #waiting: (() => void)[] = []
  error: DeliveryError | undefined
  /** How many holds have ended. If a hold ended during a failed attempt, this attempt does not start another hold. */
  ended = 0
  /** The probe makes its next attempt at this time or earlier. Undefined during an attempt. */
  nextAt: number | undefined
  #probe: object | undefined
  #checkedAt = Number.NEGATIVE_INFINITY
  #closed = false

  constructor(context: AttemptsContext, sleep: (ms: number) => Promise<void>) {
    this.#context = context
    this.#sleep = sleep
    this.#backoff = new Backoff(2 * CHECK_EVERY_MS, LONGEST_WAIT_MS, context.random)
  }

  isProbe(who: object): boolean {
    return this.#probe === who
  }

  /** Starts a hold, or updates the cause of the current hold. Returns whether a hold was started. */
  begin(error: DeliveryError): boolean {
    const begins = this.error === undefined
    this.error = error
    return begins
  }

  /** Resolves when `who` may make an attempt, or immediately if nothing is held. */
  async pass(who: object): Promise<void> {
    while (this.error && !this.#closed) {
      this.#probe ??= who
      if (this.#probe === who) {
        await this.#untilWorthwhile()
        this.nextAt = undefined
        return
      }
      await new Promise<void>(resolve => this.#waiting.push(resolve))
    }
  }

  async #untilWorthwhile(): Promise<void> {
    const { clock, changed } = this.#context
    const until = clock.now() + this.#backoff.next()
    this.nextAt = until
    while (!this.#closed) {
      if (clock.now() - this.#checkedAt >= CHECK_EVERY_MS) {
        this.#checkedAt = clock.now()
        if (await changed()) return
      }
      const leftMs = until - clock.now()
      if (leftMs <= 0) return
      await this.#sleep(Math.min(leftMs, CHECK_EVERY_MS))
    }
  }

  end(): void {
    this.ended++
    this.error = undefined
    this.#probe = undefined
    this.#backoff.reset()
    this.#wake()
  }

  close(): void {
    this.#closed = true
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

/** Counts failures since the last success, and knows when the next attempt is due. Times are from `Clock.now`. */
class Outage {
  readonly #clock: Clock
  readonly #next = new Map<object, number>()
  /** Undefined while delivery works. */
  failures: Failures | undefined
  error = ''
  past: PastOutage | undefined
  #isInherited: boolean
  #of: TaskKind = 'start'
  isLogged = false
  hasDelivered: boolean

  constructor(clock: Clock, inherited?: OutageState) {
    this.#clock = clock
    this.failures = inherited?.failures
    this.#isInherited = this.failures !== undefined
    this.past = inherited?.past
    this.hasDelivered = inherited?.hasDelivered ?? false
    if (!inherited || !this.#isInherited) return
    this.error = inherited.error
    this.#of = inherited.of
    this.isLogged = inherited.isLogged
  }

  /** `began`: if this failure begins an outage, the time when the outage began. */
  failed(error: string, kind: TaskKind, began: number): void {
    const { since, count } = this.failures ?? { since: began, count: 0 }
    this.failures = { since, lastAt: this.#clock.now(), count: count + 1 }
    this.error = error
    if (isBehind(kind, this.#of)) this.#of = kind
    this.#isInherited = false
  }

  /** Records when `who` makes its next attempt. */
  waits(who: object, until: number): void {
    this.#next.set(who, until)
  }

  tries(who: object): void {
    this.#next.delete(who)
  }

  /** Records a success. If this success ends an outage, returns the outage. */
  worked(kind: TaskKind): PastOutage | undefined {
    if (!this.failures || isBehind(this.#of, kind)) return undefined
    const { since, count: failures } = this.failures
    this.past = { since, until: this.#clock.now(), failures, error: this.error }
    this.failures = undefined
    this.#isInherited = false
    this.#of = 'start'
    return this.past
  }

  /** The error of the previous delivery; undefined once an attempt of this delivery has failed or succeeded. */
  get inheritedError(): string | undefined {
    return this.#isInherited ? this.error : undefined
  }

  /** When the earliest next attempt is due; undefined if no request waits. */
  get nextAt(): number | undefined {
    return this.#next.size > 0 ? Math.min(...this.#next.values()) : undefined
  }

  get state(): OutageState {
    const { failures, error, past, isLogged, hasDelivered } = this
    return { failures, error, of: this.#of, hasDelivered, isLogged, past }
  }
}
