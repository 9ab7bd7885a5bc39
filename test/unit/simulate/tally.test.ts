import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { throttle } from '../../../src/components/processors/throttle.js'
import { BucketKey } from '../../../src/components/throttle/buckets/bucket-key.js'
import { EXCLUDED } from '../../../src/components/throttle/decisions.js'
import { FieldReader } from '../../../src/core/event/field-reader.js'
import { Progress } from '../../../src/daemon/process/progress.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { inputBytes } from '../../../src/simulate/input-bytes.js'
import { DEFAULT_BUCKET, KeyIds } from '../../../src/simulate/key-ids.js'
import { MOST_SLOTS, TimeSlots } from '../../../src/simulate/slots.js'
import { HeavyKeys, TrialTally } from '../../../src/simulate/tally.js'
import type { Outcome } from '../../../src/simulate/trial.js'
import { Trials } from '../../../src/simulate/trials.js'
import { batchesOf, batchOf, fieldReaderOf, originOf } from '../../support/batches.js'
import { testFolder } from '../../support/folder.js'
import { seeded } from '../../support/seeded.js'
import { throttleStage } from '../../support/throttle-stage.js'

const NO_KEY = new BucketKey([])
const NO_SLOT = -1

t.test('numbers over time in at most 240 slots, whatever the times', async t => {
  const random = seeded(5)
  for (const next of [
    (n: number) => n,
    (n: number) => 1_760_000_000_000 + n * 997.5,
    (n: number) => 1_760_000_000_000 - n * 86_400_000,
    () => (random() - 0.5) * 8e15,
    (n: number) => (n === 700 ? 0 : 1_760_000_000_000 + random() * 1e6),
    () => 5,
  ]) {
    const slots = new TimeSlots()
    const table = slots.table(3)
    const times = Array.from({ length: 1000 }, (_, n) => next(n))
    for (const [n, time] of times.entries()) {
      // The cells move when the slots get longer.
      const slot = slots.slot(time)
      table.cells[slot * 3 + (n % 10 === 0 ? 1 : 2)]!++
    }
    const { start, slot_ms, count } = slots.used!
    const [none, tenth, others] = [0, 1, 2].map(column => slots.sums(table, column, column + 1)) as [
      number[],
      number[],
      number[],
    ]
    const sum = (values: number[]) => values.reduce((sum, value) => sum + value, 0)
    t.same([sum(none), sum(tenth), sum(others)], [0, 100, 900])
    t.ok(count <= MOST_SLOTS, `${count} slots of ${slot_ms} ms`)
    t.same(slots.span, { from: Math.min(...times), to: Math.max(...times) })
    for (let i = 0; i < count; i++) {
      const from = start + i * slot_ms
      const inside = times.filter(time => time >= from && time < from + slot_ms).length
      if (tenth[i]! + others[i]! !== inside) t.fail(`the slot of ${from} has other events`)
    }
    const width = Math.max(...times) - Math.min(...times)
    t.ok(slot_ms === 1 || width / slot_ms > 118, 'no longer than needed')
  }
  t.same(new TimeSlots().used, undefined)
  t.equal(new TimeSlots().span, undefined)
})

t.test('counts by key, the busiest window of each, and the others when there are too many', async t => {
  const wanted = new WantedNames()
  const key = new BucketKey([fieldReaderOf('.k', wanted)])
  const keys = Array.from({ length: 250_010 }, (_, n) => `k${n}`)
  const batch = batchOf([...keys.map(k => ({ k })), {}, { k: 'x'.repeat(1000) }, { k: 'k3' }], { wanted })
  const ids = new KeyIds(key, 250_000)
  const tally = new TrialTally({ ids, slots: new TimeSlots(), windowMs: 1000, aligned: false, trials: 1 })
  const add = (id: number, outcome: Outcome, time: number) => tally.add(id, outcome, 10, time, NO_SLOT)
  t.equal(new KeyIds(NO_KEY, 5).id(batch, 0), DEFAULT_BUCKET)
  t.equal(ids.id(batch, keys.length), DEFAULT_BUCKET)
  add(ids.id(batch, keys.length + 1), 1, 0)
  const third = ids.id(batch, keys.length + 2)
  for (let i = 0; i < keys.length; i++) {
    if (i === 250_005) tally.add(ids.id(batch, i), EXCLUDED, 10, 0, NO_SLOT)
    else add(ids.id(batch, i), 0, i / 1000)
  }
  t.equal(ids.id(batch, 3), third)
  t.equal(ids.size, 250_000)
  t.ok(ids.overflowed)
  // 1 at 0.003, 3 from 5000, 2 from 6000 (1 excluded aside), 3 again from 9000.
  for (const time of [5000, 5500, 5999.9, 6000, 6100, 9000, 9001, 9002]) add(third, 1, time)
  tally.add(third, EXCLUDED, 10, 0, NO_SLOT)
  const counts = (passed: number, discarded: number, excluded: number) => ({
    ...{ passed, discarded, excluded, passed_bytes: passed * 10, discarded_bytes: discarded * 10 },
  })
  t.same(tally.byKey(2), {
    losing_keys: 2,
    by_key: [
      { key: 'k3', ...counts(1, 8, 1), busiest: 3, busiest_at: 5000 },
      { key: `${'x'.repeat(100)}…`, ...counts(0, 1, 0), busiest: 1, busiest_at: 0 },
    ],
    others: { keys: 249_998, ...counts(250_008, 0, 1) },
  })
  t.equal(tally.byKey(300_000).by_key.length, 250_000)
  t.match(tally.byKey(300_000).others, { keys: 0, passed: 10, excluded: 1 })
})

t.test('aligned windows, and no others when all keys are shown', async t => {
  const ids = new KeyIds(NO_KEY, 5)
  const tally = (windowMs: number) =>
    new TrialTally({ ids, slots: new TimeSlots(), windowMs, aligned: true, trials: 1 })
  const counted = tally(1000)
  for (const time of [999, 1000, 1001, 1999, 2000]) counted.add(DEFAULT_BUCKET, 0, 0, time, NO_SLOT)
  const { by_key, others } = counted.byKey(20)
  t.match(by_key, [{ key: null, passed: 5, busiest: 3, busiest_at: 1000 }])
  t.equal(others, null)
  t.same(tally(1).byKey(5), { losing_keys: 0, by_key: [], others: null })
})

t.test('the heaviest keys over time: a heavier one takes the place of the lightest, and starts there', async t => {
  const slots = new TimeSlots()
  const heavy = new HeavyKeys(slots, 32)
  for (let id = 0; id < 32; id++) for (let n = 0; n <= id; n++) heavy.add(id, slots.slot(0))
  t.same(heavy.most(1), [{ id: 31, discarded: [32] }])
  for (let n = 0; n < 10; n++) heavy.add(500, slots.slot(1))
  const all = heavy.most(200)
  t.equal(all.length, 32)
  t.match(all.at(-1), { id: 1, discarded: [2, 0] }, 'the lightest has gone')
  t.same(all.find(({ id }) => id === 500)?.discarded, [0, 9], 'its first discard came before its row')
})

/** The files that this process has open in a folder. */
function openIn(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(folder) ? [path] : []
    } catch {
      return []
    }
  })
}

t.test('a file of which no more is wanted is closed, wherever reading stops', async t => {
  const text = Buffer.from('one line\n'.repeat(200_000))
  const dir = testFolder(t, { 'plain.log': text, 'packed.log.gz': gzipSync(text) })
  const { stderr, stdin, stdout } = process
  const io = { stderr, stdin, stdout } as never
  for (const name of ['plain.log', 'packed.log.gz']) {
    for (const pieces of [1, 2, 3]) {
      const progress = new Progress(stderr, undefined, () => 0)
      let read = 0
      for await (const _ of inputBytes(join(dir, name), { io, progress, signal: new AbortController().signal })) {
        if (++read === pieces) break
      }
      t.equal(read, pieces)
      t.same(openIn(dir), [], `${name}, after ${pieces}`)
    }
  }
})

t.test('of events over the limit of the default bucket, as many of each key pass as in the daemon', async t => {
  const config = {
    limit: 1,
    window: '1s',
    key_field: '.app',
    max_keys: 1,
    on_max_keys: 'default_bucket',
    over_limit: { pass_one_in: 2 },
  }
  const events = ['a', 'b', 'b', 'b', 'c', undefined, 'a', 'c', 'a', undefined, 'b', 'c'].map((app, n) => ({ app, n }))
  const origin = originOf('json')
  const context = {
    field: (path: ConstructorParameters<typeof FieldReader>[0]) => new FieldReader(path, origin.wanted),
  }
  const trials = new Trials([throttle.options.parse(config)], context, new TimeSlots(), { wantsDecisions: true })
  const [batch] = batchesOf(events.map(event => `${JSON.stringify(event)}\n`).join(''), origin)
  trials.enter(batch!)
  for (let i = 0; i < events.length; i++) trials.visit(batch!, i, 0, -1, i)
  const decided = trials
    .takeDecisions()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { n: number; decision: string; bucket: string | null })
  const { through } = await throttleStage(config)
  const { passed } = await through(events)
  t.same(
    decided.filter(({ decision }) => decision === 'pass').map(({ n }) => n),
    passed.map(line => JSON.parse(line).n),
  )
  t.same(
    decided.map(({ decision, bucket }) => `${bucket ?? ''}${decision === 'pass' ? '+' : '-'}`),
    // Room is for the count of b alone: all others share one.
    'a+ + - + - + a- + a- + - -'.split(' '),
  )
})
