import { pino } from 'pino'
import { RedisBackend } from '../../src/components/processors/throttle/cluster/redis-backend.js'
import { type Backend, ClusterDecider } from '../../src/components/throttle/cluster/cluster-decider.js'
import { GCRA_LEASE_PART } from '../../src/components/throttle/cluster/script.js'
import { LEASED_PART, type LeaseDemand, type LeaseGrant } from '../../src/components/throttle/cluster/script-calls.js'
import { PASS } from '../../src/components/throttle/decisions.js'
import { type Limit, scaleOf } from '../../src/components/throttle/limit.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { batchOf, fieldReaderOf } from '../support/batches.js'
import { Seeded } from '../support/seeded.js'
import { SimulatedServer } from './server.js'
import { World } from './world.js'

export interface Settings {
  readonly seed: number
  readonly daemons: number
  readonly mode: 'fixed' | 'aligned' | 'gcra'
  readonly accuracy: 'exact' | 'leased'
  readonly kind: Kind
  /** How long events arrive, in windows of a second. */
  readonly windows: number
  /** Whether the server is stopped, killed and slow. */
  readonly troubles: boolean
}

/** What passed in the worst window. Amounts are in the unit of the limit that was exceeded by the greatest part. */
export interface Outcome {
  readonly events: number
  readonly passed: number
  readonly alone: number
  /** The greatest amount beyond the limit in a window, and what the formula allows then. */
  readonly overshoot: number
  readonly bound: number
  /**
   * How many fewer passed than could have in aligned windows without trouble: the mean, as a part of the limit; of limits
   * of events alone.
   */
  readonly undershoot: number
  readonly violations: readonly string[]
}

const WINDOW = 1000
const LIMIT = 500
const BURST = LIMIT / 10
/** Of one much more arrives than the limit, of another about as much, and little of the last. */
const KEYS = ['heavy', 'light', 'rare'] as const
const BATCHES_PER_WINDOW = 50
const EVENTS_PER_BATCH = 3.5
const TIMEOUT = 250
/** In limits of bytes, what takes the place of one event. */
const EVENT_BYTES = 40
const MOST_BYTES = 80
/** Of sums of costs. */
const ROUNDING = 1e-6
const COSTS = [0, 0.5, 1, 1, 2.5]

/** What the limits count. */
export const LIMITS = {
  events: mode => [{ mode, limit: LIMIT, windowMs: WINDOW, burst: BURST, unit: 'events' }],
  costs: mode => [{ mode, limit: LIMIT, windowMs: WINDOW, burst: BURST, unit: 'cost' }],
  bytes: mode => [{ mode, limit: LIMIT * EVENT_BYTES, windowMs: WINDOW, burst: BURST * EVENT_BYTES, unit: 'bytes' }],
  several: mode => [
    { mode, limit: LIMIT, windowMs: WINDOW, burst: BURST, unit: 'events' },
    { mode: 'fixed', limit: 2 * LIMIT, windowMs: 3 * WINDOW, unit: 'events' },
    { mode: 'aligned', limit: LIMIT * EVENT_BYTES, windowMs: WINDOW, unit: 'bytes' },
  ],
} satisfies Record<string, (mode: Settings['mode']) => Limit[]>
export type Kind = keyof typeof LIMITS

/** What events cost limits of events or costs, and those of bytes. */
interface Amounts {
  readonly cost: number
  readonly bytes: number
}

interface Passed extends Amounts {
  readonly at: number
  readonly events: number
  /** Undefined: by units of the server. */
  readonly alone: number | undefined
}

/** Runs a group of daemons from a seed; the same seed gives the same run. */
export async function runCluster(settings: Settings): Promise<Outcome> {
  const { seed, daemons, mode, accuracy, kind, windows, troubles } = settings
  const random = new Seeded(seed)
  const world = new World()
  const part = accuracy === 'leased' ? LEASED_PART : 0
  const limits: readonly Limit[] = LIMITS[kind](mode)
  const server = new SimulatedServer(world, random, { delayMs: 1, loss: troubles ? 0.001 : 0 })
  const buckets = new Map<string, Bucket>(KEYS.map(key => [key, { passed: [], offered: new Map() }]))
  const begin = world.now
  const end = begin + windows * WINDOW
  let events = 0

  const startDaemon = async (id: number) => {
    const clock = world.clock(random.next() * 1e6, 1 + (random.next() - 0.5) * 1e-3)
    const wanted = new WantedNames()
    let executedAt = 0
    const connect = (lost: (error: Error) => void) => server.connect(lost, at => (executedAt = at))
    const context = {
      log: pino({ level: 'silent' }),
      clock,
      metrics: new ComponentCounters('p', 'processor', 'throttle'),
    }
    const options = { group: 'g', timeoutMs: TIMEOUT, onFailure: 'local_share' } as const
    const redis = new RedisBackend(connect, options, context, () => random.next())
    /** What passed of the batch by units of the server, by key. */
    let granted = new Map<string, Amounts & { events: number }>()
    const backend: Backend = {
      untilReachable: signal => redis.untilReachable(signal),
      async ask(demands) {
        const grants = await redis.ask(demands)
        for (const [i, grant] of (grants ?? []).entries()) {
          if (demands[i]!.events > 0) granted.set(demands[i]!.key.toString(), grantedOf(demands[i]!, grant))
        }
        return grants
      },
    }
    const keyFields = [fieldReaderOf('.k', wanted)]
    const decider = new ClusterDecider(
      {
        keyFields,
        maxKeys: 1000,
        onMaxKeys: 'pass',
        seed: id,
        limits,
        ...(kind === 'costs' && { costField: fieldReaderOf('.c', wanted) }),
        part,
        members: daemons,
        onFailure: 'local_share',
      },
      clock,
      backend,
    )
    const batches = Array.from({ length: 20 }, () => {
      const keys = Array.from({ length: 1 + random.below(6) }, () => pickKey(random, daemons))
      const costs = keys.map(() => (kind === 'costs' ? random.pick(COSTS) : 1))
      const lines = keys.map((k, i) => ({
        k,
        c: costs[i],
        ...(kind !== 'events' && { pad: 'x'.repeat(random.below(40)) }),
      }))
      return { keys, costs, batch: batchOf(lines, { wanted }) }
    })
    const signal = new AbortController().signal
    const decide = async ({ keys, costs, batch }: { keys: string[]; costs: number[]; batch: EventBatch }) => {
      const calledAt = world.now
      granted = new Map()
      const decided = await decider.decide(batch, signal)
      events += keys.length
      for (const key of KEYS) {
        const { passed, offered } = buckets.get(key)!
        const own = keys.filter(own => own === key).length
        if (own > 0) offered.set(windowOf(calledAt), (offered.get(windowOf(calledAt)) ?? 0) + own)
        const total = { events: 0, cost: 0, bytes: 0 }
        for (const [i, own] of keys.entries()) {
          if (own !== key || decided.decisions[i] !== PASS) continue
          total.events++
          total.cost += costs[i]!
          total.bytes += batch.size(i)
        }
        const isAlone = decided.alone > 0 && !granted.has(key)
        const byGrant = granted.get(key) ?? { events: 0, cost: 0, bytes: 0 }
        const [events, cost, bytes] = (['events', 'cost', 'bytes'] as const).map(of => total[of] - byGrant[of])
        // Without the server, units from leases and units of the share are not told apart: they count as both may.
        if (byGrant.events > 0) passed.push({ at: executedAt, ...byGrant, alone: undefined })
        if (events! > 0)
          passed.push({ at: calledAt, events: events!, cost: cost!, bytes: bytes!, alone: isAlone ? id : undefined })
      }
    }
    await redis.start()
    const next = () => {
      const at = world.now - (WINDOW / BATCHES_PER_WINDOW) * Math.log(1 - random.next())
      if (at < end) world.at(at, () => void decide(random.pick(batches)).then(next))
    }
    next()
    const sweep = () => {
      void decider.giveBack(decider.limiter.idleMs)
      if (world.now < end) world.at(world.now + decider.limiter.idleMs, sweep)
    }
    sweep()
  }

  if (troubles) {
    const at = (window: number, fn: () => void) => world.at(begin + window * WINDOW, fn)
    at(2.3, () => server.stop())
    at(3.6, () => server.continue())
    at(5.2, () => server.kill())
    at(5.9, () => server.restart())
    at(8.1, () => (server.slowMs = 1000))
    at(9.7, () => (server.slowMs = 0))
  }
  for (let id = 0; id < daemons; id++) void startDaemon(id)
  await world.run(end + 5 * WINDOW)
  const judged = KEYS.flatMap(key =>
    limits.map(limit => ({ limit, ...judge(buckets.get(key)!, server.losses, limit, daemons) })),
  )
  const exceeded = ({ overshoot, limit }: (typeof judged)[number]) => overshoot / limit.limit
  const worst = judged.toSorted((a, b) => exceeded(b) - exceeded(a))[0]!
  const all = [...buckets.values()].flatMap(({ passed }) => passed)
  return {
    events,
    passed: sum(all),
    alone: sum(all.filter(({ alone }) => alone !== undefined)),
    overshoot: worst.overshoot,
    bound: worst.bound,
    undershoot: kind === 'events' ? Math.max(...judged.map(({ undershoot }) => undershoot)) : 0,
    violations: judged.flatMap(({ violations }) => violations),
  }
}

function pickKey(random: Seeded, daemons: number): string {
  const light = (1.1 * LIMIT) / (daemons * BATCHES_PER_WINDOW * EVENTS_PER_BATCH)
  const at = random.next()
  return at < light ? 'light' : at < light * 1.05 ? 'rare' : 'heavy'
}

/** The times at which events passed of one bucket, and those at which all of its events came. */
interface Bucket {
  readonly passed: Passed[]
  readonly offered: Map<number, number>
}

/** What of a demand passed. Without a list, each event costs 1. */
function grantedOf({ list, limits }: LeaseDemand, { passed }: LeaseGrant) {
  const scale = scaleOf(limits.limits[0]!.of)
  const granted = { events: 0, cost: 0, bytes: 0 }
  if (typeof passed === 'number' && !list) return { events: passed, cost: passed, bytes: 0 }
  for (let i = 0; i < list!.length / 2; i++) {
    if (typeof passed === 'number' ? i >= passed : passed[i] !== 1) continue
    granted.events++
    granted.cost += list![i * 2]! / scale
    granted.bytes += list![i * 2 + 1]!
  }
  return granted
}

const sum = (passed: readonly Passed[]) => passed.reduce((sum, { events }) => sum + events, 0)
const windowOf = (at: number) => Math.floor(at / WINDOW)

/** Compares what passed of a bucket in each window of a limit with what docs/cluster-limits.md says may pass. */
function judge({ passed, offered }: Bucket, losses: number[], of: Limit, daemons: number) {
  const { mode, windowMs, limit, unit, burst = limit - 1 } = of
  const share = Math.max(1, Math.floor(limit / daemons))
  const amount = unit === 'bytes' ? 'bytes' : 'cost'
  const largest = { events: 1, cost: Math.max(...COSTS), bytes: MOST_BYTES }[unit]
  passed.sort((a, b) => a.at - b.at)
  const violations: string[] = []
  let [overshoot, bound, missing, quiet] = [0, 0, 0, 0]
  // Aligned windows are those of the server; of the others, all that begin with an event.
  const starts = mode === 'aligned' ? [...offered.keys()].map(n => n * windowMs) : passed.map(({ at }) => at)
  let first = 0
  for (const start of starts.sort((a, b) => a - b)) {
    while (first < passed.length && passed[first]!.at < start) first++
    let count = 0
    const alone = new Set<number>()
    for (let i = first; i < passed.length && passed[i]!.at < start + windowMs; i++) {
      count += passed[i]![amount]
      if (passed[i]!.alone !== undefined) alone.add(passed[i]!.alone!)
    }
    const lost = losses.filter(at => at >= start && at < start + windowMs).length
    const windows = mode === 'fixed' ? 2 : 1
    const smooth = (1 + lost) * (burst + largest) + limit * (1 + GCRA_LEASE_PART)
    const allowed = Math.floor(mode === 'gcra' ? smooth : (windows + lost) * limit) + 2 * share * alone.size
    if (count > allowed + ROUNDING) violations.push(`${count} passed in the window from ${start} ms, ${allowed} may`)
    if (count - limit > overshoot + ROUNDING) [overshoot, bound] = [count - limit, allowed - limit]
    if (mode !== 'aligned' || alone.size > 0 || lost > 0) continue
    quiet++
    missing += Math.max(0, Math.min(limit, offered.get(windowOf(start))!) - count) / limit
  }
  return { overshoot, bound, undershoot: quiet === 0 ? 0 : missing / quiet, violations }
}
