import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { systemClock } from '../../../../src/lib/time.js'
import { Budget } from '../../../../src/page/server/watch/budget.js'
import { KeptEvidence } from '../../../../src/page/server/watch/evidence.js'
import { find } from '../../../../src/page/server/watch/find.js'
import { KeptEvents, LONGEST_TEXT } from '../../../../src/page/server/watch/kept-events.js'
import { PlaceSample } from '../../../../src/page/server/watch/place-sample.js'
import { batchOf } from '../../../support/batches.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime } from '../../../support/manual-time.js'
import { Seeded } from '../../../support/seeded.js'

const NOWHERE = Buffer.alloc(18)
const READING = '0011223344556677'

/** A batch whose lines begin at a place of what was read. */
function batchAt(lines: readonly (object | string)[], at: number, reading = READING, receivedAt = 0): EventBatch {
  const batch = batchOf(lines, { receivedAt })
  batch.sentOffsets = new SentOffsets(0, { reading, at })
  return batch
}

/** A batch without some of its events, as a processor leaves it. */
function without(batch: EventBatch, isGone: (i: number) => boolean): EventBatch {
  return batch.pick(i => !isGone(i))!
}

t.test('the same events are chosen everywhere, as far as rates allow, and about as many as allowed', async t => {
  const random = new Seeded(1)
  const [wide, narrow] = [new PlaceSample(100), new PlaceSample(25)]
  const chosen = { wide: new Set<number>(), narrow: new Set<number>() }
  let events = 0
  let place = 0
  const seconds = 20
  let before = { events: 0, place: 0 }
  for (let n = 0; n < seconds * 10; n++) {
    if (n % 10 === 0) {
      const more = events - before.events
      const size = (place - before.place) / Math.max(1, more)
      wide.second(more, size)
      narrow.second((more * 2) / 3, size)
      before = { events, place }
    }
    const lines = Array.from({ length: 50 + random.below(100) }, (_, i) => ({
      n: events + i,
      text: 'x'.repeat(random.below(200)),
    }))
    const batch = batchAt(lines, place)
    place += batch.bytes
    events += lines.length
    // The first second shows how many there are.
    const note = (all: Set<number>) => (i: number) => n >= 10 && all.add(batch.place(i))
    wide.choose(batch, note(chosen.wide))
    const rest = without(batch, i => i % 3 === 0)
    narrow.choose(rest, i => n >= 10 && chosen.narrow.add(rest.place(i)))
  }
  for (const [all, most] of [
    [chosen.wide, 100],
    [chosen.narrow, 25],
  ] as const) {
    t.ok(all.size <= most * (seconds - 1), `at most ${most} per second: ${all.size}`)
    t.ok(all.size >= (most / 16) * (seconds - 1), `not many fewer: ${all.size}`)
  }
  const shared = [...chosen.narrow].filter(place => chosen.wide.has(place)).length
  t.ok(shared >= 0.9 * chosen.narrow.size, `${shared} of ${chosen.narrow.size} are chosen in both`)
})

t.test('a batch is wanted if one of its events is chosen', async t => {
  for (const perSecond of [500, 20_000]) {
    const sample = new PlaceSample(100)
    sample.second(perSecond, 20)
    let [place, wanted] = [0, 0]
    for (let n = 0; n < 20_000; n++) {
      if ((n * 3) % perSecond === 0) sample.second(perSecond, 20)
      const batch = batchAt(['{}', `{"n":${n}}`, '{}'], place, READING, Math.floor((n * 3000) / perSecond))
      place += batch.bytes
      const isWanted = sample.wants(batch)
      const chosen: number[] = []
      sample.choose(batch, i => chosen.push(i))
      if (isWanted !== chosen.length > 0) t.fail(`batch ${n}: ${isWanted ? 'wanted' : 'not wanted'}, ${chosen}`)
      if (isWanted) wanted++
    }
    const seconds = 60_000 / perSecond
    const all = perSecond > 10_000 ? 100 / 32 : 100 / 8
    t.ok(wanted > 0.3 * all * seconds && wanted < 1.5 * all * seconds, `${wanted} in ${seconds} s`)
  }
})

t.test('everything is chosen below the rate, and with a value in a column only what has it', async t => {
  const sample = new PlaceSample(200)
  const chosen: number[] = []
  const batch = batchAt(
    Array.from({ length: 300 }, (_, n) => ({ n })),
    7,
  )
  const to = Uint8Array.from({ length: 300 }, (_, n) => (n % 10 === 0 ? 130 : 0))
  sample.choose(batch, i => chosen.push(i), to, 130)
  t.same(
    chosen,
    Array.from({ length: 30 }, (_, n) => n * 10),
  )
  chosen.length = 0
  sample.choose(batch, i => chosen.push(i))
  t.equal(chosen.length, 170, 'the rest of the second')
  t.notOk(sample.wants(batch))
  sample.choose(batch, () => t.fail('no more in this second'))
  sample.second(300, 10)
  t.ok(sample.wants(batch))
})

t.test('of a busy component a sample is kept, and of how many events', async t => {
  const evidence = new KeptEvidence(1e6, new ManualTime())
  const counters = new ComponentCounters('in', 'source', 'stdin')
  const one = evidence.of('in')
  for (let second = 0, place = 0; second < 5; second++) {
    one.second(counters)
    for (let n = 0; n < 10; n++) {
      const batch = batchAt(
        Array.from({ length: 200 }, (_, i) => ({ i })),
        place,
      )
      place += batch.bytes
      one.read(batch)
      counters.read(batch.length, batch.bytes, false)
    }
  }
  const { kept, oneIn } = evidence.passed.about('in')
  t.ok(kept > 110 && kept < 300, `the first 100, then fewer per second: ${kept}`)
  t.equal(oneIn, Math.round(8000 / kept), 'of those of the seconds that have ended')
})

t.test('a full memory drops the oldest events of the component that has most', async t => {
  const kept = new KeptEvents(10 * 16 * 1024)
  const text = Buffer.from(JSON.stringify({ text: 'x'.repeat(500) }))
  const add = (component: string, at: number) =>
    kept.add({
      at,
      component,
      what: 'discarded',
      id: NOWHERE,
      reason: 'r',
      words: 'w',
      rule: '',
      bucket: 'b',
      text,
      isCut: false,
    })
  for (let n = 0; n < 5; n++) add('quiet', n)
  for (let n = 0; n < 5000; n++) {
    kept.seen('loud', 2)
    add('loud', 10 + n)
    if (kept.used > 10 * 16 * 1024) t.fail('more memory than allowed')
  }
  t.match(kept.about('quiet'), { from: 0, kept: 5 })
  const loud = kept.about('loud')
  t.ok(loud.from! > 4000 && loud.kept > 100, JSON.stringify(loud))
  t.equal(loud.oneIn, 2)
  const times: number[] = []
  for (const { at } of kept.newest()) times.push(at)
  t.same(
    times,
    [...times].sort((a, b) => b - a),
    'newest first',
  )
  t.equal(times.length, loud.kept + 5)
  kept.limit(2 * 16 * 1024)
  t.equal(kept.used, 2 * 16 * 1024)
  kept.keepOnly(new Set(['quiet']))
  t.same([kept.about('loud').kept, kept.about().kept], [0, 5])
})

t.test('an event comes back as it was kept', async t => {
  const kept = new KeptEvents(1e6)
  const first = {
    at: 1.5,
    component: 'a',
    what: 'rejected',
    id: Buffer.from('aaaaaaaaaaaaaaaaaa'),
    reason: 'é',
    words: 'w'.repeat(5000),
    rule: 'limits[0]',
    bucket: null,
    text: Buffer.from('{"é":1}'),
    isCut: true,
  } as const
  const second = {
    ...first,
    at: 2,
    what: 'read',
    reason: '',
    words: '',
    rule: '',
    bucket: undefined,
    isCut: false,
  } as const
  kept.add(first)
  kept.add(second)
  const events: object[] = []
  for (const cursor of kept.newest()) events.push({ ...cursor.event() })
  t.same(events, [second, { ...first, words: 'w'.repeat(1024) }])
})

t.test('what a processor did not pass on comes with its reason in words, and what a receiver said', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  const one = evidence.of('p', { over: 'Too much.' }, (_, i) => ({
    bucket: i === 0 ? 'a' : null,
    rule: 'limits[0] (key a)',
  }))
  const batch = batchAt([{ n: 0 }, { n: 1 }, { n: 2, text: 'y'.repeat(9000) }], 0)
  const about = { batch, areKept: false, error: (i: number) => (i === 2 ? 'it has no name' : undefined) }
  one.discarded({ ...about, reason: 'over', events: 2, to: Uint8Array.of(128, 128, 0), value: 128 })
  one.discarded({
    ...about,
    reason: 'processing_failed',
    events: 1,
    to: Uint8Array.of(0, 0, 255),
    value: 255,
    areKept: true,
  })
  const error = new DeliveryError('all wrong', {
    failure: 'reject',
    reason: 'status_400',
    messages: ['bad 0', 'bad 1', 'bad 2'],
  })
  evidence.of('d').rejected([batch.fork(0, 1), batch.fork(1, 3)], error)
  const shown = async (q: string) => (await find(evidence, q, () => undefined)).found.map(({ steps }) => steps)
  t.match(await shown('.n equal 0'), [
    [
      { component: 'p', what: 'discarded', reason: 'over', words: 'Too much.', bucket: 'a', rule: 'limits[0] (key a)' },
      { component: 'd', what: 'rejected', reason: 'status_400', words: 'bad 0' },
    ],
  ])
  t.match(await shown('.n equal 1'), [[{ bucket: null }, { words: 'bad 1' }]])
  t.match(await shown('yyy'), [[{ reason: 'processing_failed', words: 'it has no name' }, { words: 'bad 2' }]])
  const { found } = await find(evidence, 'yyy', () => undefined)
  t.match(found, [{ event: undefined, id: eventId(batch, 2) }])
  t.equal(found[0]!.text.length, LONGEST_TEXT)
  t.same(await shown('.n equal 2'), [], 'a condition needs all of an event')
  t.equal((await shown(eventId(batch, 1))).length, 1, 'by its id')
})

t.test('an event without a place is put together by its text, once in each component', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  const lines = [{ n: 1 }, { n: 1 }, { n: 2 }]
  evidence.of('in').read(batchAt(lines, 0))
  evidence.of('out').delivered([batchAt(lines, 1000, '8899aabbccddeeff')])
  evidence.of('other').delivered([batchOf(lines)])
  const { found } = await find(evidence, '"n":1', () => undefined)
  const components = found.map(({ steps }) => steps.map(({ component }) => component).sort())
  t.same(
    components.sort((a, b) => a.length - b.length),
    [['in'], ['in', 'other', 'out']],
  )
})

t.test('the same line at another place of the same file is another event', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  evidence.of('in').read(batchAt([{ n: 1 }], 0))
  evidence.of('out').delivered([batchAt([{ n: 1 }], 500)])
  const { found } = await find(evidence, '"n":1', () => undefined)
  t.match(found, [{ steps: [{ component: 'in', what: 'read' }] }])
  t.equal(found[0]!.steps.length, 1)
})

t.test('a text that resembles a condition is searched, and what is wrong with the condition is told', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  evidence.of('in').read(batchAt([{ path: '.env file', app: 'cart' }], 0))
  const asked = async (q: string) => {
    const { as, found, not_condition } = await find(evidence, q, () => undefined)
    return [as, found.length, not_condition]
  }
  t.same(await asked(".app equal 'cart'"), ['condition', 1, undefined])
  t.same(await asked(".app equl 'cart'"), ['text', 0, 'unknown operator "equl"; did you mean equal? (column 6)'])
  t.same(await asked("app equal 'cart'"), ['text', 0, 'a field starts with a dot: .app (column 1)'])
  t.match(await asked('.env file'), ['text', 1, /^unknown operator "file"/])
  t.same(await asked('connection refused'), ['text', 0, undefined])
})

t.test('an event that several components have seen is one event', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  const lines = [{ n: 1 }, { n: 2 }, { n: 1 }]
  evidence.of('in').read(batchAt(lines, 0))
  for (const id of ['one', 'two']) evidence.of(id).reached(batchAt(lines, 0))
  evidence.of('behind a buffer').reached(batchOf([...lines, { n: 3 }]))
  const { looked_at } = await find(evidence, 'nothing', () => undefined)
  t.match(looked_at, [{ kept: 0 }, { kept: 0 }, { kind: 'passed', kept: 4 }])
})

t.test('an event is found by some of its fields, however its JSON is written', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(1e6, time)
  evidence.of('in').read(batchAt([{ n: 1, app: 'cart', tags: { a: [1] } }, { n: 11, app: 'cart' }, { app: 'cart' }], 0))
  const shown = async (q: string) => {
    const { as, found } = await find(evidence, q, () => undefined)
    return [as, ...found.map(({ event }) => (event as { n?: number }).n)]
  }
  t.same(await shown('{ "app": "cart", "n": 1 }'), ['event', 1])
  t.same(await shown('{"tags":{"a":[1]}}'), ['event', 1])
  t.same(await shown('{"n":"1"}'), ['event'])
  t.same(await shown('{"a":[1]}'), ['event', 1], 'and by a text that is JSON')
  t.same(await shown('{"n":1'), ['text', 11, 1])
})

t.test('of components with as many events, the oldest events go first', async t => {
  const kept = new KeptEvents(3 * 16 * 1024)
  const about = { what: 'read', id: NOWHERE, reason: '', words: '', rule: '', bucket: undefined, isCut: false } as const
  for (const [component, at] of [
    ['b', 2],
    ['a', 1],
    ['c', 3],
    ['d', 4],
    ['e', 5],
  ] as const)
    kept.add({ ...about, component, at, text: Buffer.from('{}') })
  t.same(
    ['a', 'b', 'c', 'd', 'e'].filter(component => kept.about(component).kept > 0),
    ['c', 'd', 'e'],
  )
})

longTest('a search lets other work have its turn, and finds 100 events at most', async t => {
  const time = new ManualTime()
  const evidence = new KeptEvidence(16e6, time)
  let place = 0
  for (let n = 0; n < 200; n++) {
    const batch = batchAt(
      Array.from({ length: 100 }, (_, i) => ({ n: n * 100 + i })),
      place,
    )
    place += batch.bytes
    evidence.of('in').read(batch)
    await time.advance(1000)
  }
  let turns = 0
  let isOver = false
  const turn = () => {
    if (isOver) return
    turns++
    setImmediate(turn)
  }
  setImmediate(turn)
  let at = 0
  const slow = { ...systemClock, now: () => (at += 1) }
  const finding = await new Budget(slow).answer(true, turn => find(evidence, '"n"', turn))
  isOver = true
  t.ok(turns > 50, `${turns} turns`)
  t.equal(finding.found.length, 100)
  t.ok(finding.more)
  t.equal((finding.found[0]!.event as { n: number }).n, 19_999, 'the newest first')
})
