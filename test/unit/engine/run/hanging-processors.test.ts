import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { z } from 'zod'
import { file } from '../../../../src/components/file/source.js'
import { type AnyDefinition, defineDestination, defineProcessor } from '../../../../src/core/component.js'
import { LOCAL } from '../../../../src/core/options/delivery-options.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { Supervisor } from '../../../../src/engine/run/supervisor.js'
import { systemClock, type TimerClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { until } from '../../../support/until.js'
import { madeUp } from '../../../support/made-up.js'

const got: string[] = []
let called = 0

const collect = defineDestination({
  type: 'collect',
  ...madeUp('Keeps what it gets.'),
  delivery: LOCAL,
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
  options: z.strictObject({ hangs: z.boolean() }),
  create: ({ hangs }) => ({
    process() {
      called++
      return hangs ? new Promise<void>(() => {}) : undefined
    },
  }),
})
const components: readonly AnyDefinition[] = [file, think, collect]

/** Everything takes a twentieth of its time. */
const clock: TimerClock = {
  ...systemClock,
  now: () => systemClock.now() * 20,
  after: (ms, fn) => systemClock.after(ms / 20, fn),
}

t.test('a reload says which processor hangs, and does not wait for it', async t => {
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
processors: { slow: { type: think, inputs: [tailed], hangs: ${hangs} } }
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
})
