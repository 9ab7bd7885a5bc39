import t from 'tap'
import { BucketKey } from '../../../../src/components/throttle/buckets/bucket-key.js'
import {
  dataViewOf,
  hashBytes,
  hashedKey,
  KeyTable,
  randomSeed,
} from '../../../../src/components/throttle/buckets/key-table.js'
import { DISCARD, FULL, PASS, type WindowDecision } from '../../../../src/components/throttle/decisions.js'
import type { Limit, WindowMode } from '../../../../src/components/throttle/limit.js'
import { ClockTiming, Limiter, type LimiterOptions } from '../../../../src/components/throttle/limiter.js'
import { createWindows } from '../../../../src/components/throttle/windows/several.js'
import { WallTime } from '../../../../src/components/throttle/windows/wall-time.js'
import { longTest } from '../../../support/long-test.js'
import { seeded } from '../../../support/seeded.js'

const MODES: readonly WindowMode[] = ['fixed', 'aligned', 'sliding']

/** The limiter as one would write it without a thought for memory: the times of what passed, by key. */
class Model {
  readonly passed = new Map<string, number[]>()
  newest = Number.NEGATIVE_INFINITY
  readonly #options: Limit

  constructor({ limits }: LimiterOptions) {
    this.#options = limits[0]!
  }

  /** Since when a bucket has to wait for a whole window to be idle. */
  latest(key: string): number {
    const times = this.passed.get(key) ?? []
    const { mode, windowMs } = this.#options
    if (times.length === 0) return Number.NEGATIVE_INFINITY
    if (mode === 'sliding') return times.at(-1)!
    return mode === 'aligned' ? Math.floor(times[0]! / windowMs) * windowMs : times[0]!
  }

  isLive(key: string, now: number): boolean {
    return now - this.latest(key) < this.#options.windowMs
  }

  live(now: number): number {
    return [...this.passed.keys()].filter(key => this.isLive(key, now)).length
  }

  /** Whether the bucket was idle at some time, and would not be at `now`, which is earlier: it may be forgotten. */
  isDoubtful(key: string, now: number): boolean {
    return this.isLive(key, now) && !this.isLive(key, this.newest)
  }

  take(key: string, now: number): WindowDecision {
    const { mode, limit, windowMs } = this.#options
    let times = this.passed.get(key) ?? []
    if (mode === 'sliding') times = times.filter(time => now - time < windowMs)
    else if (!this.isLive(key, now)) times = []
    const passes = times.length < limit
    if (passes) times.push(mode === 'sliding' ? Math.max(now, times.at(-1) ?? now) : now)
    this.passed.set(key, times)
    return passes ? PASS : DISCARD
  }
}

/** Steps of time that hit the edges: inside of a window, its last millisecond, its end, beyond, long silence, back. */
function nextTime(now: number, windowMs: number, random: () => number): number {
  const roll = random()
  if (roll < 0.6) return now + Math.floor(random() * 4)
  if (roll < 0.7) return now + random() * windowMs
  if (roll < 0.75) return now + windowMs - 1
  if (roll < 0.8) return now + windowMs
  if (roll < 0.85) return now + windowMs + 1
  if (roll < 0.88) return Math.ceil(now / windowMs) * windowMs - (random() < 0.5 ? 1 : 0)
  if (roll < 0.91) return now + windowMs * Math.floor(2 + random() * 50)
  if (roll < 0.95) return now - random() * windowMs * 0.9
  return now - Math.floor(random() * windowMs * 5)
}

function randomKeys(count: number, random: () => number): Buffer[] {
  const keys = new Map<string, Buffer>()
  while (keys.size < count) {
    const length = random() < 0.9 ? 1 + Math.floor(random() * 12) : Math.floor(random() * 300)
    const bytes = Buffer.from(Array.from({ length }, () => Math.floor(random() * (random() < 0.5 ? 3 : 256))))
    keys.set(bytes.toString('latin1'), bytes)
  }
  return [...keys.values()]
}

const options = (
  mode: WindowMode,
  { limit = 2, windowMs = 1000, maxKeys = 100_000 }: { limit?: number; windowMs?: number; maxKeys?: number } = {},
): LimiterOptions => ({ limits: [{ mode, limit, windowMs, unit: 'events' }], maxKeys, seed: 7 })

const windowsOf = (mode: WindowMode, limit: number, windowMs: number) =>
  createWindows([{ mode, limit, windowMs, unit: 'events' }], new WallTime())

const take = (limiter: Limiter, key: Buffer, now: number) => {
  limiter.advance(now)
  return limiter.take(hashedKey(key, limiter.seed), now, 1, 0)
}

t.test('decides as the model does, whatever the clock does', async t => {
  for (const mode of MODES) {
    for (const [seed, limit, windowMs, count] of [
      [1, 1, 1000, 3],
      [2, 3, 1000, 50],
      [3, 5, 7, 2000],
      [4, 40, 60_000, 5],
      [5, 2, 1.5, 30],
      [6, 70, 100, 1],
    ] as const) {
      const random = seeded(seed)
      const chosen = options(mode, { limit, windowMs })
      const [limiter, model] = [new Limiter(chosen, new ClockTiming()), new Model(chosen)]
      const keys = randomKeys(count, random)
      let now = random() < 0.5 ? 0 : 1_700_000_000_000 + random()
      let wrong = 0
      let compared = 0
      for (let step = 0; step < 20_000 && wrong === 0; step++) {
        now = nextTime(now, windowMs, random)
        const key = keys[Math.floor(random() ** 2 * keys.length)]!
        const name = key.toString('latin1')
        model.newest = Math.max(model.newest, now)
        limiter.advance(now)
        if (model.isDoubtful(name, now)) continue
        compared++
        const [got, expected] = [limiter.take(hashedKey(key, limiter.seed), now, 1, 0), model.take(name, now)]
        if (got !== expected) wrong++
        if (wrong) t.fail(`${mode}, seed ${seed}, step ${step}: ${got} rather than ${expected}`)
      }
      t.ok(compared > 10_000, `${mode}, limit ${limit} in ${windowMs} ms: ${compared} decisions`)
    }
  }
})

longTest('max_keys is never exceeded, and no key is refused while a bucket is idle and few are in use', async t => {
  for (const mode of MODES) {
    for (const maxKeys of [1, 2, 7, 300]) {
      const random = seeded(maxKeys)
      const windowMs = maxKeys < 100 ? 1000 : 20_000
      const chosen = options(mode, { maxKeys, windowMs })
      const [limiter, model] = [new Limiter(chosen, new ClockTiming()), new Model(chosen)]
      const keys = randomKeys(maxKeys * 3, random)
      let now = 0
      let early = 0
      const counts: Record<number, number> = { [PASS]: 0, [DISCARD]: 0, [FULL]: 0 }
      for (let step = 0; step < 10_000; step++) {
        // Forward only: what may be forgotten is another test's.
        now = Math.max(now, nextTime(now, random() < 1 - 0.1 / maxKeys ? 20 : windowMs, random))
        const key = keys[Math.floor(random() * keys.length)]!
        const name = key.toString('latin1')
        const isLive = model.isLive(name, now)
        const got = take(limiter, key, now)
        counts[got]!++
        const live = model.live(now)
        // Looking at many buckets has to be paid for by as many keys that were refused.
        early = got === FULL && live <= (maxKeys * 15) / 16 ? early + 1 : 0
        const problem =
          got === FULL ? isLive || early > maxKeys / 8 : got !== model.take(name, now) || (!isLive && live >= maxKeys)
        if (problem || limiter.keys > maxKeys || limiter.keys < model.live(now)) {
          t.fail(`${mode}, ${maxKeys} keys, step ${step}: ${got} for a ${isLive ? 'live' : 'new'} key, ${live} live`)
          break
        }
      }
      t.ok(counts[PASS]! > 500 && counts[DISCARD]! > 50 && counts[FULL]! > 500, `${mode} ${JSON.stringify(counts)}`)
    }
  }
})

t.test('a flood of new keys costs little, and idle buckets make room within an eighth of a window', async t => {
  for (const mode of MODES) {
    const limiter = new Limiter(options(mode, { limit: 1, maxKeys: 10_000 }), new ClockTiming())
    const key = Buffer.alloc(4)
    let n = 0
    const flood = (count: number, now: number) => {
      const taken: Record<number, number> = { [PASS]: 0, [DISCARD]: 0, [FULL]: 0 }
      for (let i = 0; i < count; i++) {
        key.writeUInt32LE(n++)
        taken[take(limiter, key, now)]!++
      }
      return taken
    }
    t.match(flood(5000, 0), { [PASS]: 5000 })
    t.match(flood(300_000, 800), { [PASS]: 5000, [FULL]: 295_000 }, mode)
    t.equal(limiter.keys, 10_000)
    const later = flood(300_000, 1000 + 125)
    t.match(later, { [PASS]: mode === 'aligned' ? 10_000 : 5000, [DISCARD]: 0 }, mode)
    t.equal(limiter.keys, 10_000)
    if (mode === 'aligned') continue
    t.match(flood(1, 1800), { [PASS]: 1 })
    t.match(flood(1, 1801), { [PASS]: 1 })
    t.match(flood(4998, 1801), { [PASS]: 4998 }, 'those of 800 are idle')
    t.match(flood(5000, 2200), { [PASS]: 5000 }, 'those of 1125 are idle')
    t.match(flood(1, 2700), { [FULL]: 1 })
    t.match(flood(1, 1801 + 1000), { [FULL]: 1 }, 'searched a moment ago')
    t.match(flood(1, 2700 + 124), { [FULL]: 1 })
    t.match(flood(1, 2700 + 125), { [PASS]: 1 }, 'an eighth of a window later')
  }
})

t.test('idle buckets are released', async t => {
  for (const mode of MODES) {
    const limiter = new Limiter(options(mode), new ClockTiming())
    for (let n = 0; n < 5000; n++) take(limiter, Buffer.from(`k${n}`), n < 2500 ? 0 : 500)
    t.equal(limiter.keys, 5000)
    take(limiter, Buffer.from('k1'), 1000)
    t.ok(
      limiter.keys >= (mode === 'aligned' ? 1 : 2501),
      'those whose windows are open are kept, and one that was opened again',
    )
    for (const now of [1001, 1500]) take(limiter, Buffer.from('k1'), now)
    limiter.advance(2000)
    t.ok(limiter.keys <= 1, 'the others are dropped')
    limiter.advance(3999)
    t.equal(limiter.keys, 0)
    take(limiter, Buffer.from('k1'), 4000)
    limiter.advance(1e9)
    t.equal(limiter.keys, 0, 'also after a long silence')
  }
})

t.test('many buckets are divided into parts, which changes no decision and no bound', async t => {
  const random = seeded(31)
  const maxKeys = 200_000
  const chosen = options('fixed', { limit: 1, windowMs: 1000, maxKeys })
  const [limiter, bytes] = [new Limiter(chosen, new ClockTiming()), Buffer.alloc(4)]
  const key = new BucketKey([], limiter.seed)
  const opened = new Float64Array(600_000).fill(Number.NEGATIVE_INFINITY)
  const counts: Record<number, number> = { [PASS]: 0, [DISCARD]: 0, [FULL]: 0 }
  let now = 0
  let wrong = 0
  for (let n = 0; n < 1_500_000; n++) {
    if (n % 500 === 0) limiter.advance((now += 1.1))
    const number = Math.floor(random() * (now < 700 ? 100_000 : opened.length))
    bytes.writeUInt32LE(number)
    key.setBytes(bytes)
    const isOpen = now - opened[number]! < 1000
    const got = limiter.take(key, now, 1, 0)
    counts[got]!++
    if (got === PASS) opened[number] = now
    if (isOpen !== (got === DISCARD) || limiter.keys > maxKeys) wrong++
  }
  t.equal(wrong, 0)
  t.ok(counts[PASS]! > 300_000 && counts[DISCARD]! > 100_000 && counts[FULL]! > 100_000, JSON.stringify(counts))
  for (let n = 0; n < 20; n++) limiter.advance(now + 5000)
  t.equal(limiter.keys, 0, 'all are released')
})

t.test('a bucket of gcra that an event of a large cost has filled for long is not idle', t => {
  const limit: Limit = { mode: 'gcra', limit: 1, windowMs: 1000, unit: 'events', burst: 0 }
  const limiter = new Limiter({ limits: [limit], maxKeys: 10, seed: 7 }, new ClockTiming())
  const key = hashedKey(Buffer.from('a'), limiter.seed)
  const takeAt = (now: number, cost: number) => {
    limiter.advance(now)
    return limiter.take(key, now, cost, 0)
  }
  t.equal(takeAt(0, 10), PASS)
  for (const now of [5000, 9500, 9999]) t.equal(takeAt(now, 1), DISCARD)
  t.equal(takeAt(10_000, 1), PASS)
  t.end()
})

t.test('the default bucket is one more, and is never refused', async t => {
  for (const mode of MODES) {
    const limiter = new Limiter(options(mode, { maxKeys: 1 }), new ClockTiming())
    limiter.advance(0)
    t.same(
      [1, 2, 3].map(() => limiter.take(undefined, 0, 1, 0)),
      [PASS, PASS, DISCARD],
    )
    t.equal(limiter.keys, 0)
    t.equal(take(limiter, Buffer.from('a'), 1), PASS)
    t.equal(take(limiter, Buffer.from('b'), 1), FULL)
    t.equal(limiter.take(undefined, 1, 1, 0), DISCARD)
    t.same(
      [1000, 1000, 1000].map(now => limiter.take(undefined, now, 1, 0)),
      [PASS, PASS, DISCARD],
    )
  }
})

t.test('the largest limit, and a burst in a sliding window that grows and shrinks', async t => {
  const windows = windowsOf('fixed', 0xffffffff, 1000)
  for (let n = 0; n < 1000; n++) if (windows.take(0, n, 1, 0) !== PASS) t.fail('a large limit')
  const sliding = windowsOf('sliding', 1000, 1000)
  const passed = (from: number, to: number) => {
    let count = 0
    for (let now = from; now < to; now += 0.5) if (sliding.take(3, now, 1, 0) === PASS) count++
    return count
  }
  t.equal(passed(0, 500), 1000)
  t.equal(passed(500, 1000), 0)
  t.equal(passed(1000, 1250), 500, 'as many as left the window')
  t.equal(passed(1600, 2000), 500 + 0, 'those of [1000, 1250) still count')
  t.equal(passed(9000, 9500), 1000)
  const rotated = windowsOf('sliding', 6, 100)
  const times = [0, 1, 2, 3, 4, 101, 101.1, 101.2, 101.3, 102, 102.1]
  const passes = [true, true, true, true, true, true, true, true, false, true, false]
  t.same(
    times.map(now => rotated.take(0, now, 1, 0) === PASS),
    passes,
    'the ring grows while its first run is not in front',
  )
  const busy = windowsOf('sliding', 0xffffffff, 1000)
  const { arrayBuffers } = process.memoryUsage()
  for (let n = 0; n < 1_000_000; n++) busy.take(0, n < 500_000 ? 1 : 2, 1, 0)
  t.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 1e6, 'events of one time cost nothing each')
  sliding.reserve(1_000_000)
  t.equal(sliding.take(999_999, 0, 1, 0), PASS)
  t.equal(sliding.take(999_999, 1, 1, 0), PASS)
})

t.test('the table finds what was added, and nothing else, also when all hashes are the same', async t => {
  const random = seeded(99)
  for (const [count, hash] of [
    [20_000, (key: Buffer) => hashBytes(dataViewOf(key), 0, key.length, 5)],
    [600, () => -3],
  ] as const) {
    const table = new KeyTable()
    const keyOf = (bytes: Buffer) => ({ bytes: dataViewOf(bytes), start: 0, end: bytes.length, hash: hash(bytes) })
    const keys = [Buffer.alloc(0), ...randomKeys(count, random).filter(key => key.length > 0)]
    const ids = keys.map((key, i) => {
      if (table.find(keyOf(key)) !== -1) t.fail('found too early')
      // From the middle of a larger buffer, as keys come from the bytes of a line.
      const padded = Buffer.concat([Buffer.from('"'), key, Buffer.from('"')])
      return [table.add({ ...keyOf(key), bytes: dataViewOf(padded), start: 1, end: padded.length - 1 }), i]
    })
    t.ok(
      ids.every(([id, i]) => id === i),
      'ids are numbered',
    )
    t.ok(keys.every((key, i) => table.find(keyOf(key)) === i))
    t.equal(table.size, keys.length)
    const copy = new KeyTable()
    for (let id = keys.length - 1; id >= 0; id--) copy.take(table, id)
    t.ok(keys.every((key, i) => copy.find(keyOf(key)) === keys.length - 1 - i))
    t.equal(copy.find({ ...keyOf(Buffer.alloc(301)), hash: -3 }), -1)
    const stays = (n: number) => n % 3 > 0
    table.keep(stays)
    const left = keys.filter((_, n) => stays(n))
    t.equal(table.size, left.length)
    t.ok(left.every((key, i) => table.find(keyOf(key)) === i))
    t.ok(keys.every((key, n) => stays(n) || table.find(keyOf(key)) === -1))
  }
  const a = dataViewOf(Buffer.from('a'))
  t.not(hashBytes(a, 0, 1, 1), hashBytes(a, 0, 1, 2), 'the seed matters')
})

t.test('nobody knows which keys collide: each throttle has a seed of its own', async t => {
  t.ok(new Set(Array.from({ length: 20 }, randomSeed)).size > 10)
  const collides = (seed: number) => {
    const hash = (text: string) => hashBytes(dataViewOf(Buffer.from(text)), 0, text.length, seed) & 0xff
    return Array.from({ length: 2000 }, (_, i) => `${i}`).filter(key => hash(key) === 0)
  }
  t.notSame(collides(1), collides(2))
})
