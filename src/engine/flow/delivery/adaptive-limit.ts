const START = 4
/** The limit grows only while answers take at most this multiple of the baseline. */
const TOLERANCE = 1.5
/** A mean is computed from at least this many answers. */
const LEAST_ANSWERS = 8
/** A shorter time is treated as this time, since differences between such short times do not indicate a queue. */
const LEAST_MS = 1
/** If a mean is below the baseline, the baseline falls by this share of the difference. */
const FALL = 0.25
/** After this many rounds with a queue, halves the number of requests and measures the baseline again. */
const SLOW_ROUNDS = 30
/** After this many round trips, a number of requests that caused a refusal is tried again. */
const WAIT = 32
/** If the receiver requested a pause, such a number is tried again only after this multiple of the pause. */
const WAIT_PAUSES = 10

/**
 * The state that a successor takes over. This state has no baseline, because the successor's options may change the
 * size of requests. The successor measures its own baseline.
 */
export interface LimitState {
  readonly limit: number
  readonly refused: number
}

const BEGINNING: LimitState = { limit: START, refused: Number.POSITIVE_INFINITY }

/** `overload`: the receiver refused the request or did not answer in time. `other`: unrelated to the load. */
export type AttemptOutcome = 'ok' | 'overload' | 'other'

/**
 * Determines how many requests a destination may have in flight (`max_in_flight: auto`). After each round that used the
 * whole limit, the limit grows by the square root of the limit. It does not grow if answers take much longer than
 * without a queue. When the receiver refuses a request, the limit falls to half of the number of requests in flight. It
 * stays below the refused number until that number is tried again.
 */
export class AdaptiveLimit {
  /** Whether the limit is a number that was configured. */
  readonly isFixed: boolean
  readonly #most: number
  #limit: number
  #inFlight = 0
  #waiting = 0
  #apart = 0
  /** How often the limit has changed. */
  #round = 0
  /** Number of the round that began with the limit's last decrease. Requests sent earlier do not affect the limit. */
  #decreased = 0
  #answers = 0
  #sumMs = 0
  /** Mean duration of a request without a queue; undefined until measured. */
  #baseline: number | undefined
  #slowRounds = 0
  /**
   * Number of requests in flight at the last refusal. `#trips`: round trips since that refusal. `#wait`: round trips
   * after which that number of requests is tried again.
   */
  #refused: number
  #trips = 0
  #wait = WAIT

  constructor(most: number, { limit, refused }: LimitState = BEGINNING, isFixed = false) {
    this.isFixed = isFixed
    this.#most = most
    this.#limit = isFixed ? most : Math.min(limit, most)
    this.#refused = refused
  }

  get state(): LimitState | undefined {
    return this.isFixed ? undefined : { limit: this.#limit, refused: this.#refused }
  }

  get allowed(): number {
    return Math.floor(this.#limit)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** How many requests may be in progress, including some that wait for a retry. */
  get requests(): number {
    return this.allowed + Math.min(this.#waiting, this.allowed) + this.#apart
  }

  /**
   * Reports that a failed request waits for its retry. Call the returned function after the wait. `isApart`: the wait
   * concerns only the request's partition.
   */
  yields(isApart: boolean): () => void {
    if (isApart) this.#apart++
    else this.#waiting++
    return () => {
      if (isApart) this.#apart--
      else this.#waiting--
    }
  }

  /**
   * Reports that a request is sent. Call the returned function when the request ends. `pauseMs`: the pause that the
   * receiver requested.
   */
  sent(): (ms: number, outcome: AttemptOutcome, pauseMs?: number) => void {
    const inFlight = ++this.#inFlight
    const round = this.#round
    const isFull = inFlight >= this.allowed
    return (ms, outcome, pauseMs = 0) => {
      // Takes the larger of the two numbers in flight, at sending and now: the receiver may have counted later
      // requests, too.
      const most = Math.max(inFlight, this.#inFlight--)
      if (this.isFixed || round < this.#decreased) return
      if (outcome === 'overload') this.#refuse(most, pauseMs)
      else if (outcome === 'ok' && isFull) this.#accept(Math.max(LEAST_MS, ms), inFlight, round)
    }
  }

  #refuse(inFlight: number, pauseMs: number): void {
    // If only one request was in flight, the number of requests did not cause the refusal.
    this.#refused = inFlight > 1 ? inFlight : Number.POSITIVE_INFINITY
    this.#trips = 0
    this.#wait = WAIT + (WAIT_PAUSES * pauseMs) / (this.#baseline ?? Math.max(LEAST_MS, pauseMs))
    this.#set(inFlight / 2)
  }

  #accept(ms: number, inFlight: number, round: number): void {
    this.#trips += 1 / inFlight
    const isSlow = ms > TOLERANCE * (this.#baseline ?? ms)
    if (this.allowed < this.#refused - 1 && Number.isFinite(this.#refused) && !isSlow) {
      this.#set(this.#limit + 1)
      return
    }
    if (round < this.#round) return
    this.#sumMs += ms
    if (++this.#answers >= Math.max(LEAST_ANSWERS, this.allowed)) this.#endRound(this.#sumMs / this.#answers)
  }

  #endRound(mean: number): void {
    this.#baseline ??= mean
    this.#baseline += FALL * Math.min(0, mean - this.#baseline)
    const share = (TOLERANCE * this.#baseline) / mean
    if (share < 1 && ++this.#slowRounds > SLOW_ROUNDS) {
      this.#slowRounds = 0
      this.#baseline = undefined
      this.#set(this.#limit / 2)
      return
    }
    if (this.allowed >= this.#refused) this.#refused = Number.POSITIVE_INFINITY
    const most = this.#trips < this.#wait ? this.#refused - 1 : this.#refused
    this.#set(Math.min(most, Math.max(0.5, Math.min(1, share)) * this.#limit + Math.sqrt(this.#limit)))
  }

  #set(limit: number): void {
    this.#round++
    if (limit < this.#limit) this.#decreased = this.#round
    this.#limit = Math.max(1, Math.min(this.#most, limit))
    this.#answers = this.#sumMs = 0
  }
}
