import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../core/component.js'
import { DeliveryError } from '../../core/errors.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import { type Linked, LinkedList } from '../../lib/linked-list.js'
import { LogLimit } from '../../lib/log-limit.js'
import { after, type Clock, sleep } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { Hold } from './hold.js'
import { Outage, type OutageState, type PastOutage } from './outage.js'

const LONGEST_RETRY_AFTER_MS = 3_600_000
/** What fails for longer than this is not ready. */
const LONG_MS = 5 * 60_000
/** A pause that a receiver asks for is logged when it is longer than this. */
const LONG_PAUSE_MS = 60_000

export interface AttemptsContext {
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
  /** Milliseconds for one attempt. */
  readonly timeout: number
  readonly retry: RetryLimits
  /** While on hold: whether an attempt makes sense at once. */
  readonly changed: () => Promise<boolean>
  readonly failed: (kind: string) => void
  readonly retried: (reason: string) => void
  /** Timers; lib/time.ts when left out. */
  readonly after?: typeof after | undefined
  /** How delivery to the same destination went before a reload. */
  readonly outage?: OutageState | undefined
}

export interface RetryLimits {
  readonly initial: number
  readonly max: number
  readonly max_attempts?: number | undefined
  readonly max_elapsed?: number | undefined
}

/** Something that is tried until it has an end. */
export interface Task {
  /** One attempt. It rejects soon after the signal aborts. */
  attempt(signal: AbortSignal): Promise<void>
  /** What a failure means. May throw instead: then so does `persist`. */
  classify(error: unknown): DeliveryError
  /** Whether `max_attempts` and `max_elapsed` apply. */
  readonly limited: boolean
  /** It is the start of the destination: that it works says nothing about events. */
  readonly isStart?: boolean
}

/** An attempt under way. */
interface Running extends Linked<Running> {
  readonly controller: AbortController
  /** Takes its time limit away. */
  readonly cancel: () => void
}

/**
 * How the requests of one destination, and its start, are tried: time limits, retries, pauses the receiver asks for,
 * and the hold. Tells in the log what an operator should know, without repeating itself.
 */
export class Attempts {
  readonly #context: AttemptsContext
  readonly #hold: Hold
  readonly #outage: Outage
  /** Who waits between two attempts, and why. */
  readonly #failing = new Map<object, DeliveryError>()
  readonly #running = new LinkedList<Running>()
  readonly #ended = new AbortController()
  readonly #limit: LogLimit
  /** The receiver asked for a pause until then. */
  #pausedUntil = 0
  #longPauseEnds: string | undefined

  constructor(context: AttemptsContext) {
    this.#context = context
    const { clock, random, changed, outage } = context
    this.#outage = new Outage(clock, outage)
    // Each attempt may wait.
    setMaxListeners(0, this.#ended.signal)
    this.#limit = new LogLimit(clock)
    this.#hold = new Hold({ clock, random, changed, sleep: ms => this.#sleep(ms) })
  }

  get holding(): boolean {
    return this.#hold.error !== undefined
  }

  /** The first attempt after a reload counts as well, where the last one before it failed. */
  get retrying(): boolean {
    return this.#failing.size > 0 || (this.#outage.inheritedError !== undefined && this.#running.size > 0)
  }

  get #failingMs(): number {
    const { failures } = this.#outage
    return this.retrying && failures ? this.#context.clock.now() - failures.since : 0
  }

  /** Registers the gauges that show whether delivery fails, waits or holds. */
  show(metrics: Pick<ComponentMetrics, 'gauge'>): void {
    const seconds = (ms: number) => Math.max(0, ms) / 1000
    const { clock } = this.#context
    metrics.gauge('sluice_delivery_holding', 'Whether the destination waits for an operator.', () =>
      this.holding ? 1 : 0,
    )
    const failing = 'For how long at least one request has been failing at every moment; 0 while delivery works.'
    metrics.gauge('sluice_delivery_failing_seconds', failing, () => seconds(this.#failingMs))
    const paused = 'Time until the next attempt, where the receiver asked for a pause (Retry-After); at most an hour.'
    metrics.gauge('sluice_delivery_paused_seconds', paused, () => seconds(this.#pausedUntil - clock.now()))
  }

  /** When the pause ends that the receiver asked for, as ISO 8601; undefined: there is none worth mentioning. */
  get pausedUntil(): string | undefined {
    const { clock } = this.#context
    return this.#longPauseEnds !== undefined && clock.now() < this.#pausedUntil ? this.#longPauseEnds : undefined
  }

  /** Whether something has failed at every moment for so long that nobody should call it ready. */
  get failingLong(): boolean {
    return this.#failingMs >= LONG_MS
  }

  /**
   * How often attempts have failed since one was successful, when the next one is made, and the outage before. `pausedMs`: for
   * how long nothing at all is sent, because the receiver asked for a pause. `state`: what the delivery that replaces this one
   * continues with.
   */
  get outage(): Pick<Outage, 'failures' | 'nextAt' | 'past' | 'state'> & { readonly pausedMs: number } {
    const { failures, nextAt, past } = this.#outage
    const state = { ...this.#outage.state, isLogged: this.#outage.isLogged || this.holding }
    const next = this.holding ? this.#hold.nextAt : nextAt
    const pausedMs = this.#running.size > 0 ? 0 : Math.max(0, this.#pausedUntil - this.#context.clock.now())
    return {
      failures,
      past,
      pausedMs,
      state,
      nextAt: next === undefined ? undefined : Math.max(next, this.#pausedUntil),
    }
  }

  /** Why it holds or tries again. */
  get error(): string | undefined {
    const error = this.#hold.error ?? this.#failing.values().next().value
    if (error) return error.message
    return this.retrying ? this.#outage.inheritedError : undefined
  }

  /** Attempts until one has an end: undefined (it worked, or all is closed), or why it never will. */
  async persist(task: Task): Promise<DeliveryError | undefined> {
    const { failed, retried, retry, random, clock } = this.#context
    const { max_attempts: maxAttempts = Infinity, max_elapsed: maxElapsed = Infinity } = task.limited ? retry : {}
    const backoff = new Backoff(retry.initial, retry.max, random)
    let failures = 0
    let since = 0
    for (;;) {
      await this.#turn(task)
      if (this.#ended.signal.aborted) return undefined
      const { ended } = this.#hold
      const thrown = await this.#attempt(task)
      if (this.#ended.signal.aborted) return undefined
      const error = thrown && task.classify(thrown.error)
      if (error) failed(error.reason)
      if (error?.failure === 'hold' || error?.failure === 'retry') this.#outage.failed(error.message, !task.isStart)
      if (error?.failure === 'hold') {
        this.#failing.delete(task)
        // Refused with what was replaced meanwhile: that is no reason to hold again.
        if (!this.holding && this.#hold.ended > ended) continue
        if (this.#hold.begin(error)) this.#logHold(error)
      } else if (error?.failure === 'retry') {
        retried(error.reason)
        // While it holds, the hold says when to try again, and nothing is given up.
        if (this.holding) continue
        if (failures++ === 0) since = clock.now()
        if (failures >= maxAttempts || clock.now() - since >= maxElapsed) {
          this.#failing.delete(task)
          return exhausted(error, failures)
        }
        await this.#waitAfter(task, error, failures, backoff.next())
      } else {
        this.#failing.delete(task)
        const endsHold = this.#hold.isProbe(task)
        if (endsHold) this.#hold.end()
        const past = this.holding || this.#failing.size > 0 ? undefined : this.#outage.worked(!task.isStart)
        this.#logEnd(past, endsHold)
        return error
      }
    }
  }

  /** Ends every wait and aborts every attempt; nothing is tried any more. */
  close(): void {
    const suppressed = this.#limit.rest()
    if (!this.#ended.signal.aborted && Object.keys(suppressed).length > 0)
      this.#context.log.info({ suppressed }, 'messages that were left out of the log, by kind')
    for (const { controller, cancel } of this.#running) {
      cancel()
      controller.abort(new Error('the time to deliver is over'))
    }
    this.#hold.close()
    this.#ended.abort()
    this.#failing.clear()
  }

  /** Whether to log something of this kind now; with the number of messages of the kind that were left out. */
  mayLog(kind: string): { suppressed?: number } | undefined {
    return this.#limit.next(kind)
  }

  /** Waits until nothing forbids an attempt. */
  async #turn(task: Task): Promise<void> {
    do {
      await this.#hold.pass(task)
      const { clock } = this.#context
      while (!this.#ended.signal.aborted && clock.now() < this.#pausedUntil)
        await this.#sleep(this.#pausedUntil - clock.now())
    } while (!this.#ended.signal.aborted && this.holding && !this.#hold.isProbe(task))
  }

  /** What the attempt threw, if it did. */
  async #attempt(task: Task): Promise<{ error: unknown } | undefined> {
    const { timeout } = this.#context
    const controller = new AbortController()
    const cancel = this.#after(timeout, () => {
      const message = `no answer within ${formatDuration(timeout)}`
      controller.abort(new DeliveryError(message, { failure: 'retry', reason: 'timeout' }))
    })
    const running: Running = { controller, cancel }
    this.#running.add(running)
    try {
      await task.attempt(controller.signal)
      return undefined
    } catch (error) {
      return { error: controller.signal.aborted ? controller.signal.reason : error }
    } finally {
      cancel()
      this.#running.delete(running)
    }
  }

  async #waitAfter(task: Task, error: DeliveryError, failures: number, backoffMs: number): Promise<void> {
    const { clock, log, random } = this.#context
    this.#failing.set(task, error)
    let waitMs = backoffMs
    if (error.retryAfterMs !== undefined) {
      // The receiver speaks for all requests. A little more, so that not all of them come at the same moment.
      const pauseMs = Math.min(error.retryAfterMs, LONGEST_RETRY_AFTER_MS)
      if (clock.now() + pauseMs > this.#pausedUntil + LONG_PAUSE_MS) this.#logPause(error, pauseMs)
      this.#pausedUntil = Math.max(this.#pausedUntil, clock.now() + pauseMs)
      waitMs = Math.max(waitMs, pauseMs + random() * Math.min(1000, pauseMs / 10))
    }
    const more = this.mayLog(`retry ${error.reason}`)
    if (more) {
      this.#outage.isLogged = true
      const fields = { ...logFields(error), failures, again_in: formatDuration(waitMs), ...more }
      log.warn(fields, 'delivery fails and is tried again; events wait')
    }
    this.#outage.waits(task, clock.now() + waitMs)
    await this.#sleep(waitMs)
    this.#outage.tries(task)
  }

  #logPause(error: DeliveryError, pauseMs: number): void {
    if (pauseMs < LONG_PAUSE_MS) return
    const { clock, log } = this.#context
    this.#longPauseEnds = new Date(clock.wall() + pauseMs).toISOString()
    const asked = formatDuration(error.retryAfterMs!)
    const fields = { ...logFields(error), asked, waits: formatDuration(pauseMs), until: this.#longPauseEnds }
    log.warn(fields, 'the receiver asked for a long pause (Retry-After); events wait until it ends, an hour at most')
  }

  #logHold(error: DeliveryError): void {
    const text = 'delivery is on hold until the cause is corrected; events wait, nothing is dropped'
    this.#context.log.error(logFields(error), text)
  }

  #logEnd(past: PastOutage | undefined, endsHold: boolean): void {
    const { clock, log } = this.#context
    const fields = past && {
      since: new Date(clock.wall() + past.since - clock.now()).toISOString(),
      lasted: formatDuration(past.until - past.since),
      failures: past.failures,
    }
    if (endsHold) log.info(fields ?? {}, 'delivery is no longer on hold')
    else if (past && this.#outage.isLogged) log.info(fields, 'delivery works again')
    if (past) this.#outage.isLogged = false
  }

  #after(ms: number, fn: () => void): () => void {
    return (this.#context.after ?? after)(ms, fn)
  }

  /** Resolves after `ms`, or at once when all is closed. */
  #sleep(ms: number): Promise<void> {
    return sleep(ms, this.#ended.signal, this.#context.after)
  }
}

/** What the log says about a failure. */
export function logFields({ reason, status, requestId, message }: DeliveryError): Record<string, unknown> {
  return { reason, status, request_id: requestId, error: message }
}

function exhausted(error: DeliveryError, failures: number): DeliveryError {
  const { status, requestId } = error
  const message = `given up after ${failures} attempts: ${error.message}`
  return new DeliveryError(message, { failure: 'reject', reason: 'retries_exhausted', status, requestId, cause: error })
}
