import { BucketKey } from '../buckets/bucket-key.js'
import type { PlacedKey } from '../buckets/bucket-part.js'
import { BucketBound, KeyedBuckets } from '../buckets/keyed-buckets.js'
import { ASK, DISCARD, FULL, PASS } from '../decisions.js'
import { type Level, type Limit, scaleOf } from '../limit.js'
import { ClockTiming, Limiter } from '../limiter.js'
import type { ExactRule } from '../rules/exact-rules.js'
import type { Rule } from '../rules/rule.js'
import { keepOnly, type RuledLimiter } from '../rules/rules.js'
import { Leases } from './leases.js'
import { CLOCK_MARGIN, type LeaseDemand, type LeaseGrant, NO_LEASE, SharedLimits } from './script-calls.js'

/** ASK: the server has to be asked about the event. */
export type LeaseDecision = typeof PASS | typeof DISCARD | typeof ASK

/** After a refusal, asks about the bucket again after FULL_PART of the shortest window (at most LONGEST_FULL_MS). */
const FULL_PART = 1 / 20
const LONGEST_FULL_MS = 1000
/** A lease is given back if unused for IDLE_PART of the shortest window, or for LONGEST_IDLE_MS if that is shorter. */
const IDLE_PART = 1 / 4
const LONGEST_IDLE_MS = 1000

/** If neither the server nor the local share knows when room comes, the server is asked again within this time. */
const GUESS_MS = 100

export interface LeaseOptions {
  readonly limits: readonly Limit[]
  /** Maximum part of the remaining units that a member takes ahead. With 0, the server is asked about each event. */
  readonly part: number
  /** Number of members of the group. While the server cannot be asked, each member applies its share of the limits. */
  readonly members: number
  readonly maxKeys: number
  readonly seed: number
}

/** Collects the demands of a batch, one for each bucket, to be sent to the server. */
export class LeaseDemands {
  /** The number of the current batch, from 1. */
  batch = 0
  demands: LimiterDemand[] = []
  /** Index in `demands`: the demand for the last event with the decision ASK. */
  last = 0

  begin(): void {
    this.batch = (this.batch + 1) >>> 0 || 1
    this.demands = []
  }
}

export interface LimiterDemand extends LeaseDemand {
  readonly by: LeaseLimiter
}

/** Decides from leases, and collects demands for the server. */
export class LeaseLimiter implements RuledLimiter {
  readonly asking: LeaseDemands
  /** Decides while the server cannot be asked. */
  readonly local: Limiter<ClockTiming> | ExactRule
  readonly localOfAll: Limiter<ClockTiming>
  readonly seed: number
  isReleased = false
  readonly #options: LeaseOptions
  readonly #limits: SharedLimits
  readonly #room: BucketBound
  readonly #buckets: KeyedBuckets<Leases>
  /** The keys of the buckets that may hold a lease, indexed by the key as text. */
  readonly #leased = new Map<string, Buffer>()
  readonly #ofRules = new Map<string, LeaseLimiter>()
  readonly #key: BucketKey
  /** The demands that give back the leases of removed rules. */
  #returned: LimiterDemand[] = []
  #now = 0

  /** `parent`, `rule`: only for the limiter of a rule. */
  constructor(options: LeaseOptions, parent?: LeaseLimiter, rule?: Rule) {
    const { limits, part, members, maxKeys, seed } = options
    this.seed = seed
    this.#key = new BucketKey([], seed)
    this.#options = options
    this.#limits = new SharedLimits(limits, part, rule?.sharedName)
    this.asking = parent?.asking ?? new LeaseDemands()
    const shares = limits.map(limit => shareOf(limit, members))
    this.localOfAll = parent?.localOfAll ?? new Limiter({ limits: shares, maxKeys, seed }, new ClockTiming())
    this.local = rule ? this.localOfAll.ofRule({ ...rule, limits: shares }) : this.localOfAll
    this.#room = parent ? parent.#room : new BucketBound(maxKeys)
    const create = () => new Leases()
    const idleMs = this.#limits.shortestMs
    this.#buckets = new KeyedBuckets({ idleMs, maxKeys, keepsUsed: false }, create, this.#room)
  }

  ofRule(rule: Rule): LeaseLimiter {
    const limiter =
      this.#ofRules.get(rule.id) ?? new LeaseLimiter({ ...this.#options, limits: rule.limits }, this, rule)
    this.#ofRules.set(rule.id, limiter)
    return limiter
  }

  keepRules(rules: readonly Rule[]): void {
    const kept = new Set(rules.map(({ id }) => id))
    const gone = [...this.#ofRules].filter(([id]) => !kept.has(id))
    this.#returned = this.#returned.concat(...gone.map(([, limiter]) => limiter.giveBack(this.#now, 0)))
    keepOnly(this.#ofRules, rules)
    this.localOfAll.keepRules(rules)
  }

  release(): void {
    this.isReleased = true
    this.#buckets.release()
  }

  get keys(): number {
    return this.#room.size
  }

  get dropped(): number {
    return this.#room.dropped
  }

  /** Number of buckets that may hold a lease, including those of rules. */
  get leased(): number {
    let leased = this.#leased.size
    for (const limiter of this.#ofRules.values()) leased += limiter.leased
    return leased
  }

  /** A lease is given back after this time without use. */
  get idleMs(): number {
    return Math.min(LONGEST_IDLE_MS, this.#limits.shortestMs * IDLE_PART)
  }

  advance(now: number): void {
    this.#now = now
    this.#room.advance(now)
  }

  take(key: PlacedKey | undefined, now: number, cost: number, size: number): LeaseDecision | typeof FULL {
    const id = this.#buckets.bucket(key, now)
    if (id < 0) return FULL
    const leases = this.#buckets.windows
    const { hasCosts, hasBytes } = this.#limits
    const [units, length] = [hasCosts ? cost : 0, hasBytes ? size : 0]
    return leases.spend(id, units, length, now) ? PASS : this.#ask(leases, id, key, now, units, length)
  }

  #ask(leases: Leases, id: number, key: PlacedKey | undefined, now: number, cost: number, size: number): LeaseDecision {
    if (leases.isFull(id, cost, size, now)) return DISCARD
    const { asking } = this
    let index = leases.demand(id, asking.batch)
    if (index < 0) {
      index = asking.demands.length
      leases.setDemand(id, asking.batch, index)
      asking.demands.push(this.#demand(leases, id, key ? bytesOf(key) : NO_KEY, now, this.#limits.listsCosts))
    }
    const demand = asking.demands[index]!
    demand.events++
    demand.cost += cost
    demand.bytes += size
    demand.list?.push(cost, size)
    asking.last = index
    return ASK
  }

  /** Creates a demand without events. The demand gives back the remaining units of the bucket's lease. */
  #demand(leases: Leases, id: number, key: Buffer, now: number, lists: boolean): LimiterDemand {
    const spent = leases.spent(id, now)
    const back = leases.takeBack(id, now)
    return {
      ...NO_LEASE,
      by: this,
      limits: this.#limits,
      key,
      list: lists ? [] : undefined,
      spentCost: spent.cost,
      spentBytes: spent.bytes,
      ...(back && { backCost: back.cost, backBytes: back.bytes, ticket: back.ticket }),
    }
  }

  /** Stores the server's reply about a bucket. `sentAt`: when the server was asked. */
  keep(demand: LeaseDemand, grant: LeaseGrant, sentAt: number, now: number): void {
    // The rule was removed before the reply arrived. Its buckets would count against `maxKeys` for ever.
    if (this.isReleased) return
    const [leases, id] = this.#place(demand.key, now)
    if (id < 0) return
    const { nearest, used, endsMs, waitMs, cost, bytes, ticket } = grant
    leases.setLevel(id, nearest, used, now + endsMs)
    const { part, shortestMs } = this.#limits
    const refused = smallestRefused(demand, grant)
    // The server computed `waitMs` before its reply arrived, so there is certainly room at `now + waitMs`.
    if (refused) leases.setRoomAt(id, now + waitMs)
    if (part === 0) return
    if (refused) {
      // The server received the request after `sentAt`, so the window ends after `sentAt + waitMs`.
      const fullMs = Math.min(shortestMs * FULL_PART, LONGEST_FULL_MS)
      leases.setFull(id, refused.cost, refused.bytes, Math.min(sentAt + waitMs, now + fullMs))
    } else if (cost + bytes > 0) {
      leases.add(id, cost, bytes, sentAt + waitMs * (1 - CLOCK_MARGIN), ticket, now)
      this.#leased.set(demand.key.toString('latin1'), demand.key)
    }
  }

  /** Removes leases that were not used for `idleMs`. Returns the demands that give back the units of these leases. */
  giveBack(now: number, idleMs: number): LimiterDemand[] {
    const returned = this.#returned
    this.#returned = []
    for (const [text, key] of this.#leased) {
      const [leases, id] = this.#place(key, now)
      if (id >= 0 && leases.isIdle(id, now - idleMs)) {
        const demand = this.#demand(leases, id, key, now, false)
        leases.restart(id)
        if (demand.backCost + demand.backBytes > 0) returned.push(demand)
      }
      if (id < 0 || leases.isSpent(id)) this.#leased.delete(text)
    }
    return returned.concat(...[...this.#ofRules.values()].map(limiter => limiter.giveBack(now, idleMs)))
  }

  #place(bytes: Buffer, now: number): [Leases, number] {
    if (bytes.length > 0) this.#key.setBytes(bytes)
    const id = this.#buckets.bucket(bytes.length > 0 ? this.#key : undefined, now)
    return [this.#buckets.windows, id]
  }

  /** When to ask again about an event that was refused; undefined if there is no room for its bucket. */
  roomAt(key: PlacedKey | undefined, now: number, cost: number, size: number): number | undefined {
    const id = this.#buckets.bucket(key, now)
    if (id < 0) return undefined
    const said = this.#buckets.windows.roomAt(id)
    const known = said > now ? said : (this.local.roomAt(key, now, cost, size) ?? now)
    if (known <= now) return now + Math.min(GUESS_MS, this.idleMs)
    // Other members may give back unused units before the time `known`.
    return this.#limits.part === 0 ? known : Math.min(known, now + this.idleMs)
  }

  /** Units left in the lease and on the server (at its last reply). `until`: end of the only limit's window. */
  left(key: PlacedKey, now: number): { left: number; until: number } {
    const { most } = this.#limits.limits[0]!
    const id = this.#buckets.bucket(key, now)
    if (id < 0) return { left: most, until: now }
    const leases = this.#buckets.windows
    const { used, ends } = leases.level(id)
    return { left: now >= ends ? most : most - used + leases.left(id, now), until: ends }
  }

  level(key: PlacedKey | undefined, now: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, now)
    if (id < 0) return undefined
    return fuller(this.#level(this.#buckets.windows, id, now), this.local.level(key, now, cost, size))
  }

  /** How full a bucket is, according to the server's last reply. */
  #level(leases: Leases, id: number, now: number): Level {
    const { nearest, used, ends } = leases.level(id)
    const { of: limit } = this.#limits.limits[nearest]!
    if (now >= ends) return { limit, used: 0, since: now, until: now }
    const since = limit.mode === 'gcra' ? now : Math.min(now, ends - limit.windowMs)
    return { limit, used: used / scaleOf(limit), since, until: ends }
  }
}

const NO_KEY = Buffer.alloc(0)

const bytesOf = ({ bytes, start, end }: PlacedKey) =>
  Buffer.from(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start))

/**
 * Returns `described`, the level from the server. If it is empty and this member has passed events alone, returns
 * `alone`.
 */
function fuller(described: Level, alone: Level | undefined): Level {
  return described.used === 0 && alone !== undefined && alone.used > 0 ? alone : described
}

/** The share of a limit that each member applies while it decides alone. */
function shareOf(limit: Limit, members: number): Limit {
  const share = Math.max(1, Math.floor(limit.limit / members))
  if (limit.mode === 'quota') return { ...limit, limit: share }
  // Fixed windows, not shorter than the server's. So each window of the server overlaps at most two of these windows.
  return { mode: 'fixed', limit: share, windowMs: limit.windowMs * (1 + CLOCK_MARGIN), unit: limit.unit }
}

/** The cost and size of the smallest refused event; undefined: all events passed. */
function smallestRefused(
  { events, list }: LeaseDemand,
  { passed }: LeaseGrant,
): { cost: number; bytes: number } | undefined {
  if (typeof passed === 'number') return passed < events ? { cost: 1, bytes: 0 } : undefined
  let smallest: { cost: number; bytes: number } | undefined
  for (let i = 0; i < passed.length; i++) {
    if (passed[i] === 1) continue
    const [cost, bytes] = [list![i * 2]!, list![i * 2 + 1]!]
    if (!smallest || (cost <= smallest.cost && bytes <= smallest.bytes)) smallest = { cost, bytes }
  }
  return smallest
}
