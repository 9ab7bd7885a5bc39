import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { pino } from 'pino'
import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { systemClock } from '../../../../src/lib/time.js'
import { Refusal } from '../../../../src/net/http/server/refusal.js'
import { AccountProcess, forkProcesses } from '../../../../src/service/ingest/process/account-process.js'
import { Restarts } from '../../../../src/service/ingest/process/account-processes.js'
import {
  checkedLine,
  checkedMessage,
  checkPipelines,
  checkReply,
  shortLine,
} from '../../../../src/service/ingest/process/from-process.js'
import type { ProcessCall } from '../../../../src/service/ingest/process/messages.js'
import { type Demand, ProcessSlots } from '../../../../src/service/ingest/process-slots.js'
import { PipelineWorker } from '../../../../src/service/ingest/worker/pipeline-worker.js'
import { testFolder } from '../../../support/folder.js'
import { ALL, BUFFERED, OUT, PIPELINE, resetStage, stage, startIngestHost } from '../../../support/ingest-host.js'
import { ManualTime, STOPPED_CLOCK } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

t.beforeEach(resetStage)

t.test('a process that does not answer is ended, and what it had in disk buffers runs again', async t => {
  const { publish, post, held, metrics, logs } = await startIngestHost(t, { deadlineMs: 200, turnMs: 60 })
  await publish(BUFFERED, 'stuck', { account: 'bad' })
  await publish(PIPELINE, 'beside', { account: 'bad' })
  await publish(PIPELINE, 'fine', { account: 'good' })
  stage.holds = true
  t.match(await post('{"n":1}', {}, 'stuck'), { status: 202 }, 'in the disk buffer')
  stage.holds = false
  t.match(await post('', {}, 'beside'), { status: 202 })
  held.add('bad')
  const waiting = post('{"n":2}', {}, 'beside')
  t.match(await post('{"n":3}', {}, 'fine'), { status: 202 })
  t.match(await waiting, { status: 503, code: 'pipeline_process_ended', retryAfter: '1' })
  held.clear()
  t.match(await post('{"n":2}', {}, 'beside'), { status: 202 })
  await until(() => stage.got.length >= 3)
  t.same([...stage.got].sort(), ['{"n":1}', '{"n":2}', '{"n":3}'])
  const text = String(await metrics.render())
  t.match(text, /^sluice_ingest_process_deaths_total\{reason="looped"\} 1$/m)
  t.match(text, /^sluice_ingest_process_deaths_total\{reason="crashed"\} 0$/m)
  t.ok(metrics.checkConservation())
  t.match(logs(), /"SLUICE_PIPELINE_PROCESS_ENDED","account":"bad","reason":"looped",.*"attended":\["beside"\]/)
})

t.test('a process that takes too much memory is ended while it answers nothing', async t => {
  const { publish, post, held, memory, metrics } = await startIngestHost(t, { maxMemory: 1000, deadlineMs: 3_600_000 })
  await publish(PIPELINE, 'busy', { account: 'bad' })
  t.match(await post('{"n":1}', {}, 'busy'), { status: 202 })
  held.add('bad')
  const waiting = post('{"n":2}', {}, 'busy')
  // Once: the next process takes less.
  memory.get = account => (memory.delete(account) ? 1001 : undefined)
  memory.set('bad', 1001)
  t.match(await waiting, { status: 503, code: 'pipeline_process_ended' })
  t.match(String(await metrics.render()), /^sluice_ingest_process_deaths_total\{reason="memory"\} 1$/m)
})

/** The program of the service. */
const entry = new URL('../../../../src/service/serve/pipeline-process.js', import.meta.url)

const SETUP = {
  maxDisk: 1,
  maxSeries: 100,
  logLevel: 'info',
  files: [],
  never: [],
  urls: [],
  addresses: [],
  plugins: [],
}

t.test('a process that is asked to end ends by itself, when it has nothing more to do', async t => {
  const start = forkProcesses({
    setup: { ...SETUP, folder: testFolder(t) },
    maxMemory: 300 * 1024 * 1024,
    env: {},
    entry,
  })
  const ended = await new Promise(resolve => {
    const link = start('a', { ended: resolve, message: () => link.end() })
    link.send({ id: 1, name: 'inspect', of: { fresh: false }, instructions: undefined })
  })
  t.match(ended, { outOfMemory: false, text: /^exit code 0$/ })
})

t.test('whatever a process says or takes, it ends that process alone', async t => {
  const frame =
    'const frame = (text, size = text.length) => writeSync(4, Buffer.concat([Buffer.from(Uint32Array.of(size, 0).buffer), Buffer.from(text)]))'
  const head = `import { writeSync } from 'node:fs'\n${frame}\nsetInterval(() => {}, 1000)\n`
  const folder = testFolder(t, {
    'null.mjs': `${head}frame('null')`,
    'line.mjs': `${head}frame('{"type":"log","line":"no JSON"}')`,
    'reply.mjs': `${head}frame('{"type":"reply","id":1,"value":{"disk":0}}')`,
    'unasked.mjs': `${head}frame('{"type":"reply","id":7}')`,
    'garbage.mjs': `${head}frame('garbage')`,
    'size.mjs': `${head}frame('', 2 ** 31)`,
    'values.mjs': `${head}frame('['.repeat(1e6) + ']'.repeat(1e6))`,
    'busy.mjs': 'for (const all = []; ; ) all.push(Buffer.alloc(1e7, 1))',
  })
  const setup = { ...SETUP, folder }
  const maxMemory = 100 * 1024 * 1024
  const endOf = (name: string) =>
    new Promise(resolve => {
      const entry = pathToFileURL(join(folder, `${name}.mjs`))
      const process = new AccountProcess(forkProcesses({ setup, maxMemory, env: {}, entry }), {
        ...{ account: 'a', clock: STOPPED_CLOCK, log: pino({ level: 'silent' }), deadlineMs: 3_600_000, maxMemory },
        instructions: () => ({ inStore: { keys: 0, revisions: 0 }, pipelines: [], ownPorts: [] }),
        onSnapshot: () => {},
        counted: () => {},
        ended: (death, text) => resolve([death, text]),
        refusal: () => new Refusal(503, 'ended', 'ended'),
      })
      process.call('inspect', { fresh: false }).catch(() => {})
    })
  t.match(await endOf('null'), ['crashed', /^it sent a message that is not one of reply, failed, state, counted, log$/])
  t.match(await endOf('line'), ['crashed', /JSON/])
  t.match(await endOf('reply'), ['crashed', /^it sent an invalid answer to inspect$/])
  t.match(await endOf('unasked'), ['crashed', /^it sent an invalid answer to an unknown call$/])
  t.match(await endOf('garbage'), ['crashed', /JSON/])
  t.match(await endOf('size'), ['crashed', /^its process sent 2147483648 bytes; at most/])
  t.match(await endOf('values'), ['crashed', /^its process sent 1000001 values; at most 262144 are allowed$/])
  t.match(await endOf('busy'), ['memory'])
})

t.test('what a process says is checked as input', async t => {
  const amount = { events: 1, bytes: 2 }
  const one = {
    ...{ id: 'p/out', kind: 'destination', type: 'http', receivedAgain: 0, returned: 0, repeated: false },
    ...{ received: amount, passed: amount, consumed: amount, emitted: amount, inFlight: amount, toRead: amount },
    ...{ aside: [], discards: [['late', amount]], failures: [['x', 1]] },
    series: [['a_total', { type: 'counter', help: '', rows: [{ labels: { app: 'a' }, value: 1 }] }]],
    histograms: [['b', { help: '', buckets: [1], sum: 0, counts: [0, 0], exemplars: [null] }]],
  }
  const budget = { requestBytes: 0, waiting: 0 }
  const look = { undelivered: [['p', 1]], disk: 1, budget }
  t.doesNotThrow(() => checkReply('inspect', look))
  for (const wrong of [{ undelivered: [['p']] }, { disk: '1' }, { budget: { ...budget, waiting: '1' } }])
    t.throws(() => checkReply('inspect', { ...look, ...wrong }), /^it sent an invalid answer to inspect$/)
  const counted = (more: object) => () => checkedMessage({ type: 'counted', counters: [{ ...one, ...more }] })
  t.doesNotThrow(counted({}))
  t.throws(() => checkPipelines([one as never], new Set(['q'])), /^it sent counters of another pipeline$/)
  t.doesNotThrow(() => checkPipelines([one as never], new Set(['p'])))
  const rows = (more: object) => ({
    series: [['a_total', { type: 'counter', help: '', rows: [{ labels: {}, value: 1, ...more }] }]],
  })
  for (const wrong of [
    { id: 1 },
    { kind: 'other' },
    { received: { events: '1', bytes: 2 } },
    { aside: {} },
    { series: [['a b', { type: 'counter', help: '', rows: [] }]] },
    { series: [['a', { type: 'counter', help: 'x'.repeat(65_537), rows: [] }]] },
    rows({ labels: { 'a\n': 'x' } }),
    rows({ value: '1' }),
    rows({ exemplar: {} }),
  ])
    t.throws(counted(wrong), /^it sent a message that is not one of/, JSON.stringify(Object.keys(wrong)))
  t.doesNotThrow(() => checkReply('take', { received: 1 }))
  t.throws(() => checkReply('take', { received: '1' }))
  const read = checkedMessage
  const refusal = { status: 503, code: 'x', message: 'x', headers: {}, close: false }
  t.same(read({ type: 'failed', id: 1, failure: { refusal } }), { type: 'failed', id: 1, failure: { refusal } })
  for (const wrong of [undefined, 1, [], {}, { type: 'toString' }, { type: 'failed', id: 1, failure: { refusal: {} } }])
    t.throws(() => read(wrong), /^it sent a message that is not one of/)
  t.throws(() => read({ type: 'state', pipeline: 'p', state: { secrets: [1] } }))
  t.same(checkedLine('{"level":30,"msg":"x","a":1}'), { level: 30, msg: 'x', a: 1 })
  for (const wrong of ['', 'null', '[]', '{"level":"info"}']) t.throws(() => checkedLine(wrong))
  const long = shortLine(JSON.stringify({ level: 30, msg: 'x'.repeat(1e5), a: 1 }))
  t.same(checkedLine(long), { level: 30, msg: 'x'.repeat(1000) }, 'a line that is too long is cut by who sends it')
  t.equal(checkedMessage({ type: 'log', line: long }).type, 'log')
})

t.test('an account that nobody waits for leaves its process to another one', async t => {
  const { publish, post, metrics, unanswered } = await startIngestHost(t, { maxProcesses: 1, turnMs: 60 })
  await publish(BUFFERED, 'a', { account: 'x' })
  await publish(PIPELINE, 'b', { account: 'y' })
  await publish(PIPELINE, 'c', { account: 'z' })
  stage.holds = true
  t.match(await post('{"n":1}', {}, 'a'), { status: 202 })
  const waiting = post('{"n":2}', {}, 'b')
  await unanswered(1)
  t.match(await post('{"n":3}', {}, 'c'), {
    status: 503,
    code: 'too_many_pipelines',
    message: /^the service runs pipelines of at most 1 accounts at a time/,
  })
  stage.holds = false
  t.match(await waiting, { status: 202 })
  await until(() => stage.got.length >= 2)
  t.same([...stage.got].sort(), ['{"n":1}', '{"n":2}'], 'what is in disk buffers has its turn')
  t.match(await post('{"n":3}', {}, 'c'), { status: 202 })
  t.match(String(await metrics.render()), /^sluice_ingest_processes 1$/m)
})

t.test(
  'a request is answered in time where other accounts start, and a metric says that processes are missing',
  async t => {
    const { publish, post, held, metrics } = await startIngestHost(t, { maxProcesses: 1, waitMs: 300 })
    await publish(PIPELINE, 'a', { account: 'slow' })
    await publish(PIPELINE, 'b', { account: 'other' })
    held.add('slow')
    const starting = post('{"n":1}', {}, 'a')
    const refused = await post('{"n":2}', {}, 'b')
    t.match(refused, { status: 503, code: 'too_many_pipelines', retryAfter: '10' })
    const waiting = post('{"n":2}', {}, 'b')
    await until(async () => /^sluice_ingest_waiting_accounts 1$/m.test(String(await metrics.render())))
    t.match(await starting, { status: 503, code: 'pipeline_starting', retryAfter: '5' })
    await waiting
    held.clear()
    await until(async () => (await post('{"n":1}', {}, 'a')).status === 202)
    await until(async () => (await post('{"n":2}', {}, 'b')).status === 202)
    await until(async () => /^sluice_ingest_waiting_accounts 0$/m.test(String(await metrics.render())))
  },
)

t.test('the account that needs its process least gives it up, as a whole', async t => {
  const slots = new ProcessSlots(2)
  const one = (id: string, accountId: string, demand: Demand) => {
    slots.take(accountId, id)
    return { accountId, demand }
  }
  const all = [one('a1', 'a', 'idle'), one('a2', 'a', 'attended'), one('b1', 'b', 'buffered'), one('b2', 'b', 'idle')]
  t.ok(slots.hasRoomFor('a') && !slots.hasRoomFor('c'))
  t.same(
    slots.toEnd(all, () => true),
    all.slice(2),
  )
  t.same(
    slots.toEnd(all, ({ demand }) => demand === 'idle'),
    [],
    'not while one of its pipelines may not end',
  )
  t.same(
    slots.toEnd(all.slice(2, 3), () => true),
    [],
    'nor while one of them starts',
  )
  t.notOk(slots.leave('b', 'b1'))
  t.ok(slots.leave('b', 'b2'))
  t.ok(slots.hasRoomFor('c'))
})

t.test('a process that dies again and again is held back for longer and longer', async t => {
  let now = 0
  const restarts = new Restarts({ now: () => now, wall: () => now })
  restarts.died('a')
  t.equal(restarts.waitOf('a'), 0, 'the first time it may be chance')
  const waits = [1, 2, 3, 4, 5, 6, 7, 8].map(() => {
    restarts.died('a')
    return restarts.waitOf('a')
  })
  t.same(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
  t.equal(restarts.waitOf('b'), 0)
  now += 30_000
  t.equal(restarts.waitOf('a'), 30_000)
  now += 300_000
  restarts.died('a')
  t.equal(restarts.waitOf('a'), 0, 'what is long ago is forgotten')
})

t.test('a pipeline starts when the files of all others of its account are counted', async t => {
  const ids = Array.from({ length: 500 }, (_, n) => `left${n}`)
  const left = () => ({ state: { 'dead-letter': { 'out.ndjson': 'x'.repeat(10) } } })
  const replies: unknown[] = []
  const worker = new PipelineWorker({
    ...{ account: 'a', folder: testFolder(t, Object.fromEntries(ids.map(id => [id, left()]))), maxDisk: 1e9 },
    ...{ maxSeries: 5000, components, permitted: ALL, log: pino({ level: 'silent' }) },
    tell: message => message.type === 'reply' && replies.push(message.value),
    runtime: { clock: systemClock, random: () => 0.1, stdin: new PassThrough(), stdout: new PassThrough() },
  })
  t.teardown(() => worker.close())
  const instructions = { inStore: { keys: 0, revisions: 0 }, pipelines: ids, ownPorts: [] }
  worker.receive({
    id: 1,
    name: 'start',
    of: { id: 'p', account_id: 'a', revision: 1, published_at: '', config: PIPELINE },
    instructions,
  })
  t.match(await until(() => replies[0]), { disk: 5000 })
})

t.test('a process tells only what has changed, and less often where that is much', async t => {
  const clock = new ManualTime()
  const replies = new Set<number>()
  let counted: string[] = []
  let calls = 0
  const worker = new PipelineWorker({
    ...{ account: 'a', folder: testFolder(t), maxDisk: 1e9, maxSeries: 5000, components, permitted: ALL },
    log: pino({ level: 'silent' }),
    tell: message => {
      if (message.type === 'reply') replies.add(message.id)
      if (message.type === 'counted') counted.push(...message.counters.map(({ id }) => id))
    },
    runtime: { clock, random: () => 0.1, stdin: new PassThrough(), stdout: new PassThrough() },
  })
  t.teardown(() => worker.close())
  const ids = async (call: Pick<ProcessCall, 'name' | 'of'>) => {
    const id = ++calls
    counted = []
    worker.receive({ id, instructions: undefined, ...call }, undefined)
    await until(() => replies.has(id))
    return counted.sort()
  }
  const look = (fresh = false) => ids({ name: 'inspect', of: { fresh } })
  const take = (body: string) => {
    const of = { pipeline: 'p', body: { size: body.length, content: 'lines', peer: 'x' } as never }
    worker.receive({ id: 0, instructions: undefined, name: 'take', of }, { bytes: Buffer.from(`${body}\n`) })
  }
  const counting = { type: 'aggregate', inputs: ['ingest'], key_field: '.app', counters: { n: {} } }
  const config = { processors: { counting }, destinations: { out: { ...OUT, inputs: ['ingest', 'counting'] } } }
  const started = await ids({ name: 'start', of: { id: 'p', account_id: 'a', revision: 1, published_at: '', config } })
  t.same(started, ['p/counting', 'p/ingest', 'p/out'])
  t.same(await look(), [])
  const events = Array.from({ length: 500 }, (_, n) => `{"app":${n}}`)
  take(events.join('\n'))
  await until(async () => (await look(true)).includes('p/counting'))
  take(events.join('\n'))
  const waited = clock.now()
  await until(async () => {
    await clock.advance(10)
    return (await look()).includes('p/counting')
  })
  t.ok(clock.now() - waited >= 500, 'a millisecond for each series')
  t.same(await look(), [])
})

t.test('an account with many pipelines cannot make the scrape larger than its bound', async t => {
  const { publish, post, metrics, logs } = await startIngestHost(t, { maxLines: { group: 150, all: 1000 } })
  await metrics.render()
  for (let n = 0; n < 8; n++) {
    await publish(PIPELINE, `p${n}`, { account: 'one' })
    t.match(await post('{"n":1}', {}, `p${n}`), { status: 202 })
  }
  const text = String(await metrics.render())
  const pattern = /^sluice_component_received_events_total\{component_id="([^"]+)".*\} (\d+)$/gm
  const received = [...text.matchAll(pattern)]
  const events = received.reduce((sum, [, , value]) => sum + Number(value), 0)
  t.equal(events, 16, 'of sources and destinations')
  const others = received.filter(([, id]) => id!.startsWith('__other__/'))
  t.same(others.map(([, id]) => id).sort(), ['__other__/destination', '__other__/source'])
  t.ok(text.match(/component_id="p/g)!.length < 150)
  t.ok(Number(/^sluice_ingest_other_components (\d+)$/m.exec(text)?.[1]) > 3)
  t.match(logs(), /"SLUICE_ACCOUNT_SERIES_FULL","account":"one"/)
})

t.test('the series by key of all pipelines of an account are bounded together', async t => {
  const { publish, post, metrics } = await startIngestHost(t, { maxSeries: 3 })
  const every = '100 Milliseconds'
  const counting = { type: 'aggregate', inputs: ['ingest'], every, key_field: '.app', counters: { n: {} } }
  const config = { processors: { counting }, destinations: { out: { ...OUT, inputs: ['counting'] } } }
  const events = ['x', 'y', 'x', 'z'].map(app => JSON.stringify({ app })).join('\n')
  for (const [id, account] of [
    ['a', 'one'],
    ['b', 'one'],
    ['c', 'other'],
  ] as const) {
    await publish(config, id, { account })
    t.match(await post(events, {}, id), { status: 202 })
  }
  const text = String(await metrics.render())
  const found = [...text.matchAll(/^sluice_aggregate_n_total\{component_id="(\w)\/counting",key="(\w+)"\} (\d+)$/gm)]
  t.same(found.map(([, id, key, value]) => `${id} ${key} ${value}`).sort(), [
    'a x 2',
    'a y 1',
    'a z 1',
    'b __other__ 4',
    'c x 2',
    'c y 1',
    'c z 1',
  ])
})
