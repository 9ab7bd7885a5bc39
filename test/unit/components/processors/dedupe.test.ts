import { once } from 'node:events'
import t from 'tap'
import { dedupe } from '../../../../src/components/processors/dedupe.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { Seeded } from '../../../support/seeded.js'
import { loadedStageOf } from '../../../support/stage.js'

type Given = Record<string, unknown>

/** A stage that is given events at times. */
async function deduped(options: object, clock = new ManualTime(), inherited?: unknown) {
  const made = await loadedStageOf(dedupe, { window: '10s', ...options }, { clock, inherited })
  const { stage, wanted, counters, processor } = made
  await stage.start(new AbortController().signal)
  const passed: Given[] = []
  stage.on('data', (batch: EventBatch) => {
    for (const line of linesOf(batch)) passed.push(JSON.parse(line))
    batch.ack.settle('delivered')
  })
  const balanced = () => t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return {
    clock,
    counters,
    processor,
    /** What has passed of these events, and of what else was there. */
    async give(...events: (Given | string)[]): Promise<Given[]> {
      const batch = batchOf(events, { wanted })
      counters.arrived(batch.length, batch.bytes)
      stage.write(batch)
      await settle()
      return passed.splice(0)
    },
    async after(ms: number): Promise<Given[]> {
      await clock.advance(ms)
      await settle()
      return passed.splice(0)
    },
    async end(isReplaced = false): Promise<Given[]> {
      stage.isReplaced = isReplaced
      stage.end()
      await once(stage, 'end')
      balanced()
      return passed.splice(0)
    },
    gauge: () => [...counters.series.get('sluice_dedupe_keys')![0]!.read()][0]!.value,
    forgotten: () => [...counters.series.get('sluice_dedupe_forgotten_keys_total')![0]!.read()][0]!.value,
  }
}

t.test('ids that differ in digits that a double has no room for are no duplicates', async t => {
  const ids = ['9007199254740992', '9007199254740993', '-1234567890123456789', '-1234567890123456790']
  for (const fields of ['.o.id', ['.o.id', '.app']]) {
    const { give } = await deduped({ fields })
    const passed = await give(...[...ids, ...ids].map(id => `{"o":{"id":${id}},"app":"a"}`))
    t.equal(passed.length, ids.length, `${fields}`)
  }
})

t.test('the first event of a window passes, and the next one after it has the number of its duplicates', async t => {
  const { give, after, counters, end } = await deduped({ fields: ['.app', '.message'] })
  const event = (n: number) => ({ app: 'a', message: 'full', n })
  t.same(await give(event(1), event(2), { app: 'b', message: 'full' }), [event(1), { app: 'b', message: 'full' }])
  t.same(await give({ n: 1 }, { n: 1 }, { app: '' }), [{ n: 1 }, { n: 1 }, { app: '' }], 'without the fields all pass')
  await after(9999)
  t.same(await give(event(3)), [], 'duplicates do not make the window longer')
  await after(1)
  t.same(await give(event(4), event(5)), [{ ...event(4), duplicates: 2 }])
  await after(100_000)
  t.same(await give({ app: 'b', message: 'full' }), [{ app: 'b', message: 'full' }], 'none: nothing is written')
  t.same(await give({ ...event(6), duplicates: 'x' }), [{ ...event(6), duplicates: 1 }])
  t.equal(counters.discards.get('duplicate')?.events, 3)
  t.same(await end(), [])
})

t.test('beyond max_keys the event that passed longest ago is forgotten, in every order of events', async t => {
  const random = new Seeded(3)
  const most = 20
  const { give, after, gauge, forgotten } = await deduped({ fields: '.k', max_keys: most, count_field: '.seen' })
  /** By key: when its window began, and the duplicates in it; the oldest first. */
  const model = new Map<string, { since: number; count: number }>()
  let now = 0
  let early = 0
  let reported = 0
  for (let round = 0; round < 300; round++) {
    const events = Array.from({ length: 10 }, () => ({ k: `key-${random.below(random.chance(0.9) ? 15 : 2000)}` }))
    const expected = events.flatMap(event => {
      const known = model.get(event.k)
      if (known && now - known.since < 10_000) {
        known.count++
        return []
      }
      model.delete(event.k)
      if (model.size === most) {
        const [[oldest, { since }]] = model as unknown as [[string, { since: number }]]
        if (now - since < 10_000) early++
        model.delete(oldest)
      }
      model.set(event.k, { since: now, count: 0 })
      if (!known || known.count === 0) return [event]
      reported++
      return [{ ...event, seen: known.count }]
    })
    t.same(await give(...events), expected, `round ${round}`)
    const ms = random.below(4000)
    now += ms
    await after(ms)
  }
  t.ok(early > 10 && reported > 100, `${early} forgotten early, ${reported} numbers of duplicates`)
  t.equal(forgotten(), early)
  t.equal(gauge(), most)
})

const summary = (key: string, duplicates: number, at: number, first: number) => ({
  message: 'duplicates',
  timestamp: new Date(at).toISOString(),
  dedupe: { component: 'p', key, duplicates, first: new Date(first).toISOString(), window_ms: 10_000 },
})

t.test('more keys are remembered than a call has room for arguments', async t => {
  const { give, gauge } = await deduped({ fields: '.k', max_keys: 1_000_000, window: '1 Hours' })
  const keys = (from: number) => Array.from({ length: 10_000 }, (_, i) => ({ k: from + i }))
  for (let from = 0; from < 300_000; from += 10_000) t.equal((await give(...keys(from))).length, 10_000)
  t.equal(gauge(), 300_000)
  for (const from of [0, 290_000]) t.same(await give(...keys(from)), [])
})

t.test('a summary follows at the end of the window, of the run, and before a successor', async t => {
  const options = { fields: '.k', report: 'summary' }
  const { give, after, end, clock } = await deduped(options)
  const start = clock.wall()
  t.same(await give({ k: 'a' }, { k: 'a' }, { k: 'a' }, { k: 'b' }), [{ k: 'a' }, { k: 'b' }])
  await after(500)
  t.same(await give({ k: 'b' }), [])
  t.same(await after(9000), [])
  t.same(await after(500), [summary('a', 2, start + 10_000, start), summary('b', 1, start + 10_000, start)])
  t.same(await give({ k: 'a' }, { k: 'a' }), [{ k: 'a' }], 'and nothing is written into the next event')
  t.same(await end(), [summary('a', 1, start + 10_000, start + 10_000)])

  const replaced = await deduped(options)
  await replaced.give({ k: 'a' }, { k: 'a' })
  t.same((await replaced.end(true)).length, 1)
  const state = replaced.processor.handOver!()!.value
  const successor = await deduped(options, replaced.clock, state)
  t.same(await successor.give({ k: 'a' }), [])
  t.match(await successor.end(), [{ dedupe: { key: 'a', duplicates: 1 } }], 'no duplicate is reported twice')
})

t.test('summaries are bounded, and complete', async t => {
  const { give, end } = await deduped({ fields: '.k', report: 'summary', max_keys: 2 })
  const long = 'x'.repeat(1000)
  await give(...['a', 'a', 'b', 'b', 'c', 'c', 'c', long, long].map(k => ({ k })))
  const found = (await end()).map(({ dedupe }) => dedupe as { key: string; duplicates: number })
  t.match(found, [
    { key: 'a', duplicates: 1 },
    { key: 'b', duplicates: 1 },
    { key: '__other__', duplicates: 3 },
  ])
})

t.test('what is remembered survives a reload', async t => {
  const before = await deduped({ fields: '.k' })
  await before.give({ k: 'a' }, { k: 'a' }, { k: 'a' })
  t.same(await before.end(true), [])
  const next = await deduped({ fields: '.k' }, before.clock, before.processor.handOver!()!.value)
  t.same(await next.give({ k: 'a' }), [])
  await next.after(10_000)
  t.same(await next.give({ k: 'a' }), [{ k: 'a', duplicates: 3 }])
})
