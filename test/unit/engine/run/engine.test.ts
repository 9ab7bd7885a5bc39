import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { filter } from '../../../../src/components/processors/filter.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import {
  type AnyDefinition,
  defineDestination,
  defineProcessor,
  defineSource,
  type Output,
} from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { discard } from '../../../../src/core/processor.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { FanOut } from '../../../../src/engine/flow/fan-out.js'
import { Engine } from '../../../../src/engine/run/engine.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { SourceRun, type SourceRunParts } from '../../../../src/engine/run/source-run.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { nextTurn, systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { advanceUntil, ManualTime } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

/** What the made-up components of a test share, by the test's name. */
interface Stage {
  /** Statuses in the order of settling, by source. */
  settled: AckStatus[]
  /** Lines in the order of writing, by destination. */
  written: Record<string, string[]>
  /** Destinations write only when this resolves. */
  gate: Promise<void>
  refuse?: (id: string) => DeliveryError | undefined
}
let stage: Stage

const lines = defineSource({
  type: 'lines',
  summary: 'Numbered lines.',
  options: z.strictObject({
    count: z.int(),
    size: z.int().default(10),
    per_batch: z.int().default(7),
    fail_once: z.boolean().default(false),
  }),
  examples: [{ title: '', yaml: 'count: 1' }],
  create(options, context) {
    const origin = context.origin(TEXT_LINES)
    let failed = !options.fail_once
    return {
      async run(out: Output, signal: AbortSignal) {
        if (!failed) {
          failed = true
          throw new Error('the first run fails')
        }
        for (let n = 0; n < options.count && !signal.aborted; ) {
          let text = ''
          for (let k = 0; k < options.per_batch && n < options.count; k++)
            text += `${`${context.id}${n++}`.padEnd(options.size, '.')}\n`
          const frame = new LineSplitter(1 << 20).push(Buffer.from(text))!
          const ack = out.ack(status => stage.settled.push(status))
          await out.send(new EventBatch(frame, origin, 0, ack))
        }
      },
    }
  },
})

/** Has something to save when everything else has ended. */
const late = defineSource({
  type: 'late',
  ...madeUp('Saves at its end.'),
  create(_, { checkpoints }) {
    let stopped = false
    checkpoints.provide(() => ({ stopped }))
    return {
      run: async () => checkpoints.changed(),
      async stop() {
        stopped = true
        checkpoints.changed()
      },
    }
  },
})

const collect = defineDestination({
  type: 'collect',
  ...madeUp('Keeps what it gets.'),
  delivery: LOCAL_DEFAULTS,
  create: (_, context) => ({
    async write(request) {
      await stage.gate
      const error = stage.refuse?.(context.id)
      if (error) throw error
      const written = (stage.written[context.id] ??= [])
      for (const batch of request) {
        for (let i = 0; i < batch.length; i++) written.push(batch.line(i).toString().replace(/\.+$/, ''))
      }
    },
  }),
})

const faulty = defineProcessor({
  type: 'faulty',
  summary: 'Wrong on purpose.',
  options: z.strictObject({ how: z.enum(['throws', 'throws_on_3', 'drops']) }),
  examples: [{ title: '', yaml: 'how: drops' }],
  plan: () => ({ reasons: ['twos'] }),
  create: ({ how }) => ({
    process(batch, to) {
      if (how === 'throws') throw new Error('a bug')
      if (how === 'drops') batch.retain(i => i > 0)
      for (let i = 0; i < batch.length; i++) {
        const text = batch.line(i).toString()
        if (how === 'throws_on_3' && text.startsWith('a3.')) throw new Error('a bug')
        if (text.startsWith('a2.')) to[i] = discard(0)
      }
    },
  }),
})

const components: readonly AnyDefinition[] = [lines, late, collect, faulty, throttle, filter]

async function build(t: Test, yaml: string) {
  stage = { settled: [], written: {}, gate: Promise.resolve() }
  const config = parseConfig(`data_dir: ${testFolder(t)}\nmetrics: false\n${yaml}`, 'test.yaml', {
    env: {},
    components,
  })
  const log = pino({ level: 'silent' })
  const metrics = new Metrics(log)
  const engine = await Engine.build(config, {
    log,
    clock: systemClock,
    random: () => 0,
    metrics,
    stdin: new PassThrough(),
    stdout: new PassThrough(),
  })
  return { engine, metrics }
}

t.test('several sources into one processor, fan-out, a side output', async t => {
  const config = `
sources:
  a: { type: lines, count: 100 }
  b: { type: lines, count: 50, per_batch: 3 }
processors:
  limit: { type: throttle, inputs: [a, b], limit: 40, window: 1 Hours }
  only_a: { type: filter, inputs: [limit], condition: "if (.message starts_with 'a')" }
destinations:
  passed: { type: collect, inputs: [limit] }
  also: { type: collect, inputs: [limit, only_a] }
  dropped: { type: collect, inputs: [limit.discarded] }
`
  const { engine, metrics } = await build(t, config)
  await engine.run()
  const { passed, also, dropped } = stage.written
  t.equal(passed!.length, 40)
  t.equal(dropped!.length, 110)
  t.same(new Set([...passed!, ...dropped!]).size, 150, 'each event is in exactly one of them')
  t.equal(also!.length, 40 + passed!.filter(line => line.startsWith('a')).length)
  const ofA = (all: string[]) => all.filter(line => line.startsWith('a')).map(line => Number(line.slice(1)))
  t.same(
    ofA(passed!),
    ofA(passed!).toSorted((x, y) => x - y),
    'in order',
  )
  t.equal(stage.settled.length, Math.ceil(100 / 7) + Math.ceil(50 / 3), 'each batch settles once')
  t.ok(stage.settled.every(status => status === 'delivered'))
  t.ok(metrics.checkConservation())
  const limit = metrics.components.get('limit')!
  t.same([limit.received.events, limit.passed.events, limit.discards.get('throttled')?.events], [150, 40, 110])
  t.equal(engine.undelivered(), 0)
})

t.test('a slow destination bounds what is read', async t => {
  const config = `
sources:
  a: { type: lines, count: 100000, size: 1000, per_batch: 100 }
destinations:
  slow: { type: collect, inputs: [a] }
  quick: { type: collect, inputs: [a] }
`
  const { engine, metrics } = await build(t, config)
  let open = () => {}
  stage.gate = new Promise(resolve => {
    open = resolve
  })
  const run = engine.run()
  const read = () => metrics.components.get('a')!.received.bytes
  for (let before = -1; before !== read(); ) {
    before = read()
    // A source that may read more does so within a few turns.
    for (let turns = 0; turns < 100; turns++) await nextTurn()
  }
  t.ok(read() < 40 * 1024 * 1024, `it stops at ${read()} bytes of 100 MB`)
  t.ok(metrics.checkConservation(), 'also while much is in flight')
  open()
  await run
  t.equal(stage.written.slow!.length, 100_000)
  t.equal(stage.written.quick!.length, 100_000)
  t.ok(metrics.checkConservation())
})

t.test('stop: what was read is delivered, until the deadline', async t => {
  const yaml = `
sources:
  a: { type: lines, count: 1000000 }
destinations:
  out: { type: collect, inputs: [a], retry: { initial: 5ms, max: 5ms } }
`
  const gentle = await build(t, yaml)
  const run = gentle.engine.run()
  await until(() => (stage.written.out?.length ?? 0) > 0)
  gentle.engine.stop(new AbortController().signal)
  await run
  t.equal(stage.written.out!.length, gentle.metrics.components.get('a')!.received.events)

  const { engine, metrics } = await build(t, yaml)
  stage.refuse = () => new DeliveryError('away', { failure: 'retry', reason: 'refused' })
  const refused = engine.run()
  await until(() => engine.states()[0]!.state === 'failing')
  const deadline = new AbortController()
  engine.stop(deadline.signal)
  const { failures } = engine.states()[0]!
  await until(() => engine.states()[0]!.failures! > failures!)
  deadline.abort()
  await refused
  t.equal(engine.undelivered(), metrics.components.get('a')!.received.events, 'nothing was delivered, all is known')
  t.ok(metrics.checkConservation())
  t.ok(stage.settled.includes('errored'))
})

t.test('what a source has to save at its very end is saved when the run is over', async t => {
  const yaml = 'sources: { a: { type: late } }\ndestinations: { out: { type: collect, inputs: [a] } }\n'
  const { engine } = await build(t, yaml)
  await engine.run()
  t.match(readFileSync(join(t.testdirName, 'checkpoints/a.json'), 'utf8'), '{"stopped":true}')
})

t.test('a source that fails is run again; events that a processor always throws on are passed on', async t => {
  const config = `
sources:
  a: { type: lines, count: 10, fail_once: true }
destinations:
  out: { type: collect, inputs: [a] }
`
  const { engine } = await build(t, config)
  await engine.run()
  t.equal(stage.written.out!.length, 10)
  const second = await build(t, oneOfTen('throws'))
  await second.engine.run()
  t.same(stage.settled, ['delivered', 'delivered'])
  t.equal(stage.written.out!.length, 10)
  t.equal(second.metrics.components.get('bad')!.failures.get('bug'), 10)
  t.ok(second.metrics.checkConservation())
})

t.test('a source that ran well for a while waits as little as at first when it fails again', async t => {
  const waits: unknown[] = []
  const states: unknown[] = []
  let runs = 0
  const source = {
    async run() {
      runs++
      if (runs === 5) return
      // No reply comes in the second and third run. The fourth run lasts.
      if (runs > 1) await time.advance(runs === 4 ? 15_000 : 10_000)
      states.push(run.failure?.state)
      throw new Error('no')
    },
  }
  const time = new ManualTime()
  const fanOut = new FanOut()
  const run = await SourceRun.open({
    clock: time,
    config: { id: 'a' } as SourceRunParts['config'],
    create: async () => source,
    context: { checkpoints: {} } as SourceRunParts['context'],
    fanOut,
    share: 1_000_000,
    counters: new ComponentCounters('a', 'source', 'lines'),
    log: pino({}, { write: line => waits.push(JSON.parse(line).again_in) }),
    random: () => 0.02,
  })
  const over = run.feed(fanOut)
  await advanceUntil(time, 'the last run', () => runs === 5)
  await over
  t.same(waits, ['20ms', '40ms', '80ms', '20ms'])
  t.same(states, [undefined, 'failing', 'failing', undefined], 'it has not recovered while it waits for a reply')
})

/** Ten events, one of which a faulty processor gets wrong. */
const oneOfTen = (how: string) => `
sources:
  a: { type: lines, count: 10 }
processors:
  bad: { type: faulty, inputs: [a], how: ${how} }
destinations:
  out: { type: collect, inputs: [bad] }
`

t.test('an event that makes a processor throw holds up no other', async t => {
  const { engine, metrics } = await build(t, oneOfTen('throws_on_3'))
  await engine.run()
  t.same(stage.settled, ['delivered', 'delivered'])
  t.same(stage.written.out, ['a0', 'a1', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8', 'a9'])
  const { failures, discards } = metrics.components.get('bad')!
  t.equal(failures.get('bug'), 1)
  t.match(discards.get('twos'), { events: 1 })
  t.ok(metrics.checkConservation())
})

t.test('an event that nobody accounts for is found out', async t => {
  const { engine, metrics } = await build(t, oneOfTen('drops'))
  await engine.run()
  t.notOk(metrics.checkConservation())
  t.match(String(await metrics.render()), /sluice_conservation_errors_total\{component_id="bad"\} 2/)
  t.match(String(await metrics.render()), /sluice_conservation_errors_total\{component_id="out"\} 0/)
})
