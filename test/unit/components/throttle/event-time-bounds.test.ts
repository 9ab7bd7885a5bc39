import t from 'tap'
import { BucketKey } from '../../../../src/components/throttle/buckets/bucket-key.js'
import { DISCARD, FULL, LATE, PASS } from '../../../../src/components/throttle/decisions.js'
import { EarlierMemory, EarlierRows, MOST_ROW_BYTES } from '../../../../src/components/throttle/event/earlier-rows.js'
import { EventTiming } from '../../../../src/components/throttle/event/timing.js'
import type { Limit, WindowMode } from '../../../../src/components/throttle/limit.js'
import { Limiter, type LimiterOptions } from '../../../../src/components/throttle/limiter.js'
import { seeded } from '../../../support/seeded.js'

const MODES: readonly WindowMode[] = ['fixed', 'aligned']
const HOUR = 3_600_000

/** A limiter in event time, and takes from named files. */
function limiterOf(
  { maxKeys = 100_000, ...limit }: Partial<Omit<Limit, 'mode'>> & { mode?: WindowMode; maxKeys?: number },
  latenessMs: number,
) {
  const all: LimiterOptions = {
    limits: [{ limit: 1, windowMs: 1000, mode: 'fixed', unit: 'events', ...limit }],
    maxKeys,
    seed: 3,
  }
  const limiter = new Limiter(all, new EventTiming({ time: { of: () => 0 }, latenessMs, onLate: 'pass' }))
  const files = new Map<string, object>()
  const [key, id] = [new BucketKey([], limiter.seed), Buffer.alloc(4)]
  return {
    limiter,
    /** What comes next is of this file. */
    from(file: string, clock = 0) {
      if (!files.has(file)) files.set(file, {})
      limiter.timing.progress.enter(files.get(file)!, clock, 0)
      limiter.advance(0)
    },
    take(number: number, time: number) {
      limiter.timing.progress.see(time)
      id.writeUInt32BE(number)
      key.setBytes(id)
      return limiter.take(key, time, 1, 0)
    },
  }
}

t.test('rows in order, of many buckets: inserted and removed anywhere', t => {
  const random = seeded(5)
  const pick = (below: number) => Math.floor(random() * below)
  for (const width of [2, 3]) {
    const room = new EarlierMemory()
    let kept = new EarlierRows(room, width)
    kept.reserve(20)
    const buckets: number[][][] = Array.from({ length: 20 }, () => [])
    let longest = 0
    for (let n = 0; n < 40_000; n++) {
      const bucket = pick(4) > 0 ? 0 : pick(20)
      const rows = buckets[bucket]!
      kept.of(bucket)
      if (kept.length !== rows.length) t.fail(`${kept.length} rows rather than ${rows.length}`)
      const roll = random()
      if (roll < 0.55 || rows.length === 0) {
        const time = roll < 0.4 ? n : pick(n)
        const at = kept.upTo(time)
        if (at !== rows.filter(([other]) => other! <= time).length) t.fail(`${at} rows up to ${time}`)
        const row = Array.from({ length: width }, (_, column) => (column === 0 ? time : n + column))
        kept.insert(at)
        for (const [column, value] of row.entries()) kept.set(at, column, value)
        rows.splice(at, 0, row)
      } else if (roll < 0.9) {
        const at = pick(rows.length)
        kept.remove(at)
        rows.splice(at, 1)
      } else {
        const count = Math.min(random() < 0.95 ? pick(4) : pick(rows.length + 1), rows.length)
        kept.removeFirst(count)
        rows.splice(0, count)
      }
      longest = Math.max(longest, rows.length)
      if (n % 50 > 0) continue
      const moved = new EarlierRows(room, width)
      moved.reserve(20)
      for (let other = 0; other < 20; other++) moved.adopt(other, kept, other)
      kept = moved
      const got = buckets.map((rows, n) => rows.map((row, i) => row.map((_, column) => kept.of(n).get(i, column))))
      if (JSON.stringify(got) !== JSON.stringify(buckets)) t.fail(`after ${n} steps`)
      if (room.rows !== buckets.flat().length) t.fail(`${room.rows} rows`)
    }
    t.ok(longest > 50, `${longest}`)
    kept.release()
    t.equal(room.rows, 0)
    t.equal(room.bytes, 0)
  }
  t.end()
})

t.test('a bucket takes at most twice the memory of its rows, and gives it back', t => {
  const room = new EarlierMemory()
  const kept = new EarlierRows(room, 3)
  kept.reserve(10_000)
  for (const rows of [1, 2, 5, 64, 1, 700]) {
    const many = Math.floor(10_000 / rows)
    for (let bucket = 0; bucket < many; bucket++) {
      for (let row = 0; row < rows; row++) kept.of(bucket).insert(row)
    }
    t.ok(room.bytes <= many * (rows * 24 * 2 + 64), `${rows} rows: ${room.bytes} bytes`)
    for (let bucket = many - 1; bucket >= 0; bucket--) kept.of(bucket).removeFirst(rows)
    t.equal(room.rows, 0)
    t.equal(room.bytes, 0)
  }
  t.end()
})

t.test('idle buckets are released as the times of the events go on, however fast that is', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode, maxKeys: 10_000 }, 2000)
    let [refused, most] = [0, 0]
    // A day in a moment: each second 500 new keys, and one that is always there.
    for (let second = 0; second < 400; second++) {
      from('old')
      for (let n = 0; n < 500; n++) if (take(1_000_000 + second * 500 + n, second * 1000 + n) === FULL) refused++
      if (take(7, second * 1000) !== PASS || take(7, second * 1000 + 999) !== DISCARD) t.fail(`${mode}: at ${second}`)
      most = Math.max(most, limiter.keys)
    }
    t.equal(refused, 0, `${mode}: no key is refused`)
    t.ok(most < 500 * 8 && most > 500 * 3, `${mode}: at most ${most} buckets`)
    take(8, 400 * HOUR)
    for (const seconds of [0, 4, 8]) {
      from('old')
      take(8, 400 * HOUR + seconds * 1000)
    }
    from('old')
    t.equal(limiter.keys, 1, mode)
    t.ok(limiter.timing.room.rows <= 2, `${mode}: ${limiter.timing.room.rows} windows`)
  }
})

t.test('buckets ahead of a file that is waited for are not forgotten', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode, maxKeys: 1000 }, 1000)
    const day = 24 * HOUR
    from('live')
    for (let id = 100; id < 200; id++) t.equal(take(id, day), PASS)
    from('live')
    for (let second = 0; second < 100; second++) {
      from('old')
      for (let n = 0; n < 50; n++) take(1000 + second * 50 + n, second * 1000)
    }
    t.ok(limiter.keys < 100 + 50 * 5, `${limiter.keys}: those of the old file are released`)
    from('live')
    const again = Array.from({ length: 100 }, (_, n) => take(100 + n, day + 999 - (mode === 'aligned' ? 0 : 500)))
    t.same(new Set(again), new Set([DISCARD]), `${mode}: those of the live one are all there`)
    for (let second = 0; second < 61; second++) from('live', second * 1000)
    take(100, day + 60_000)
    for (let n = 0; n < 3; n++) {
      from('live', 61_000)
      take(100, day + 60_000 + n * 3000)
    }
    t.ok(limiter.keys < 5, `${mode}: without the old one for a minute, idle ones go: ${limiter.keys}`)
  }
})

t.test('a file that comes back after a pause of all is waited for, one that ended is not', async t => {
  const { limiter, from, take } = limiterOf({}, 1000)
  from('old', 0)
  take(1, 0)
  from('live', 10)
  take(1, HOUR)
  t.equal(limiter.timing.progress.oldest, 0)
  from('live', 10 * HOUR)
  take(1, HOUR)
  from('live', 10 * HOUR)
  t.equal(limiter.timing.progress.oldest, 0, 'a pause of all is no reason')
  for (let n = 0; n < 60; n++) from('live', 10 * HOUR + n * 900)
  t.equal(limiter.timing.progress.oldest, 0)
  for (let n = 60; n < 80; n++) {
    from('live', 10 * HOUR + n * 900)
    take(1, HOUR)
  }
  t.equal(limiter.timing.progress.oldest, HOUR)
  // Most files are quiet: their share of the work is small.
  const many = limiterOf({}, 1000)
  for (let n = 0; n < 5000; n++) {
    many.from(`file ${n}`, n)
    many.take(1, n)
  }
  for (let n = 0; n < 5000 / 8; n++) many.from('file 0', 5000)
  t.equal(many.limiter.timing.progress.oldest, 0)
  for (let n = 5000; n < 10_001; n++) {
    many.from(`file ${n}`, 5000)
    many.take(1, n)
  }
  for (let n = 0; n < 10_000 / 8; n++) many.from('file 9999', 5000)
  t.equal(many.limiter.timing.progress.oldest, 1, 'ten thousand at most')
  const untimed = limiterOf({}, 1000)
  untimed.limiter.timing.progress.enter({}, 0, 5000)
  t.equal(untimed.limiter.timing.progress.oldest, 5000, 'without any time in the events, that of arrival')
})

t.test('max_keys: no live bucket is dropped for a new one, idle ones are', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode, maxKeys: 100 }, 1000)
    from('a')
    for (let id = 0; id < 100; id++) t.equal(take(id, 0), PASS)
    t.equal(take(100, 1999), FULL, `${mode}: needed for late events`)
    t.equal(take(0, 999), DISCARD)
    from('a')
    take(0, 2000)
    for (let n = 0; n < 100; n++) take(101, 2000)
    t.not(take(101, 2000), FULL, mode)
    t.ok(limiter.keys <= 100)
  }
})

t.test('windows that are kept have a bound in each bucket, and what is forgotten discards nothing', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode }, 24 * HOUR)
    const discarded = { live: 0, old: 0 }
    from('old')
    take(1, -10 * HOUR)
    from('live')
    for (let n = 0; n < 10_000; n++) if (take(1, n * 1000) === DISCARD) discarded.live++
    t.equal(discarded.live, 0)
    t.equal(limiter.timing.room.rows, 4096)
    t.ok(limiter.timing.room.forgotten >= 10_000 - 4098 && limiter.timing.room.forgotten <= 10_000 - 4095)
    from('old')
    let passed = 0
    for (let n = 0; n < 1000; n++) if (take(1, -10 * HOUR + 2000 + n * 1000) === PASS) passed++
    t.equal(passed, 1000, 'within its limit')
    t.equal(take(1, -10 * HOUR + 2000 + 999 * 1000), DISCARD, 'and the limit holds for what is kept')
    t.equal(take(1, 0), DISCARD, 'the oldest are kept, too')
    t.equal(take(1, 9_998_000), DISCARD, 'and the newest')
    t.equal(limiter.timing.room.rows, 4096, mode)
  }
})

t.test('each of very many buckets keeps an earlier window', async t => {
  // The numbers of the row, those that the list begins with, and what the list itself takes.
  const { limiter, from, take } = limiterOf({}, 500)
  for (const time of [0, 1000]) {
    from('a')
    for (let id = 0; id < 50_000; id++) take(id, time)
  }
  t.equal(limiter.timing.room.rows, 50_000)
  t.equal(limiter.timing.room.forgotten, 0)
  t.equal(limiter.timing.room.bytes, 50_000 * ((3 + 2) * 8 + 48))
})

t.test('all buckets together have a bound, and what they keep is given back', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode, windowMs: 1 }, 2000)
    const others = MOST_ROW_BYTES - 2_000_000
    limiter.timing.room.bytes = others
    from('a')
    const wrong = { discarded: 0, late: 0 }
    for (let n = 0; n < 110; n++) {
      for (let id = 0; id < 1000; id++) {
        const taken = take(id, n)
        if (taken === DISCARD) wrong.discarded++
        if (taken === LATE) wrong.late++
      }
    }
    t.same(wrong, { discarded: 0, late: 0 }, mode)
    t.ok(limiter.timing.room.bytes <= MOST_ROW_BYTES)
    t.ok(limiter.timing.room.rows > 50_000, `${limiter.timing.room.rows}`)
    t.ok(limiter.timing.room.forgotten >= 109_000 - limiter.timing.room.rows, `${limiter.timing.room.forgotten}`)
    t.equal(take(5, 108), DISCARD)
    // As the times go on, all of it comes back.
    for (let n = 0; n < 4; n++) {
      take(3000, 10_000 * (n + 1))
      from('a')
    }
    t.equal(limiter.keys, 1)
    t.ok(limiter.timing.room.rows <= 1, `${mode}: ${limiter.timing.room.rows}`)
    t.ok(limiter.timing.room.bytes < others + 200_000, `${limiter.timing.room.bytes - others}`)
  }
})

t.test('a bucket for whose windows there is no memory has its newest one', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode, windowMs: 1 }, 2000)
    limiter.timing.room.bytes = MOST_ROW_BYTES
    from('a')
    t.equal(take(1, 108), PASS)
    t.equal(take(1, 109), PASS)
    t.equal(take(1, 109), DISCARD)
    t.equal(take(1, 108), PASS, `${mode}: forgotten`)
    t.ok(limiter.timing.room.forgotten > 0, mode)
  }
})

t.test('what is kept is counted, also of buckets that were moved', async t => {
  for (const mode of MODES) {
    const { limiter, from, take } = limiterOf({ mode }, 10_000)
    for (let second = 0; second < 300; second++) {
      from('a')
      take(1, second * 1000)
      if (second % 30 === 0) take(2, second * 1000)
    }
    t.equal(limiter.timing.room.rows, 11, `${mode}: ten seconds, and one before`)
  }
})

t.test('after hours in which nothing came nothing is kept; an outage of less is none', async t => {
  const { limiter, from, take } = limiterOf({ windowMs: 60_000 }, 1000)
  from('a', 0)
  for (let id = 0; id < 50; id++) take(id, 0)
  for (let id = 0; id < 50; id++) take(id, 60_500)
  t.equal(limiter.timing.room.rows, 50)
  limiter.timing.rest(limiter, HOUR + 60_999)
  t.equal(limiter.keys, 50)
  limiter.timing.rest(limiter, HOUR + 61_000)
  t.equal(limiter.keys, 0)
  t.equal(limiter.timing.room.rows, 0)
  from('a', HOUR + 61_000)
  t.equal(take(1, 60_600), PASS)
})
