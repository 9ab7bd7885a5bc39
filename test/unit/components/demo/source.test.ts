import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { demo } from '../../../../src/components/demo/source.js'
import { ManualTime } from '../../../support/manual-time.js'
import { contextOf, Taker } from '../../../support/pushed.js'

interface Made {
  readonly app: string
  readonly n: number
  readonly timestamp: string
}

/** A source that runs by a clock of the test, which `pass` moves. */
async function started(t: Test, options: object, out = new Taker('delivered')) {
  const time = new ManualTime()
  const { context, counters } = contextOf('demo', time)
  const source = await demo.create(demo.options.parse(options), context)
  const controller = new AbortController()
  const run = source.run(out, controller.signal)
  t.teardown(async () => {
    controller.abort()
    out.unblock()
    await run
  })
  return { out, counters, pass: (ms: number) => time.advance(ms), end: () => controller.abort(), run }
}

/** What the source makes in so many seconds. */
async function made(t: Test, options: object, seconds: number): Promise<Made[]> {
  const { out, pass } = await started(t, options)
  await pass(seconds * 1000)
  return out.fields as unknown as Made[]
}

const perApp = (events: readonly Made[]) => {
  const counts: Record<string, number> = {}
  for (const { app } of events) counts[app] = (counts[app] ?? 0) + 1
  return counts
}

t.test('rate: so many events per second, of all apps together, from the first tenth of a second on', async t => {
  for (const rate of [1, 7, 100, 25_000]) t.equal((await made(t, { rate }, 3)).length, 3 * rate, `${rate}`)
  const { out, pass } = await started(t, { rate: 100 })
  await pass(100)
  t.equal(out.events, 10)
})

t.test('no event is made near the full second: a window that begins there has `rate` of them', async t => {
  const { out, pass } = await started(t, { rate: 100 })
  for (const [ms, events] of [
    [930, 90],
    [40, 100],
    [70, 100],
    [20, 110],
  ] as const) {
    await pass(ms)
    t.equal(out.events, events, `${ms} ms later`)
  }
})

t.test('apps: their number, or their names', async t => {
  const names = async (apps?: unknown) => Object.keys(perApp(await made(t, { rate: 1000, apps }, 1))).sort()
  t.same(await names(), ['batch', 'checkout', 'mail', 'web'])
  t.same(await names(6), ['app-5', 'app-6', 'batch', 'checkout', 'mail', 'web'])
  t.same(await names(['cart', 'search']), ['cart', 'search'])
  t.same(await names(['alone']), ['alone'])
  for (const apps of [0, [], [''], 'web', 1.5]) t.notOk(demo.options.safeParse({ apps }).success, JSON.stringify(apps))
})

t.test('one app at a time is noisy, and the noise moves to another one', async t => {
  const events = await made(t, { rate: 100 }, 30)
  const noisiest = Array.from({ length: 30 }, (_, second) => {
    const [[app, most] = ['', 0], ...others] = Object.entries(
      perApp(events.slice(second * 100, second * 100 + 100)),
    ).sort(([, a], [, b]) => b - a)
    return { app, most, others: others.map(([, count]) => count) }
  })
  const clear = noisiest.filter(({ most }) => most > 65)
  t.ok(clear.length > 20, 'in nearly each second one app makes most of the events')
  t.ok(
    clear.every(({ others }) => others.every(count => count < 20)),
    'and the others make few',
  )
  t.ok(new Set(clear.map(({ app }) => app)).size > 2, 'which one changes')
})

t.test('seed: the same options make the same sequence, another seed another one', async t => {
  const without = (events: readonly Made[]) => events.map(({ timestamp, ...rest }) => rest)
  const first = without(await made(t, { seed: 3 }, 5))
  t.same(without(await made(t, { seed: 3 }, 5)), first)
  t.notSame(without(await made(t, { seed: 4 }, 5)), first)
})

t.test('n counts the events of each app without a gap; timestamps are those of the clock', async t => {
  const events = await made(t, { rate: 500 }, 2)
  const counts: Record<string, number> = {}
  for (const { app, n } of events) {
    counts[app] = (counts[app] ?? 0) + 1
    if (n !== counts[app]) t.fail(`${app}: ${n} instead of ${counts[app]}`)
  }
  const [first, last] = [events.at(0)!, events.at(-1)!]
  t.equal(Date.parse(last.timestamp) - Date.parse(first.timestamp), 1900)
})

t.test('without room it waits, and then makes the events of one second at most', async t => {
  const { out, pass } = await started(t, { rate: 100 })
  out.block()
  await pass(60_000)
  t.equal(out.events, 10)
  out.unblock()
  await pass(100)
  t.equal(out.events, 110)
})

t.test('an event that was not delivered is counted; it ends at once', async t => {
  const { out, counters, pass, end, run } = await started(t, { rate: 10 }, new Taker('errored'))
  await pass(100)
  t.equal(counters.failures.get('undelivered'), 1)
  end()
  await run
  t.equal(out.events, 1)
})

t.test('its examples are options that it takes, and `fields` names all fields of its events', async t => {
  for (const { title, yaml } of demo.examples) t.ok(demo.options.safeParse(parse(yaml)).success, title)
  const [event] = await made(t, {}, 1)
  t.same(Object.keys(event!), demo.fields?.(demo.options.parse({}))?.names)
})
