import { dataViewOf } from '../buckets/key-table.js'
import { type Limit, scaleOf } from '../limit.js'
import type { Periods } from '../windows/periods.js'
import { periodsOf } from '../windows/several.js'

/** The limits that daemons share, and the script calls for them. */

/** A member takes ahead at most this part of a limit, and at most this part of the remaining units. */
export const LEASED_PART = 0.1

/** The speeds of two clocks may differ by this fraction, which is ten times the error of computer clocks. */
export const CLOCK_MARGIN = 0.001

/** For each mode: its letter in bucket names, and its number in the script. */
const MODES = { fixed: ['f', 0], aligned: ['a', 1], gcra: ['g', 2], quota: ['q', 3] } as const
const UNITS = { events: '', cost: 'c', bytes: 'b' } as const

type SharedMode = keyof typeof MODES

/** One limit. Amounts are in window units (`scaleOf`). */
interface SharedLimit {
  readonly of: Limit
  readonly mode: SharedMode
  readonly most: number
  /** gcra: units that may pass at once above the smooth rate. */
  readonly burst: number
  readonly windowMs: number
  readonly inBytes: boolean
  readonly periods: Periods | undefined
}

/** The limits of a throttle or a rule. All members of a group apply them to the same counts. */
export class SharedLimits {
  readonly limits: readonly SharedLimit[]
  /** Maximum part of the remaining units that a member may take ahead. If 0, the server is asked about each event. */
  readonly part: number
  /** Prefix of the bucket names on the server. Buckets that are stored differently have different prefixes. */
  readonly name: string
  readonly hasCosts: boolean
  readonly hasBytes: boolean
  /** Whether a demand lists the cost of each event. This is needed if an event may cost more or less than 1. */
  readonly listsCosts: boolean
  /** Maximum units that a member may take ahead. */
  readonly mostCost: number
  readonly mostBytes: number
  readonly shortestMs: number

  /** `rule`: the name of the rule; empty for the limits of the throttle itself. */
  constructor(limits: readonly Limit[], part: number, rule = '') {
    this.limits = limits.map(shared)
    this.part = part
    const shape = limits.map(({ mode, unit }) => MODES[mode as SharedMode][0] + UNITS[unit]).join('-')
    this.name = rule === '' ? shape : `${shape}:${rule}`
    this.hasBytes = this.limits.some(({ inBytes }) => inBytes)
    this.hasCosts = this.limits.some(({ inBytes }) => !inBytes)
    this.listsCosts = limits.some(({ unit }) => unit !== 'events')
    this.mostCost = this.#mostAhead(false)
    this.mostBytes = this.#mostAhead(true)
    this.shortestMs = Math.min(...limits.map(({ windowMs }) => windowMs))
  }

  #mostAhead(inBytes: boolean): number {
    const limits = this.limits.filter(limit => limit.inBytes === inBytes)
    if (limits.length === 0 || this.part === 0) return 0
    return Math.floor(Math.min(...limits.map(({ most }) => most)) * LEASED_PART)
  }
}

function shared(limit: Limit): SharedLimit {
  const { mode, windowMs, unit } = limit
  if (mode === 'sliding') throw new Error('sliding limits cannot be shared')
  const scale = scaleOf(limit)
  return {
    of: limit,
    mode,
    most: limit.limit * scale,
    burst: (limit.burst ?? limit.limit - 1) * scale,
    windowMs,
    inBytes: unit === 'bytes',
    periods: mode === 'quota' ? periodsOf(limit) : undefined,
  }
}

/** Microseconds per millisecond. The script and the server's clock count microseconds. */
const MICROS = 1000
const DOUBLE = 8
const PER_LIMIT = 7
const PER_KEY = 9
const PER_EVENT = 2
const REPLIES_PER_KEY = 7
const ONE = 0x31

/** A daemon's request about one bucket. */
export interface LeaseDemand {
  readonly limits: SharedLimits
  /** The bucket's key; empty: the default bucket. */
  readonly key: Buffer
  /** Number of events, the sum of their costs, and the sum of their sizes. */
  events: number
  cost: number
  bytes: number
  /** For each event, in order: its cost, then its size. Undefined: each event costs 1. */
  readonly list: number[] | undefined
  /** Spent units of the last lease. */
  readonly spentCost: number
  readonly spentBytes: number
  /** Units that this demand gives back to the server, and the ticket of these units. */
  backCost: number
  backBytes: number
  readonly ticket: number
}

export const NO_LEASE = {
  ...{ events: 0, cost: 0, bytes: 0, list: undefined },
  ...{ spentCost: 0, spentBytes: 0, backCost: 0, backBytes: 0, ticket: 0 },
}

/** The server's reply about one bucket. */
export interface LeaseGrant {
  /** A number: this many events pass, beginning with the first. A list: 1 for each event that passes. */
  readonly passed: number | Uint8Array
  /** Units taken ahead. */
  readonly cost: number
  readonly bytes: number
  /** If a limit refused an event: how long until the limit has room. Otherwise: how long these units are valid. */
  readonly waitMs: number
  readonly ticket: number
  /**
   * The index of the limit that refused an event or, if all events passed, of the fullest limit. Then the used units of
   * this limit, and the time until its window ends.
   */
  readonly nearest: number
  readonly used: number
  readonly endsMs: number
}

/** Number of different hash tags in the bucket names of a group. In a Redis Cluster, each tag needs a separate call. */
const TAGS = 16
/** Maximum number of buckets in one call, so that the script blocks its server for only a few milliseconds. */
const MOST_KEYS = 500

export interface ScriptCall {
  readonly keys: readonly Buffer[]
  readonly args: readonly Buffer[]
  /** Indices of the demands that the call is for. */
  readonly demands: readonly number[]
}

/**
 * Creates the calls for the demands of a batch. All calls are sent together. `byTag`: whether all keys of a call must
 * be in the same slot. `wall`: the time of the server's clock, in milliseconds, for the periods of quotas.
 */
export function scriptCalls(
  group: string,
  demands: readonly LeaseDemand[],
  byTag: boolean,
  wall: number,
): ScriptCall[] {
  const tags = demands.map(({ key }) => tagOf(key))
  const lists: number[][] = Array.from({ length: byTag ? TAGS : 1 }, () => [])
  for (let i = 0; i < demands.length; i++) lists[byTag ? tags[i]! : 0]!.push(i)
  const calls: ScriptCall[] = []
  for (const list of lists) {
    for (let from = 0; from < list.length; from += MOST_KEYS) {
      const some = list.slice(from, from + MOST_KEYS)
      const chosen = some.map(index => demands[index]!)
      const keys = chosen.map(({ key, limits }, i) =>
        Buffer.concat([Buffer.from(`sluice:${limits.name}:{${group}.${tags[some[i]!]}}:`), key]),
      )
      calls.push({ keys, args: argsOf(chosen, wall), demands: some })
    }
  }
  return calls
}

function argsOf(demands: readonly LeaseDemand[], wall: number): Buffer[] {
  const sets = [...new Set(demands.map(({ limits }) => limits))]
  const indexes = new Map(sets.map((limits, n) => [limits, n]))
  const events = demands.reduce((sum, { list }) => sum + (list?.length ?? 0) / PER_EVENT, 0)
  const asked = new Doubles(demands.length * PER_KEY + events * PER_EVENT)
  for (const demand of demands) {
    const { limits, cost, bytes, list, backCost, backBytes, ticket } = demand
    asked.add(indexes.get(limits)!)
    asked.add(backCost)
    asked.add(backBytes)
    asked.add(ahead(cost, demand.spentCost, limits.mostCost))
    asked.add(ahead(bytes, demand.spentBytes, limits.mostBytes))
    asked.add(cost)
    asked.add(bytes)
    asked.add(ticket)
    asked.add(list ? list.length / PER_EVENT : 0)
    if (list) for (const amount of list) asked.add(amount)
  }
  return [encodeSets(sets, wall), asked.bytes]
}

/**
 * Units to take ahead: twice the spent units of the last lease, but at least `need` and at most `most`. The leases of a
 * busy bucket grow, so the server is asked about it less often.
 */
function ahead(need: number, spent: number, most: number): number {
  return need === 0 ? 0 : Math.min(most, Math.max(need, spent * 2))
}

function encodeSets(sets: readonly SharedLimits[], wall: number): Buffer {
  const length = sets.reduce((sum, { limits }) => sum + 1 + limits.length * PER_LIMIT, 0)
  const doubles = new Doubles(length)
  for (const { limits, part } of sets) {
    doubles.add(limits.length)
    for (const { mode, inBytes, most, windowMs, burst, periods } of limits) {
      const end = periods?.endOf(wall) ?? 0
      const times = periods
        ? [periods.startOf(wall), end, periods.endOf(end)].map(ms => ms * MICROS)
        : [Math.max(1, Math.round(windowMs * MICROS)), burst, 0]
      for (const value of [MODES[mode][1], inBytes ? 1 : 0, most, part, ...times]) doubles.add(value)
    }
  }
  return doubles.bytes
}

class Doubles {
  readonly bytes: Buffer
  readonly #view: DataView
  #at = 0

  constructor(length: number) {
    this.bytes = Buffer.alloc(length * DOUBLE)
    this.#view = dataViewOf(this.bytes)
  }

  add(value: number): void {
    this.#view.setFloat64(this.#at, value, true)
    this.#at += DOUBLE
  }
}

/**
 * Stores the reply to a call in `grants`, with one grant at the index of each demand. Throws if the reply cannot come
 * from the script. Returns the server's time in milliseconds, and the number of keys that did not hold a bucket.
 */
export function readReply(
  call: ScriptCall,
  demands: readonly LeaseDemand[],
  reply: unknown,
  grants: LeaseGrant[],
): { wall: number; foreign: number } {
  if (!Array.isArray(reply) || reply.length !== 2 + call.demands.length * REPLIES_PER_KEY) throw unknownReply()
  const ticket = numberOf(reply[0])
  for (const [i, index] of call.demands.entries()) {
    const at = 1 + i * REPLIES_PER_KEY
    const { events, limits } = demands[index]!
    grants[index] = {
      passed: passedOf(reply[at], events),
      cost: numberOf(reply[at + 1]),
      bytes: numberOf(reply[at + 2]),
      waitMs: numberOf(reply[at + 3]) / MICROS,
      ticket,
      nearest: indexOf(reply[at + 4], limits.limits.length),
      used: numberOf(reply[at + 5]),
      endsMs: numberOf(reply[at + 6]) / MICROS,
    }
  }
  return { wall: ticket / MICROS, foreign: numberOf(reply.at(-1)) }
}

function passedOf(passed: unknown, events: number): number | Uint8Array {
  if (typeof passed === 'number') return passed < 0 ? events : passed
  if (typeof passed !== 'string' || passed.length !== events) throw unknownReply()
  return Uint8Array.from(passed, (_, i) => (passed.charCodeAt(i) === ONE ? 1 : 0))
}

/** All numbers from the script are at least 0, except -1, which means that all events pass. */
function numberOf(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) throw unknownReply()
  return value
}

function indexOf(value: unknown, length: number): number {
  const index = numberOf(value)
  if (!Number.isInteger(index) || index >= length) throw unknownReply()
  return index
}

const unknownReply = () => new Error('the server sent an unexpected reply to the script')

/** The hash tag of a key. All daemons compute the same tag. */
function tagOf(key: Buffer): number {
  let hash = 0
  for (const byte of key) hash = (Math.imul(hash, 31) + byte) | 0
  return (hash ^ (hash >>> 16)) & (TAGS - 1)
}
