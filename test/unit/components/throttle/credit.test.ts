import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { createClockDecider, type Decider } from '../../../../src/components/throttle/decider.js'
import { PASS } from '../../../../src/components/throttle/decisions.js'
import { HEAD_BYTES } from '../../../../src/components/throttle/persist/blocks.js'
import { BucketsReader, SavedBuckets } from '../../../../src/components/throttle/persist/saved-buckets.js'
import type { Behind } from '../../../../src/core/event/behind.js'
import type { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { rounds } from '../../../support/long-test.js'
import { Seeded } from '../../../support/seeded.js'

type Config = Record<string, unknown> & { readonly limit: number; readonly window: string; readonly burst?: number }

const DAY_MS = 24 * 3_600_000

/** A throttle on a clock that shows `time`. */
class Throttle {
  readonly #config: Config
  readonly #maxCreditMs: number
  readonly #time: { ms: number }
  readonly #wanted = new WantedNames()
  readonly #options: ReturnType<typeof deciderOptions>
  #decider: Decider

  constructor(config: Config, time: { ms: number }, maxCreditMs = DAY_MS) {
    this.#config = config
    this.#time = time
    this.#maxCreditMs = maxCreditMs
    const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, this.#wanted)
    this.#options = deciderOptions(throttle.options.parse({ key_field: '.k', ...this.#config }), { field })
    this.#decider = this.#create()
  }

  #create(): Decider {
    const clock = { now: () => this.#time.ms, wall: () => 1_700_000_000_000 + this.#time.ms }
    return createClockDecider({ ...this.#options, persists: true, maxCreditMs: this.#maxCreditMs }, clock)
  }

  /** Returns whether each event passes. */
  decide(events: readonly object[], source = 's', behind?: Behind): boolean[] {
    const batch = batchOf(events, { source, wanted: this.#wanted })
    batch.behind = behind
    const { decisions } = this.#decider.decide(batch)
    return events.map((_, i) => decisions[i] === PASS)
  }

  /** As after a restart: with the saved buckets, or without any. */
  restart(persists: boolean): void {
    const { limiter } = this.#decider
    const saved = new SavedBuckets(limiter, () => this.#time.ms)
    const blocks = [...saved.blocks(true)].map(block => Buffer.from(block.subarray(HEAD_BYTES)))
    this.#decider = this.#create()
    const reader = new BucketsReader(this.#decider.limiter, this.#options.rules ?? [])
    if (persists) for (const block of blocks) reader.read(block, this.#time.ms, 0, true)
  }
}

const passed = (decisions: readonly boolean[]) => decisions.filter(Boolean).length
const events = (k: string, count: number) => Array.from({ length: count }, () => ({ k }))

t.test('backlog passes at once up to the sum of its windows and one more', async t => {
  for (const window_mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
    const time = { ms: 0 }
    const limiter = new Throttle({ limit: 10, window: '1s', window_mode }, time)
    t.equal(passed(limiter.decide(events('a', 3))), 3, window_mode)
    time.ms = 15_200
    const behind = { since: 0, isOver: false }
    t.equal(passed(limiter.decide(events('quiet', 75), 's', behind)), 75)
    t.equal(passed(limiter.decide(events('loud', 1000), 's', behind)), 170)
    time.ms = 15_900
    t.equal(passed(limiter.decide(events('loud', 1000), 's', behind)), 0)
    time.ms = 16_100
    t.equal(passed(limiter.decide(events('loud', 1000), 's', behind)), 10, 'one more window has begun')
    behind.isOver = true
    t.equal(passed(limiter.decide(events('loud', 100))), 0, 'it has used the running window, too')
    t.equal(passed(limiter.decide(events('quiet', 100))), 10)
  }
})

t.test('a first start has no credit, and neither has a source that is not behind', async t => {
  const time = { ms: 0 }
  const limiter = new Throttle({ limit: 1, window: '1s' }, time)
  t.same(limiter.decide([{ k: 'x' }, { k: 'x' }, { k: 'y' }, { k: 'y' }]), [true, false, true, false])
  time.ms = 9000
  t.equal(passed(limiter.decide(events('x', 20), 'behind', { since: 0, isOver: false })), 10)
  t.equal(passed(limiter.decide(events('y', 20), 'live')), 1)
})

t.test('sources that fall behind together share the sum of a bucket', async t => {
  const time = { ms: 0 }
  const limiter = new Throttle({ limit: 10, window: '1s' }, time)
  time.ms = 15_200
  const [one, other] = [0, 5000].map(since => ({ since, isOver: false }))
  t.equal(passed(limiter.decide(events('loud', 1000), 'other', other)), 120, 'at most its own sum')
  t.equal(passed(limiter.decide(events('loud', 1000), 'one', one)), 50)
  t.equal(passed(limiter.decide(events('loud', 1000), 'live')), 0)
  t.equal(passed(limiter.decide(events('quiet', 75), 'one', one)), 75)
})

t.test('many short lags do not add up', async t => {
  const time = { ms: 0 }
  const limiter = new Throttle({ limit: 10, window: '1s' }, time)
  let all = 0
  for (let n = 0; n < 100; n++) {
    const behind = { since: time.ms, isOver: false }
    time.ms += 100
    all += passed(limiter.decide(events('loud', 50), 's', behind))
    behind.isOver = true
    all += passed(limiter.decide(events('loud', 50)))
  }
  t.ok(all <= 10 * 12, `${all} in ten windows`)
  t.ok(all >= 10 * 10, `${all} in ten windows`)
})

t.test('max_credit bounds the credit, and a long lag still earns it', async t => {
  const time = { ms: 0 }
  const limiter = new Throttle({ limit: 1, window: '1s' }, time, 60_000)
  time.ms = 3_600_000
  const behind = { since: 0, isOver: false }
  t.equal(passed(limiter.decide(events('a', 5000), 's', behind)), 61)
  time.ms += 10_000
  t.equal(passed(limiter.decide(events('a', 5000), 's', behind)), 10)
})

t.test('a quota counts as always', async t => {
  const time = { ms: 0 }
  const limiter = new Throttle({ limit: 1, window: '1s', quota: { limit: 5, per: 'day' } }, time)
  time.ms = 60_000
  t.equal(passed(limiter.decide(events('a', 30), 's', { since: 0, isOver: false })), 5)
})

t.test('an event that costs more than the limit never passes', async t => {
  const time = { ms: 60_000 }
  const limiter = new Throttle({ limit: 5, window: '1s', cost: '.c' }, time)
  const behind = { since: 0, isOver: false }
  t.same(
    limiter.decide(
      [
        { k: 'a', c: 6 },
        { k: 'a', c: 5 },
      ],
      's',
      behind,
    ),
    [false, true],
  )
})

/** One app: its bucket, the sources that it writes to, and whether it keeps its limit. */
interface App {
  readonly k: string
  readonly sources: readonly string[]
  readonly keeps: boolean
}

/** A limit of a bucket, for the bound. */
interface Bound {
  readonly limit: number
  readonly windowMs: number
  readonly atOnce: number
}

/** A random world: sources that fall behind, restarts, and apps of which some keep their limit. Returns what is wrong. */
function world(seed: number): string | undefined {
  const random = new Seeded(seed)
  const mode = random.pick(['fixed', 'aligned', 'sliding', 'gcra'])
  const windowMs = random.pick([100, 1000, 1500])
  const limit = 1 + random.below(5)
  const burst = mode === 'gcra' && random.chance(0.5) ? random.below(9) : undefined
  const further = random.chance(0.3) ? [{ limit: 2 * limit, window: `${5 * windowMs}ms` }] : undefined
  const rules = random.chance(0.3) ? [{ key: 'r*', limit: limit + 2 }] : undefined
  const config = {
    ...{ limit, window: `${windowMs}ms`, window_mode: mode },
    ...(burst !== undefined && { burst }),
    ...(further && { also: further }),
    ...(rules && { limits: rules }),
  }
  const boundsOf = (k: string): Bound[] => {
    const own = rules && k.startsWith('r') ? limit + 2 : limit
    const first = { limit: own, windowMs, atOnce: Math.max(own, (burst ?? 0) + 1) }
    return [first, ...(further ?? []).map(({ limit }) => ({ limit, windowMs: 5 * windowMs, atOnce: limit }))]
  }
  const time = { ms: 0 }
  const daemon = new Throttle(config, time)
  // Live traffic that keeps the limit wherever windows begin.
  const ideal = new Throttle({ ...config, window_mode: mode === 'gcra' ? 'gcra' : 'sliding' }, time, 0)
  const names = random.chance(0.5) ? ['s1'] : ['s1', 's2']
  const apps: App[] = ['k1', 'r1', 'k2'].map(k => ({ k, sources: [random.pick(names)], keeps: true }))
  apps.push({ k: 'k3', sources: names, keeps: true }, { k: 'loud', sources: ['s1'], keeps: false })
  apps.push({ k: 'loud2', sources: names, keeps: false })
  if (rules) apps.push({ k: 'r-loud', sources: ['s1'], keeps: false })
  const sources = new Map(
    names.map(name => [
      name,
      { emptyAt: 0, waiting: [] as App[], isDown: false, behind: undefined as Behind | undefined },
    ]),
  )
  /** How many events of a loud bucket have passed since its source fell behind. */
  const sums = new Map<string, number>()
  let problem: string | undefined
  const send = (name: string, taken: readonly App[]) => {
    const source = sources.get(name)!
    const { behind } = source
    for (const [i, passes] of daemon.decide(taken, name, behind).entries()) {
      const { k, keeps } = taken[i]!
      if (keeps && !passes) problem ??= `${time.ms}: lost an event of ${k}, which kept its limit`
      if (!passes || behind === undefined) continue
      const sum = (sums.get(`${name} ${k}`) ?? 0) + 1
      sums.set(`${name} ${k}`, sum)
      for (const bound of boundsOf(k)) {
        const most = bound.limit * Math.ceil((time.ms - behind.since) / bound.windowMs) + bound.atOnce
        if (sum > most) problem ??= `${time.ms}: ${sum} of ${k} passed since ${behind.since}, ${most} may`
      }
    }
  }
  const read = (name: string) => {
    const source = sources.get(name)!
    if (source.isDown) return
    const most = source.behind ? 1 + random.below(30) : Number.POSITIVE_INFINITY
    const taken = source.waiting.splice(0, most)
    if (taken.length > 0) send(name, taken)
    if (source.waiting.length > 0) return
    if (source.behind) source.behind.isOver = true
    source.behind = undefined
    source.emptyAt = time.ms
    for (const key of sums.keys()) if (key.startsWith(`${name} `)) sums.delete(key)
  }
  const fallBehind = (source: { emptyAt: number; behind: Behind | undefined }) => {
    source.behind ??= { since: source.emptyAt, isOver: false }
  }
  for (let step = 0; step < 400 && problem === undefined; step++) {
    time.ms += 1 + random.below(windowMs / 4)
    for (const app of apps) {
      for (let n = app.keeps ? random.below(3) : random.below(8); n > 0; n--)
        if (!app.keeps || ideal.decide([app])[0]) sources.get(random.pick(app.sources))!.waiting.push(app)
    }
    for (const [name, source] of sources) {
      if (random.chance(source.isDown ? 0.05 : 0.02)) {
        source.isDown = !source.isDown
        fallBehind(source)
      }
      read(name)
    }
    if (!random.chance(0.01)) continue
    const persists = random.chance(0.5)
    daemon.restart(persists)
    if (!persists) sums.clear()
    // The new process reads on from the saved moment.
    for (const source of sources.values()) if (source.behind) source.behind = { ...source.behind }
  }
  return problem
}

t.test('in random worlds, nothing of a bucket that keeps its limit is lost, and no bucket exceeds its sum', async t => {
  for (let seed = 0; seed < rounds(300, 60); seed++) t.equal(world(seed), undefined, `seed ${seed}`)
})
