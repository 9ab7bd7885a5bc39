import type { Behind } from '../../../core/event/behind.js'
import { resized } from '../../../lib/columns.js'
import { DISCARD, PASS, type WindowDecision } from '../decisions.js'
import { type Level, type Limit, scaleOf } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import { LimitWindows } from '../windows.js'

/** A microsecond, after which the next window counts. */
const STEP_MS = 1 / 1000

/** A moment may move by this when it is saved and read again with another clock. */
const SAME_MS = 100

const CAUGHT_UP: Behind = { since: Number.NEGATIVE_INFINITY, isOver: true }

const ALL = ''

const isOpen = (behind: Behind | undefined): behind is Behind => behind !== undefined && !behind.isOver

/**
 * A source that is or was behind, or all such sources together, as long as a bucket may have passed more of their events
 * than running windows allow.
 */
class Account {
  /** Empty: all sources that are behind. */
  readonly source: string
  /** The period in which the source is behind. Undefined after a restart, until its first batch. */
  behind: Behind | undefined
  /** Since when buckets of this source are judged by their sum. */
  since = 0
  /** When the last bucket that has passed more will have made up for it. */
  until = Number.NEGATIVE_INFINITY

  constructor(source: string) {
    this.source = source
  }
}

/** The accounts of a throttle. Call `enter` before the decisions about a batch, and `leave` before other questions. */
export class Credit {
  /** Whether the current batch was read while its source was behind. */
  isBehind = false
  /** The accounts that judge the current batch. Undefined: only the running windows decide. */
  accounts: readonly Account[] | undefined
  readonly #maxMs: number
  readonly #accounts = new Map<string, Account>()

  constructor(maxMs: number) {
    this.#maxMs = maxMs
  }

  enter(source: string, behind: Behind | undefined, now: number): void {
    this.accounts = undefined
    this.isBehind = behind !== undefined && this.#maxMs > 0
    if (!this.isBehind && this.#accounts.size === 0) return
    const account = this.isBehind ? this.accountOf(source) : this.#accounts.get(source)
    if (account) account.behind = behind ?? account.behind ?? CAUGHT_UP
    const all = this.accountOf(ALL)
    all.behind = CAUGHT_UP
    for (const { behind, source } of this.#accounts.values())
      if (source !== ALL && isOpen(behind) && !(all.behind.since < behind.since && isOpen(all.behind)))
        all.behind = behind
    const both = account ? [account, all] : [all]
    for (const one of both) one.since = Math.max(one.behind!.since, now - this.#maxMs)
    for (const one of both) if (!isOpen(one.behind) && now >= one.until) this.#accounts.delete(one.source)
    const left = both.filter(one => this.has(one))
    if (left.length > 0) this.accounts = left
  }

  leave(): void {
    this.accounts = undefined
    this.isBehind = false
  }

  accountOf(source: string): Account {
    const account = this.#accounts.get(source) ?? new Account(source)
    this.#accounts.set(source, account)
    return account
  }

  has(account: Account): boolean {
    return this.#accounts.get(account.source) === account
  }
}

/** By bucket, for one source: what has passed since `since`, and what of it had passed when the source fell behind. */
class Sums {
  since = new Float64Array(0)
  passed = new Float64Array(0)
  behindSince = new Float64Array(0)
  before = new Float64Array(0)

  constructor(capacity: number) {
    this.reserve(capacity)
  }

  get columns(): readonly Float64Array[] {
    return [this.since, this.passed, this.behindSince, this.before]
  }

  reserve(capacity: number): void {
    const { length } = this.passed
    if (capacity <= length) return
    this.since = resized(this.since, capacity).fill(Number.NEGATIVE_INFINITY, length)
    this.passed = resized(this.passed, capacity)
    this.behindSince = resized(this.behindSince, capacity).fill(Number.NEGATIVE_INFINITY, length)
    this.before = resized(this.before, capacity)
  }

  empty(bucket: number): void {
    this.since[bucket] = this.behindSince[bucket] = Number.NEGATIVE_INFINITY
    this.passed[bucket] = this.before[bucket] = 0
  }

  /** Moves the sums of a bucket to this object. */
  adopt(bucket: number, from: Sums, fromBucket: number): void {
    for (const [n, column] of this.columns.entries()) column[bucket] = from.columns[n]![fromBucket]!
    from.empty(fromBucket)
  }
}

/**
 * Judges a bucket by its sum while a source is behind. An event of that source passes if, with it, the bucket passes at
 * most limit * (windows + 1) since the source fell behind, where `windows` is the number of windows since then, rounded
 * up. The events of all sources that are behind have a sum, too, since the first of them fell behind. A bucket that kept
 * its limit in each window never exceeds these sums, whatever the windows began with. Once the source has caught up, the
 * running windows decide again, and the sum still holds. A bucket that has used more than its rate keeps this debt if the
 * source falls behind again. So repeated short lags do not add up.
 */
export class CreditedWindows extends LimitWindows {
  readonly #windows: LimitWindows
  readonly #credit: Credit
  readonly #sums = new Map<Account, Sums>()
  readonly #windowMs: number
  /** gcra passes an event of any cost if its bucket has room for one unit. */
  readonly #mostCost: number
  /** What a bucket may pass at once with gcra, in window units; otherwise 0. */
  readonly #atOnce: number
  #capacity = 8

  constructor(windows: LimitWindows, credit: Credit) {
    super(windows.limit, windows.spanMs)
    const { mode, windowMs, burst = 0 } = windows.limit
    const scale = scaleOf(windows.limit)
    this.#windows = windows
    this.#credit = credit
    this.#windowMs = windowMs
    this.#mostCost = mode === 'gcra' ? scale : Number.POSITIVE_INFINITY
    this.#atOnce = mode === 'gcra' ? (burst + 1) * scale : 0
  }

  /** The sums of this account. Begins the sum of the bucket if the source has fallen behind since its last event. */
  #sumsOf(account: Account, bucket: number, now: number): Sums {
    const sums = this.#sumsFor(account)
    if (!isOpen(account.behind)) return sums
    const { since } = account
    if (Math.abs(sums.behindSince[bucket]! - since) > SAME_MS) this.#begin(sums, bucket, since, now)
    // Of all sources, another one may have fallen behind earlier.
    if (since < sums.since[bucket]!) sums.since[bucket] = since
    return sums
  }

  #sumsFor(account: Account): Sums {
    let sums = this.#sums.get(account)
    if (sums !== undefined) return sums
    for (const known of this.#sums.keys()) if (!this.#credit.has(known)) this.#sums.delete(known)
    this.#sums.set(account, (sums = new Sums(this.#capacity)))
    return sums
  }

  #begin(sums: Sums, bucket: number, since: number, now: number): void {
    if (this.#evenAt(sums, bucket) <= since) {
      const running = this.#windows.level(bucket, now, 1, 1)
      // The bucket has already used a window that opened after the source had caught up.
      sums.passed[bucket] = running.since >= since ? running.used * scaleOf(this.limit) : 0
      sums.since[bucket] = since
    }
    sums.behindSince[bucket] = since
    sums.before[bucket] = sums.since[bucket] === since ? 0 : sums.passed[bucket]!
  }

  /** When the bucket has no debt any more. */
  #evenAt(sums: Sums, bucket: number): number {
    return sums.since[bucket]! + (sums.passed[bucket]! / this.#windows.limitUnitsOf(bucket)) * this.#windowMs
  }

  /** How much may pass in the time from `since` to `now`. */
  #most(bucket: number, since: number, now: number): number {
    const limit = this.#windows.limitUnitsOf(bucket)
    return limit * Math.ceil((now - since) / this.#windowMs) + Math.max(limit, this.#atOnce)
  }

  /** When a sum that began at `since` has room for `passed`. */
  #roomIn(bucket: number, since: number, passed: number): number {
    const limit = this.#windows.limitUnitsOf(bucket)
    const windows = Math.ceil((passed - Math.max(limit, this.#atOnce)) / limit)
    return windows <= 0 ? since : since + (windows - 1) * this.#windowMs + STEP_MS
  }

  fits(bucket: number, now: number, cost: number, bytes: number): WindowDecision {
    const { accounts, isBehind } = this.#credit
    if (accounts === undefined) return this.#windows.fits(bucket, now, cost, bytes)
    const counted = Math.min(cost, this.#mostCost)
    for (const account of accounts) if (counted > this.#left(account, bucket, now)) return DISCARD
    if (!isBehind) return this.#windows.fits(bucket, now, cost, bytes)
    return counted <= Math.max(this.#windows.limitUnitsOf(bucket), this.#atOnce) ? PASS : DISCARD
  }

  /** How much more may pass now. */
  #left(account: Account, bucket: number, now: number): number {
    const sums = this.#sumsOf(account, bucket, now)
    const passed = sums.passed[bucket]!
    const left = this.#most(bucket, sums.since[bucket]!, now) - passed
    return Math.min(left, this.#most(bucket, sums.behindSince[bucket]!, now) - passed + sums.before[bucket]!)
  }

  charge(bucket: number, now: number, cost: number, bytes: number): void {
    const { accounts, isBehind } = this.#credit
    if (!isBehind) this.#windows.charge(bucket, now, cost, bytes)
    for (const account of accounts ?? []) {
      const sums = this.#sumsOf(account, bucket, now)
      if (sums.since[bucket] === Number.NEGATIVE_INFINITY) continue
      sums.passed[bucket]! += cost
      account.until = Math.max(account.until, this.#evenAt(sums, bucket))
    }
  }

  override take(bucket: number, now: number, cost: number, bytes: number): WindowDecision {
    if (this.#credit.accounts === undefined) return this.#windows.take(bucket, now, cost, bytes)
    return super.take(bucket, now, cost, bytes)
  }

  override takeAll(ids: Int32Array, from: number, to: number, now: number, decisions: Uint8Array): number {
    if (this.#credit.accounts === undefined) return this.#windows.takeAll(ids, from, to, now, decisions)
    return super.takeAll(ids, from, to, now, decisions)
  }

  override roomAt(bucket: number, now: number, cost: number, bytes: number): number {
    const { accounts = [], isBehind } = this.#credit
    const isTooLarge = cost > this.#windows.limitUnitsOf(bucket) && this.#atOnce === 0
    if (isBehind && isTooLarge) return Number.POSITIVE_INFINITY
    let at = isBehind ? now : this.#windows.roomAt(bucket, now, cost, bytes)
    for (const account of accounts) {
      const sums = this.#sumsOf(account, bucket, now)
      const passed = sums.passed[bucket]! + Math.min(cost, this.#mostCost)
      const inEpisode = this.#roomIn(bucket, sums.behindSince[bucket]!, passed - sums.before[bucket]!)
      at = Math.max(at, this.#roomIn(bucket, sums.since[bucket]!, passed), inEpisode)
    }
    return at
  }

  /** While a source is behind: of the sum, what its last window and one more window have left. */
  level(bucket: number, now: number, cost: number, bytes: number): Level {
    const level = this.#windows.level(bucket, now, cost, bytes)
    const { accounts = [], isBehind } = this.#credit
    if (!isBehind) return level
    const left = Math.min(...accounts.map(account => this.#left(account, bucket, now)))
    const used = Math.max(0, this.#windows.limitUnitsOf(bucket) - left) / scaleOf(this.limit)
    return { limit: level.limit, used, since: now, until: now + this.#windowMs }
  }

  override limitUnitsOf(bucket: number): number {
    return this.#windows.limitUnitsOf(bucket)
  }

  override setLimits(bucket: number, limits: readonly Limit[]): void {
    this.#windows.setLimits(bucket, limits)
  }

  /** A bucket with a sum is in use while the source is behind, and then until it has no debt. */
  override latest(bucket: number): number {
    let latest = this.#windows.latest(bucket)
    for (const [account, sums] of this.#sums) {
      if (sums.passed[bucket] === 0 || !this.#credit.has(account)) continue
      // More events may come that the source read while it was behind.
      if (!account.behind?.isOver) return Number.POSITIVE_INFINITY
      latest = Math.max(latest, this.#evenAt(sums, bucket) - this.spanMs)
    }
    return latest
  }

  override adopt(bucket: number, from: CreditedWindows, fromBucket: number): void {
    this.#windows.adopt(bucket, from.#windows, fromBucket)
    for (const sums of this.#sums.values()) sums.empty(bucket)
    for (const [account, sums] of from.#sums) this.#sumsFor(account).adopt(bucket, sums, fromBucket)
  }

  override reserve(capacity: number): void {
    this.#windows.reserve(capacity)
    if (capacity > this.#capacity) this.#capacity = capacity
    for (const sums of this.#sums.values()) sums.reserve(capacity)
  }

  /** The state of the running window, and then the name and the sums of each source. */
  override write(bucket: number, to: StateWriter): void {
    this.#windows.write(bucket, to)
    const saved = [...this.#sums].filter(([account, sums]) => this.#credit.has(account) && sums.passed[bucket]! > 0)
    to.whole(saved.length)
    for (const [{ source }, sums] of saved) {
      to.bytes(Buffer.from(source))
      for (const column of sums.columns) to.number(column[bucket]!)
    }
  }

  override read(bucket: number, from: StateReader): void {
    this.#windows.read(bucket, from)
    for (const sums of this.#sums.values()) sums.empty(bucket)
    for (let left = from.hasSums ? from.whole() : 0; left > 0; left--) {
      const account = this.#credit.accountOf(from.text())
      const sums = this.#sumsFor(account)
      sums.since[bucket] = from.time()
      sums.passed[bucket] = from.number()
      sums.behindSince[bucket] = from.time()
      sums.before[bucket] = from.number()
      account.until = Math.max(account.until, this.#evenAt(sums, bucket))
    }
  }

  override restartAligned(): void {
    this.#windows.restartAligned()
  }

  override release(): void {
    this.#windows.release()
  }
}
