import { pino } from 'pino'
import type { EventBatch } from '../../src/core/event/batch.js'
import { ComponentCounters } from '../../src/flow/counters.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { RedisBackend } from '../../src/processors/throttle/cluster/redis-backend.js'
import { type Backend, ClusterDecider } from '../../src/throttle/cluster/cluster-decider.js'
import { GCRA_LEASE_PART } from '../../src/throttle/cluster/script.js'
import { LEASED_PART } from '../../src/throttle/cluster/shared-limits.js'
import type { Limit } from '../../src/throttle/limit.js'
import { PASS } from '../../src/throttle/limiter.js'
import { batchOf, readerOf } from '../support/batches.js'
import { Seeded } from '../support/seeded.js'
import { SimulatedServer } from './server.js'
import { World } from './world.js'

export interface Settings {
  readonly seed: number
  readonly daemons: number
  readonly mode: 'fixed' | 'aligned' | 'gcra'
  readonly accuracy: 'exact' | 'leased'
  /** How long events arrive, in windows of a second. */
  readonly windows: number
  /** Whether the server is stopped, killed and slow. */
  readonly troubles: boolean
}

/** What passed in the worst window. */
export interface Outcome {
  readonly events: number
  readonly passed: number
  readonly alone: number
  /** The greatest number beyond the limit in a window, and what the formula allows then. */
  readonly overshoot: number
  readonly bound: number
  /** How many fewer passed than could have in aligned windows without trouble: the mean, as a part of the limit. */
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

interface Passed {
  readonly at: number
  readonly events: number
  /** Undefined: by units of the server. */
  readonly alone: number | undefined
}

/** Runs a group of daemons from a seed; the same seed gives the same run. */
export async function runCluster(settings: Settings): Promise<Outcome> {
  const { seed, daemons, mode, accuracy, windows, troubles } = settings
  const random = new Seeded(seed)
  const world = new World()
  const part = accuracy === 'leased' ? LEASED_PART : 0
  const limit: Limit = { mode, limit: LIMIT, windowMs: WINDOW, burst: BURST, unit: 'events' }
  const server = new SimulatedServer(world, random, { delayMs: 1, loss: troubles ? 0.001 : 0 })
  const share = Math.max(1, Math.floor(LIMIT / daemons))
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
    /** Units of the server that events of the batch got, by key. */
    let granted = new Map<string, number>()
    const backend: Backend = {
      untilReachable: signal => redis.untilReachable(signal),
      async ask(demands) {
        const grants = await redis.ask(demands)
        for (const [i, grant] of (grants ?? []).entries()) {
          const { key, events } = demands[i]!
          if (events > 0) granted.set(key.toString(), grant.passed as number)
        }
        return grants
      },
    }
    const keyFields = [readerOf('.k', wanted)]
    const decider = new ClusterDecider(
      {
        keyFields,
        maxKeys: 1000,
        onMaxKeys: 'pass',
        seed: id,
        limits: [limit],
        part,
        members: daemons,
        onFailure: 'local_share',
      },
      clock,
      backend,
    )
    const batches = Array.from({ length: 20 }, () => {
      const keys = Array.from({ length: 1 + random.below(6) }, () => pickKey(random, daemons))
      return {
        keys,
        batch: batchOf(
          keys.map(k => ({ k })),
          { wanted },
        ),
      }
    })
    const signal = new AbortController().signal
    const decide = async ({ keys, batch }: { keys: readonly string[]; batch: EventBatch }) => {
      const calledAt = world.now
      granted = new Map()
      const decided = await decider.decide(batch, signal)
      events += keys.length
      for (const key of KEYS) {
        const { passed, offered } = buckets.get(key)!
        const own = keys.filter(own => own === key).length
        if (own > 0) offered.set(windowOf(calledAt), (offered.get(windowOf(calledAt)) ?? 0) + own)
        let total = 0
        for (const [i, own] of keys.entries()) if (own === key && decided.decisions[i] === PASS) total++
        if (total === 0) continue
        const isAlone = decided.alone > 0 && !granted.has(key)
        const byGrant = Math.min(total, granted.get(key) ?? 0)
        // Without the server, units from leases and units of the share are not told apart: they count as both may.
        if (byGrant > 0) passed.push({ at: executedAt, events: byGrant, alone: undefined })
        if (total > byGrant) passed.push({ at: calledAt, events: total - byGrant, alone: isAlone ? id : undefined })
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
  const judged = KEYS.map(key => judge(buckets.get(key)!, server.losses, mode, share))
  const worst = judged.toSorted((a, b) => b.overshoot - a.overshoot)[0]!
  const all = [...buckets.values()].flatMap(({ passed }) => passed)
  return {
    events,
    passed: sum(all),
    alone: sum(all.filter(({ alone }) => alone !== undefined)),
    overshoot: worst.overshoot,
    bound: worst.bound,
    undershoot: Math.max(...judged.map(({ undershoot }) => undershoot)),
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

const sum = (passed: readonly Passed[]) => passed.reduce((sum, { events }) => sum + events, 0)
const windowOf = (at: number) => Math.floor(at / WINDOW)

/** Compares what passed of a bucket in each window with what docs/cluster-limits.md says may pass. */
function judge({ passed, offered }: Bucket, losses: number[], mode: Settings['mode'], share: number) {
  passed.sort((a, b) => a.at - b.at)
  const violations: string[] = []
  let [overshoot, bound, missing, quiet] = [0, 0, 0, 0]
  // Aligned windows are those of the server; of the others, all that begin with an event.
  const starts = mode === 'aligned' ? [...offered.keys()].map(n => n * WINDOW) : passed.map(({ at }) => at)
  let first = 0
  for (const start of starts.sort((a, b) => a - b)) {
    while (first < passed.length && passed[first]!.at < start) first++
    let count = 0
    const alone = new Set<number>()
    for (let i = first; i < passed.length && passed[i]!.at < start + WINDOW; i++) {
      count += passed[i]!.events
      if (passed[i]!.alone !== undefined) alone.add(passed[i]!.alone!)
    }
    const lost = losses.filter(at => at >= start && at < start + WINDOW).length
    const windows = mode === 'fixed' ? 2 : 1
    const smooth = (1 + lost) * (BURST + 1) + LIMIT * (1 + GCRA_LEASE_PART)
    const allowed = Math.floor(mode === 'gcra' ? smooth : (windows + lost) * LIMIT) + 2 * share * alone.size
    if (count > allowed) violations.push(`${count} passed in the window from ${start} ms, ${allowed} may`)
    if (count - LIMIT > overshoot) [overshoot, bound] = [count - LIMIT, allowed - LIMIT]
    if (mode !== 'aligned' || alone.size > 0 || lost > 0) continue
    quiet++
    missing += Math.max(0, Math.min(LIMIT, offered.get(windowOf(start))!) - count) / LIMIT
  }
  return { overshoot, bound, undershoot: quiet === 0 ? 0 : missing / quiet, violations }
}
