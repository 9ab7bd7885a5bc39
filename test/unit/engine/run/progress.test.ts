import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { z } from 'zod'
import { fileSource } from '../../../../src/components/file/source.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { type AnyDefinition, defineDestination, defineProcessor } from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { type DeliveryOptions, deliveryOptions, LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { ComponentSet } from '../../../../src/engine/flow/counters.js'
import { Delivery } from '../../../../src/engine/flow/delivery/delivery.js'
import { FanOut, Input, pump } from '../../../../src/engine/flow/fan-out.js'
import { Stage } from '../../../../src/engine/flow/stage.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { ProgressWatch, watched as watchedPart } from '../../../../src/engine/run/measure/progress.js'
import { Supervisor } from '../../../../src/engine/run/supervisor.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { systemClock, type TimerClock } from '../../../../src/lib/time.js'
import { batchOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { ManualTime } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

const log = pino({ level: 'silent' })
const LOOKS = 3
const turns = () => new Promise(resolve => setImmediate(resolve))

/** A processor that passes everything on, or stands still; behind it a delivery. */
function pipeline(write: () => Promise<void>, options: object = {}) {
  const time = new ManualTime()
  /** By how much timers are late. */
  const late = { ms: 0 }
  const counters = new ComponentSet()
  const pass = counters.component('pass', 'processor', 'pass')
  const out = counters.component('out', 'destination', 'fake')
  const broken = { now: false }
  class Breaking extends Stage {
    override _transform(...args: Parameters<Stage['_transform']>): void {
      if (!broken.now) super._transform(...args)
    }
  }
  const origin = { source: 'pass', host: '', codec: JSON_OBJECTS, wanted: new WantedNames() } as const
  const context = { id: 'pass', log, clock: time, metrics: pass, origin, onError: 'pass' } as const
  const stage = new Breaking({ process() {} }, {}, context)
  const delivery = new Delivery({ write }, deliveryOptions.parse(options) as DeliveryOptions, {
    id: 'out',
    log,
    clock: { now: () => time.now() + late.ms, wall: () => time.wall() },
    random: () => 0.5,
    after: time.after,
    deadLetter: { write: async () => {} },
    counters: {
      received: (events, bytes) => out.took(events, bytes),
      sent: (events, bytes) => out.sent(events, bytes),
      discarded: (reason, events, bytes) => out.discarded(reason, events, bytes),
      failed: kind => out.failed(kind),
    },
    metrics: out,
  })
  out.holds = () => delivery.inFlight()
  const fanOut = new FanOut()
  fanOut.connect(new Input(delivery, out))
  pump(stage, fanOut)
  const input = new Input(stage, pass)
  const watched = [watchedPart('pass', stage, pass), watchedPart('out', delivery, out)]
  const watch = new ProgressWatch(LOOKS)
  const look = async () => {
    let stuck: string[] = []
    for (let i = 0; i <= LOOKS; i++) {
      await turns()
      stuck = watch.look(watched)
    }
    return stuck
  }
  const send = async (batches: number) => {
    for (let i = 0; i < batches; i++) void input.write(batchOf([{ i }]) as EventBatch)
    await turns()
  }
  return { late, broken, delivery, look, send, out }
}

t.test('what stands still is stuck when it could go on, and only then', async t => {
  let answer = () => {}
  const answered = () => new Promise<void>(resolve => (answer = resolve))
  const slow = pipeline(answered, { batch: { max_events: 1 }, max_in_flight: 1, timeout: '1 Hours' })
  t.same(await slow.look(), [], 'nothing to do')
  await slow.send(3)
  t.same(await slow.look(), [], 'a destination that has not started')
  await slow.delivery.start()
  await slow.send(30)
  t.same(await slow.look(), [], 'a receiver that takes its time, and everything before it full')
  for (let i = 0; i < 33; i++) {
    answer()
    await turns()
  }
  t.equal(slow.out.passed.events, 33)
  t.same(await slow.look(), [], 'all done')
  slow.broken.now = true
  await slow.send(1)
  t.same(await slow.look(), ['pass'], 'it has a batch, there is room behind it, and it does not move')

  const holding = pipeline(() => Promise.reject(new DeliveryError('no', { failure: 'hold', reason: 'no_key' })), {
    batch: { max_events: 1 },
  })
  await holding.delivery.start()
  await holding.send(30)
  t.equal(holding.delivery.state, 'holding')
  t.same(await holding.look(), [], 'a hold')

  const failing = pipeline(() => Promise.reject(new Error('away')), { batch: { max_events: 1 } })
  await failing.delivery.start()
  await failing.send(30)
  t.equal(failing.delivery.state, 'failing')
  t.same(await failing.look(), [], 'a retry')

  const waiting = pipeline(async () => {}, { batch: { max_wait: '1 Hours' } })
  await waiting.delivery.start()
  await waiting.send(3)
  t.same(await waiting.look(), [], 'a batch that is not full')
  waiting.late.ms = 7_200_000
  t.same(await waiting.look(), ['out'], 'its time has come, and nobody began')
  for (const { delivery } of [slow, holding, failing, waiting]) delivery.destroy()
})

const got: string[] = []
let called = 0

const collect = defineDestination({
  type: 'collect',
  ...madeUp('Keeps what it gets.'),
  delivery: LOCAL_DEFAULTS,
  create: () => ({
    async write(request) {
      for (const batch of request) for (let i = 0; i < batch.length; i++) got.push(batch.line(i).toString())
      return undefined
    },
  }),
})
const think = defineProcessor({
  type: 'think',
  ...madeUp('Never ends, if it is told so.'),
  options: z.strictObject({ hangs: z.boolean(), waits: z.boolean() }),
  create: ({ hangs, waits }) => ({
    isWaiting: waits,
    process() {
      called++
      return hangs ? new Promise<void>(() => {}) : undefined
    },
  }),
})
const components: readonly AnyDefinition[] = [fileSource, think, collect]

/** Everything takes a twentieth of its time. */
const clock: TimerClock = {
  ...systemClock,
  now: () => systemClock.now() * 20,
  after: (ms, fn) => systemClock.after(ms / 20, fn),
}

for (const waits of [false, true])
  t.test(
    `a reload says which processor ${waits ? 'waits for a server' : 'hangs'}, and does not wait for it`,
    async t => {
      called = 0
      got.length = 0
      const folder = testFolder(t, { 'a.log': '1\n' })
      const logs: Record<string, unknown>[] = []
      const log = pino({ level: 'info' }, { write: line => void logs.push(JSON.parse(line)) })
      const metrics = new Metrics(pino({ level: 'silent' }))
      const around = {
        log,
        clock,
        random: () => 0.1,
        metrics,
        stdin: new PassThrough(),
        stdout: new PassThrough(),
        env: {},
      }
      const read = (hangs: boolean) =>
        parseConfig(
          `data_dir: ${folder}/state
metrics: false
shutdown_timeout: 24h
sources: { tailed: { type: file, include: [${folder}/*.log] } }
processors: { slow: { type: think, inputs: [tailed], hangs: ${hangs}, waits: ${waits} } }
destinations: { a: { type: collect, inputs: [slow] } }
`,
          'test.yaml',
          { env: {}, components },
        )
      const supervisor = await Supervisor.build(read(true), around)
      const run = supervisor.run()
      await until(() => called === 1)
      await supervisor.replace(read(false))
      appendFileSync(join(folder, 'a.log'), '2\n')
      await until(() => got.length >= 2)
      t.same(got, ['1', '2'])
      const told = logs.filter(({ code }) => code === 'SLUICE_PROCESSOR_STUCK')
      t.match(told, [{ level: 40, components: ['slow'] }], 'once')
      t.equal(metrics.components.get('slow')!.received.events, 2, 'each event is counted once')
      supervisor.stop(AbortSignal.timeout(1000))
      await run
    },
  )
