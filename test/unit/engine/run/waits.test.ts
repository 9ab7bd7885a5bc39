import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { routeProcessor } from '../../../../src/components/processors/route.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import { defineDestination, defineProcessor, defineSource } from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { Engine } from '../../../../src/engine/run/engine.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { type Flow, WaitWatch } from '../../../../src/engine/run/measure/waits.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { nextTurn, systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { ManualTime } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

/** Inspections after which a component without progress is still. */
const STILL = 6

interface Fake {
  moved: number
  blocked?: boolean
  /** Sources whose events it holds. */
  holds?: string[]
}

/** A watch over made-up components. `paths`: `source > reader` for each source that reaches a reader. */
function watched(paths: readonly string[], fakes: Record<string, Fake>) {
  const time = new ManualTime()
  const lines: Record<string, unknown>[] = []
  const watch = new WaitWatch(pino({}, { write: line => lines.push(JSON.parse(line)) }), time)
  const part = (id: string) => ({ id, moved: () => fakes[id]!.moved, owes: () => true })
  const ids = Object.keys(fakes)
  const flow: Flow = {
    sources: ids
      .filter(id => id.startsWith('s'))
      .map(id => ({ ...part(id), isBlocked: () => fakes[id]!.blocked === true })),
    readers: ids
      .filter(id => !id.startsWith('s'))
      .map(id => ({ ...part(id), holds: (source = 's') => fakes[id]!.holds?.includes(source) === true })),
    reaches: (source, id) => paths.includes(`${source} > ${id}`),
  }
  const inspect = async (times = 1) => {
    for (let i = 0; i < times; i++) {
      watch.inspect(flow)
      await time.advance(1000)
    }
    return Object.fromEntries(watch.all.map(one => [one.id, one.for.join()]))
  }
  return { watch, time, inspect, logged: () => lines.splice(0).map(({ component, msg }) => `${component} ${msg}`) }
}

const BEGINS = 'waiting for components that make no progress'
const ENDS = 'no longer waiting'

t.test('a wait begins after some inspections without progress, keeps its time, and ends', async t => {
  const fakes = { s: { moved: 1, blocked: true }, good: { moved: 1 }, bad: { moved: 1, holds: ['s'] } }
  const { watch, time, inspect, logged } = watched(['s > good', 's > bad'], fakes)
  t.same(await inspect(STILL - 1), {}, 'usual back-pressure')
  t.same(await inspect(), { s: 'bad', good: 'bad' })
  const began = watch.all.map(({ since }) => since)
  const start = new Date(time.wall() - STILL * 1000).toISOString()
  t.same(began, [start, start], 'since the last progress')
  await inspect(100)
  t.same(
    watch.all.map(({ since }) => since),
    began,
  )
  t.same(logged(), [`s ${BEGINS}`, `good ${BEGINS}`], 'once')
  fakes.bad.moved++
  t.same(await inspect(), {})
  t.same(logged(), [`s ${ENDS}`, `good ${ENDS}`])
})

t.test('a receiver that is slow again and again is logged at most once a minute', async t => {
  const fakes = { s: { moved: 1, blocked: true }, bad: { moved: 1, holds: ['s'] } }
  const { inspect, logged } = watched(['s > bad'], fakes)
  for (let i = 0; i < 20; i++) {
    await inspect(8)
    fakes.bad.moved++
    fakes.s.moved++
  }
  const begun = logged().filter(line => line.endsWith(BEGINS)).length
  t.ok(begun >= 2 && begun <= 4, `${begun} times in 160 s`)
})

t.test('a wait that the limit of the log has hidden at first is logged later', async t => {
  const fakes = { s: { moved: 1, blocked: true }, bad: { moved: 1, holds: ['s'] } }
  const { inspect, logged } = watched(['s > bad'], fakes)
  await inspect(STILL)
  fakes.bad.moved++
  await inspect(STILL)
  t.same(logged(), [`s ${BEGINS}`, `s ${ENDS}`])
  await inspect(60)
  t.same(logged(), [`s ${BEGINS}`])
})

t.test('several sources and roots', async t => {
  const paths = ['s1 > bad', 's1 > worse', 's1 > both', 's2 > both', 's3 > worse', 's3 > bad']
  const fakes: Record<string, Fake> = {
    s1: { moved: 1, blocked: true },
    s2: { moved: 1 },
    s3: { moved: 1, blocked: true },
    both: { moved: 1 },
    bad: { moved: 1, holds: ['s1'] },
    worse: { moved: 1, holds: ['s1', 's3'] },
  }
  const { inspect } = watched(paths, fakes)
  const ofS1 = { s1: 'bad,worse', s3: 'worse' }
  t.same(await inspect(STILL), ofS1, 'not a root, nor what another source may still feed')
  Object.assign(fakes.s2!, { moved: 2, blocked: true })
  t.same(await inspect(STILL), ofS1, 'nor a source that nobody keeps from sending')
  fakes.worse!.holds!.push('s2')
  paths.push('s2 > worse')
  t.same(await inspect(), { ...ofS1, s2: 'worse', both: 'bad,worse' })
  fakes.bad!.moved++
  t.same(await inspect(), { s1: 'worse', s2: 'worse', s3: 'worse', both: 'worse' })
})

/** What the destinations `collect` do, by id: deliver at once, not end, or fail. */
let habits: Record<string, 'hangs' | 'fails'>

const lines = defineSource({
  type: 'lines',
  summary: 'Sends lines.',
  options: z.strictObject({ text: z.string().default('a'), count: z.int().default(400) }),
  examples: [{ title: '', yaml: '' }],
  create({ text, count }, context) {
    const origin = context.origin(TEXT_LINES)
    return {
      async run(out, signal) {
        for (let i = 0; i < count && !signal.aborted; i++) {
          const frame = new LineSplitter(1 << 20).push(Buffer.from(`${text.padEnd(1000, '.')}\n`.repeat(100)))!
          const ack = out.ack(() => {})
          await out.send(new EventBatch(frame, origin, 0, ack))
          await nextTurn()
        }
        if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
      },
    }
  },
})
const collect = defineDestination({
  type: 'collect',
  ...madeUp('Does what a test says.'),
  delivery: LOCAL_DEFAULTS,
  create: (_, { id }) => ({
    async write() {
      if (habits[id] === 'hangs') await until(() => habits[id] !== 'hangs')
      if (habits[id] === 'fails') throw new DeliveryError('away', { failure: 'retry', reason: 'refused' })
    },
  }),
})
const hangs = defineProcessor({
  type: 'hangs',
  ...madeUp('Never ends.'),
  create: () => ({ process: () => new Promise(() => {}) }),
})

/** Runs a configuration. `waits` resolves when every source that is named in `blocked` has made no progress for long. */
async function running(t: Test, yaml: string, does: typeof habits) {
  habits = does
  const text = `data_dir: ${testFolder(t)}\nmetrics: false\n${yaml}`
  const components = [lines, collect, hangs, routeProcessor, throttle]
  const config = parseConfig(text, 'test.yaml', { env: {}, components })
  const log = pino({ level: 'silent' })
  const streams = { stdin: new PassThrough(), stdout: new PassThrough() }
  const metrics = new Metrics(log)
  const engine = await Engine.build(config, { log, clock: systemClock, random: () => 0.5, metrics, ...streams })
  const run = engine.run()
  t.teardown(async () => {
    habits = {}
    engine.abort()
    await run
  })
  const watch = new WaitWatch(log, systemClock)
  /** What waits when nothing but failing attempts has happened for `STILL` inspections. */
  const waits = async () => {
    const moved = () => [...engine.flow().sources, ...engine.flow().readers].map(part => part.moved()).join()
    let before = ''
    let same = 0
    await until(
      'no component moves',
      () => {
        watch.inspect(engine.flow())
        same = moved() === before ? same + 1 : 0
        before = moved()
        return same >= STILL
      },
      { every: 30, show: moved },
    )
    return Object.fromEntries(watch.all.map(one => [one.id, one.for.join()]))
  }
  return { engine, waits }
}

const FAST = 'retry: { initial: 5ms, max: 5ms }'

t.test('a dead destination holds up its siblings until it recovers', async t => {
  const yaml = `
sources: { a: { type: lines } }
destinations:
  good: { type: collect, inputs: [a] }
  bad: { type: collect, inputs: [a], ${FAST} }
`
  for (const how of ['fails', 'hangs'] as const) {
    const { engine, waits } = await running(t, yaml, { bad: how })
    t.same(await waits(), { a: 'bad', good: 'bad' }, how)
    const [source] = engine.flow().sources
    const before = source!.moved()
    habits = {}
    await until(() => source!.moved() > before + 1000)
  }
})

t.test('for the destination at the end of a chain, through processors and routes', async t => {
  const yaml = `
sources:
  a: { type: lines }
  b: { type: lines, text: b }
processors:
  first: { type: route, inputs: [a, b], routes: { a: "if (.message starts_with 'a')" } }
  second: { type: throttle, inputs: [first.else], limit: 1000000, window: 1 Seconds }
destinations:
  good: { type: collect, inputs: [first.a] }
  bad: { type: collect, inputs: [second], ${FAST} }
`
  const { waits } = await running(t, yaml, { bad: 'fails' })
  t.same(await waits(), { a: 'bad', b: 'bad', first: 'bad', second: 'bad', good: 'bad' })
})

t.test('each source for the destination that has its events', async t => {
  const yaml = `
sources:
  a: { type: lines }
  b: { type: lines, text: b }
processors:
  split: { type: route, inputs: [b], routes: { a: "if (.message starts_with 'a')" } }
destinations:
  bad: { type: collect, inputs: [a, split.a], ${FAST} }
  worse: { type: collect, inputs: [split.else], ${FAST} }
`
  const { waits } = await running(t, yaml, { bad: 'fails', worse: 'fails' })
  t.same(await waits(), { a: 'bad', b: 'worse', split: 'worse' })
})

t.test('the budget of unacknowledged bytes', async t => {
  const yaml = `
sources: { a: { type: lines } }
destinations:
  good: { type: collect, inputs: [a], batch: { max_events: 1000000, max_bytes: 1GB, max_wait: 1 Hours } }
  bad: { type: collect, inputs: [a], max_in_flight: 1000, batch: { max_events: 1 } }
`
  const { waits } = await running(t, yaml, { bad: 'hangs' })
  t.same(await waits(), { a: 'bad' }, 'not for one that waits for more events on purpose')
})

t.test('a full buffer on disk, unless it drops', async t => {
  const yaml = (whenFull: string) => `
sources: { a: { type: lines, count: 50 } }
destinations:
  good: { type: collect, inputs: [a] }
  bad: { type: collect, inputs: [a], ${FAST}, buffer: { type: disk, max_bytes: 1MB, when_full: ${whenFull} } }
`
  const blocks = await running(t, yaml('block'), { bad: 'fails' })
  t.same(await blocks.waits(), { a: 'bad', good: 'bad' })
  const drops = await running(t, yaml('drop_newest'), { bad: 'fails' })
  t.same(await drops.waits(), {})
  t.equal(drops.engine.states().find(({ id }) => id === 'good')?.state, 'ready')
})

t.test('a processor that does not end, but not one that delays on purpose', async t => {
  const yaml = (processor: string) => `
sources: { a: { type: lines } }
processors: { p: ${processor} }
destinations:
  good: { type: collect, inputs: [a] }
  out: { type: collect, inputs: [p], ${FAST} }
`
  const stuck = await running(t, yaml('{ type: hangs, inputs: [a] }'), {})
  t.same(await stuck.waits(), { a: 'p', good: 'p', out: 'p' })
  const delaying = yaml('{ type: throttle, inputs: [a], limit: 1, window: 1h, over_limit: { wait: 24 Hours } }')
  const delays = await running(t, delaying, {})
  t.same(await delays.waits(), {})
  const both = yaml('{ type: throttle, inputs: [a], limit: 20000, window: 1h, over_limit: { wait: 24 Hours } }')
  const behind = await running(t, both, { out: 'fails' })
  t.same(await behind.waits(), { a: 'out', good: 'out', p: 'out' }, 'a delay with a dead destination behind it')
})
