import { once } from 'node:events'
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { blackhole } from '../../../../src/components/blackhole/destination.js'
import { fileSource } from '../../../../src/components/file/source.js'
import { filter } from '../../../../src/components/processors/filter.js'
import { reduce } from '../../../../src/components/processors/reduce.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { stdin } from '../../../../src/components/stdio/source.js'
import { tcp } from '../../../../src/components/tcp/source.js'
import { type AnyDefinition, defineDestination, defineProcessor, defineSource } from '../../../../src/core/component.js'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { Secret } from '../../../../src/core/options/options.js'
import { filePath } from '../../../../src/core/options/reach.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { isOnHold } from '../../../../src/engine/run/blocked.js'
import type { DestinationRun } from '../../../../src/engine/run/destination-run.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { totalsOf } from '../../../../src/engine/run/measure/totals.js'
import { sameOptions } from '../../../../src/engine/run/same-components.js'
import { Supervisor } from '../../../../src/engine/run/supervisor.js'
import { Pattern } from '../../../../src/lib/pattern.js'
import type { TimerClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { madeUp } from '../../../support/made-up.js'
import { hurried } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** What the destinations of a test got, by their id. */
let got: Record<string, string[]> = {}
/** How often one was made, whether it came to something or not. */
let made = 0
/** Called when a destination is made, before its buffer is opened. */
let onMade = (_id: string) => {}
/** What was stopped, also after a dry run. */
let stopped: string[] = []

const collect = defineDestination({
  type: 'collect',
  ...madeUp('Keeps what it gets.'),
  options: z.strictObject({
    how: z
      .enum([
        'takes',
        'waits',
        'hangs',
        'holds',
        'fails',
        'cannot_be_made',
        'cannot_be_made_again',
        'cannot_start',
        'failing',
      ])
      .default('takes'),
    key_file: filePath().optional(),
  }),
  delivery: LOCAL_DEFAULTS,
  create({ how }, { id }) {
    made++
    onMade(id)
    if (how === 'cannot_be_made') throw new Error('no such thing')
    if (how === 'cannot_be_made_again' && made > 2) throw new Error('not twice')
    return {
      async start() {
        if (how === 'cannot_start') throw new Error('not on this machine')
      },
      async write(request, signal) {
        if (how === 'hangs') return new Promise((_, reject) => signal.addEventListener('abort', reject))
        if (how === 'fails' || (how === 'failing' && isFailing))
          throw new DeliveryError('503', { failure: 'retry', reason: 'status_503' })
        if (how === 'holds') throw new DeliveryError('401', { failure: 'hold', reason: 'status_401' })
        if (how === 'waits') await gates.destination
        await new Promise(resolve => setImmediate(resolve))
        const lines = (got[id] ??= [])
        for (const batch of request) {
          for (let i = 0; i < batch.length; i++) lines.push(batch.line(i).toString())
        }
        return undefined
      },
      async stop() {
        stopped.push(id)
      },
    }
  },
})

/** Whether a destination that is `failing` fails now. */
let isFailing = true
/** What a `gated` processor and a destination that `waits` wait for. */
let gates: Record<'processor' | 'destination', Promise<void>>
const gated = defineProcessor({
  type: 'gated',
  ...madeUp('Keeps events until the test lets them go.'),
  create: () => ({ process: () => gates.processor }),
})
const stoppable = defineProcessor({
  type: 'stoppable',
  ...madeUp('Passes all, and says when it is stopped.'),
  create: (_options, { id }) => ({
    process() {},
    async stop(deadline) {
      stopped.push(id)
      if (stopsLate && !deadline.aborted) await once(deadline, 'abort')
    },
  }),
})
/** Whether a `stoppable` processor takes all the time there is for its end. */
let stopsLate = false
/** How often a source with a file was made. */
let keyedMade = 0
const keyed = defineSource({
  type: 'keyed',
  ...madeUp('Has a file, and no events.'),
  options: z.strictObject({ key_file: filePath() }),
  create() {
    keyedMade++
    return { run: async (_out, signal) => void (await once(signal, 'abort')) }
  },
})
const components: readonly AnyDefinition[] = [
  fileSource,
  stdin,
  tcp,
  keyed,
  filter,
  reduce,
  throttle,
  gated,
  stoppable,
  collect,
  blackhole,
]

const SOURCES = (folder: string, more = '', piped = '') => `
sources:
  piped: { type: stdin${piped} }
  sent: { type: tcp, listen: 127.0.0.1:0 }
  tailed: { type: file, include: [${folder}/*.log]${more} }
`

/** The deadlines and checks of a replacement come twenty times as fast. */
const clock = hurried(20)

async function start(t: Tap, config: string, timeout = '5m', time = clock) {
  got = {}
  stopped = []
  onMade = () => {}
  const folder = testFolder(t)
  const stdin = new PassThrough()
  let logs = ''
  const log = pino({ level: 'info' }, { write: line => void (logs += line) })
  const metrics = new Metrics(pino({ level: 'silent' }))
  const around = { log, clock: time, random: () => 0.1, metrics, stdin, stdout: new PassThrough() }
  const read = (yaml: string, more?: string, piped?: string) =>
    parseConfig(
      `data_dir: ${folder}/state\nmetrics: false\nshutdown_timeout: ${timeout}\n${SOURCES(folder, more, piped)}${yaml}`,
      'test.yaml',
      { env: {}, components },
    )
  const wentBack: Error[] = []
  const supervisor = await Supervisor.build(read(config), around, error => wentBack.push(error))
  const run = supervisor.run()
  await until(() => logs.includes('"listening"'))
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(logs)![1])
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  const all = () => Object.values(got).flat()
  let n = 0
  return {
    supervisor,
    run,
    stdin,
    metrics,
    wentBack,
    folder,
    logged: (msg: string) => logs.split('\n').flatMap(line => (line.includes(`"${msg}"`) ? [JSON.parse(line)] : [])),
    replace: (yaml: string, more?: string, piped?: string) => supervisor.replace(read(yaml, more, piped)),
    /** Number of lines that were sent and have not arrived. */
    waiting: () => 3 * n - all().length,
    /** Sends the next line to every source; in two parts to those that have no more than bytes. */
    async send(count = 1) {
      for (let i = 0; i < count; i++, n++) {
        stdin.write(`piped ${n} be`)
        socket.write(`sent ${n} be`)
        appendFileSync(join(folder, 'a.log'), `tailed ${n} begun and ended\n`)
        await new Promise(resolve => setImmediate(resolve))
        stdin.write('gun and ended\n')
        socket.write('gun and ended\n')
      }
    },
    /** Asserts that every line arrived once, and in order. */
    async arrived(t: Tap) {
      await until(() => all().length >= 3 * n).catch(() => {})
      for (const name of ['piped', 'sent', 'tailed']) {
        const lines = all().filter(line => line.startsWith(`${name} `))
        t.equal(lines.length, n, `${name}: as many as were sent`)
        t.equal(new Set(lines).size, n, `${name}: each of them once`)
        t.ok(
          lines.every(line => /^\w+ \d+ begun and ended$/.test(line)),
          `${name}: whole`,
        )
      }
      t.ok(metrics.checkConservation(), 'everything is accounted for')
    },
    async end(t: Tap) {
      socket.end()
      supervisor.stop(AbortSignal.timeout(5000))
      await run
      // One that comes too late starts nothing that would keep the process from ending.
      supervisor.stop(AbortSignal.abort())
      t.equal(supervisor.undelivered(), 0)
      t.ok(metrics.checkConservation(), 'everything is accounted for at the end')
    },
  }
}
type Tap = Test

const INPUTS = 'inputs: [piped, sent, tailed]'
const SHAPES = [
  `destinations: { a: { type: collect, ${INPUTS} } }`,
  `processors: { f: { type: filter, ${INPUTS}, condition: "if (.message contains 'begun')" } }
destinations: { b: { type: collect, inputs: [f, f.discarded] } }`,
  `processors: { t: { type: throttle, ${INPUTS}, limit: 5, window: 1 Hours, key_field: .file } }
destinations: { a: { type: collect, inputs: [t] }, c: { type: collect, inputs: [t.discarded], buffer: { type: disk } } }`,
]

t.test('replaced again and again under traffic: nothing is lost, nothing comes twice', async t => {
  const it = await start(t, SHAPES[0]!)
  mkdirSync(join(it.folder, 'state', 'dry-run-of-a-killed-process'), { recursive: true })
  let replacing = true
  const traffic = (async () => {
    while (replacing) {
      await it.send(5)
      // Sources stand still during a replacement, and bytes would pile up.
      await until(() => !replacing || it.waiting() < 1000)
    }
  })()
  for (let i = 1; i <= 15; i++) await it.replace(SHAPES[i % 3]!)
  t.equal(it.supervisor.replaced, 15)
  replacing = false
  await traffic
  await it.arrived(t)
  const order = Object.values(got).map(lines => lines.filter(line => line.startsWith('piped')).map(numberOf))
  t.ok(
    order.every(numbers => numbers.every((n, i) => i === 0 || n > numbers[i - 1]!)),
    'in order',
  )
  const received = ['piped', 'sent', 'tailed'].map(id => it.metrics.components.get(id)!.received.events)
  t.same(new Set(received).size, 1, 'and counted once')
  t.equal(
    received.reduce((a, b) => a + b),
    Object.values(got).flat().length,
  )
  t.notMatch(
    String(await it.metrics.render()),
    /holding\{component_id="b"/,
    'components that are gone show nothing of themselves',
  )
  await it.end(t)
  t.same(
    readdirSync(join(it.folder, 'state')).filter(name => name.startsWith('dry-run')),
    [],
  )
})

const numberOf = (line: string) => Number(line.split(' ')[1])

// What fails or holds is not waited for: longer than the test may take.
for (const [how, timeout] of [
  ['hangs', '3s'],
  ['holds', '2h'],
  ['fails', '2h'],
] as const) {
  t.test(`a destination that ${how} is replaced: what waited for it goes to its successor`, async t => {
    const it = await start(t, `destinations: { a: { type: collect, ${INPUTS}, how: ${how} } }`, timeout)
    await it.send(30)
    await until(() => it.metrics.components.get('a')!.received.events === 90)
    const replaced = it.replace(SHAPES[1]!)
    await it.send(30)
    await replaced
    await it.send(5)
    await it.arrived(t)
    t.ok(it.metrics.components.get('a')!.discards.get('given_back')!.events >= 90, 'which is counted')
    await it.end(t)
  })
}

for (const [how, buffer] of [
  ['fails', ''],
  ['holds', ''],
  ['fails', ', buffer: { type: disk }'],
  ['hangs', ''],
] as const) {
  t.test(`a destination that ${how}${buffer} leaves its events to its successor: none comes twice`, async t => {
    const config = (
      more: string,
    ) => `processors: { f: { type: filter, inputs: [tailed], condition: "if (.message exists)" } }
destinations:
  a: { type: collect, ${INPUTS} }
  b: { type: collect, inputs: [piped, sent, f], batch: { max_events: 7 }${buffer}${more} }`
    const it = await start(t, config(`, how: ${how}`), how === 'hangs' ? '3s' : '2h')
    await it.send(30)
    const counters = it.metrics.components.get('b')!
    await until(() => (how === 'hangs' || counters.failures.size > 0) && got.a !== undefined)
    for (let i = 0; i < 3; i++) {
      await it.replace(config(`, how: ${how}, key_file: k${i}`))
      await it.send(1)
    }
    await it.replace(config(''))
    await it.send(2)
    for (const id of ['a', 'b']) {
      await until(() => got[id]?.length === 105)
      t.equal(new Set(got[id]).size, 105, `${id}: each line once`)
      for (const name of ['piped', 'sent', 'tailed'])
        t.same(
          got[id]!.filter(line => line.startsWith(name)).map(numberOf),
          Array.from({ length: 35 }, (_, i) => i),
          `${id}: in order`,
        )
    }
    const returned = ['piped', 'sent', 'tailed'].map(id => it.metrics.components.get(id)!.returned)
    t.same(returned, [0, 0, 0], 'nothing was given back to the sources')
    t.ok(it.metrics.checkConservation())
    t.equal(counters.received.events, 105)
    await it.end(t)
  })
}

/** Removes what is in the way of a buffer before a reload opens it: what ran until then cannot write. */
function clearAtOpen(path: string, of: string): void {
  let opened = 0
  onMade = id => {
    // The dry run has a folder of its own.
    if (id === of && ++opened === 2) rmSync(path)
  }
}

t.test('a throttle that stays the same does not count twice what another branch gives back at a reload', async t => {
  const config = `processors: { t: { type: throttle, ${INPUTS}, limit: 9, window: 1 Hours } }
destinations:
  a: { type: collect, inputs: [t] }
  b: { type: collect, ${INPUTS}, buffer: { type: disk } }`
  const it = await start(t, config)
  const inTheWay = join(it.folder, 'state', 'buffer', 'b')
  mkdirSync(dirname(inTheWay), { recursive: true })
  writeFileSync(inTheWay, '')
  await it.send(3)
  const counters = it.metrics.components.get('b')!
  await until(() => counters.received.events === 9 && (counters.failures.get('buffer_write') ?? 0) > 1)
  await until(() => got.a?.length === 9)
  clearAtOpen(inTheWay, 'b')
  await it.replace(config.replace(`${INPUTS}, buffer`, `${INPUTS}, batch: { max_events: 5 }, buffer`))
  await until(() => got.b?.length === 9)
  await until(() => it.metrics.components.get('t')!.received.events === 18)
  await until(() => got.a!.length === 18, { show: () => got.a })
  await it.end(t)
})

t.test('a throttle does not count twice what a buffer that cannot be written gives back at a reload', async t => {
  const config = `processors: { t: { type: throttle, ${INPUTS}, limit: 9, window: 1 Hours } }
destinations: { a: { type: collect, inputs: [t], buffer: { type: disk } } }`
  const it = await start(t, config)
  const inTheWay = join(it.folder, 'state', 'buffer', 'a')
  mkdirSync(dirname(inTheWay), { recursive: true })
  writeFileSync(inTheWay, '')
  await it.send(3)
  const counters = it.metrics.components.get('a')!
  await until(() => counters.received.events === 9 && (counters.failures.get('buffer_write') ?? 0) > 1)
  clearAtOpen(inTheWay, 'a')
  await it.replace(config.replace('[t], buffer', '[t], batch: { max_events: 5 }, buffer'))
  await it.arrived(t)
  await it.end(t)
})

for (const output of ['f', 'f.discarded']) {
  t.test(`a reload does not wait for room in a full buffer that ${output} feeds`, { timeout: 20_000 }, async t => {
    const text = output === 'f' ? 'piped' : 'nothing'
    const config = `processors: { f: { type: filter, inputs: [piped], condition: "if (.message contains '${text}')" } }
destinations: { a: { type: collect, how: fails, inputs: [${output}], buffer: { type: disk, max_bytes: 1MB } } }`
    const it = await start(t, config, '60s')
    const pad = '.'.repeat(60_000)
    for (let i = 0; i < 60; i++) it.stdin.write(`piped ${i}${pad}\n`)
    await until(() => it.logged('the buffer is full; sources wait').length > 0)
    await it.replace(config.replace('how: fails, ', ''))
    await until(() => (got.a?.length ?? 0) >= 60)
    t.equal(got.a?.length, 60)
    await it.end(t)
  })
}

for (const [how, another] of [
  ['fails', 'holds'],
  ['holds', 'fails'],
] as const) {
  t.test(
    `an outage in which a destination ${how}, then ${another}, keeps its begin and its count over reloads`,
    async t => {
      const config = (how: string, more = '') => `destinations: { a: { type: collect, ${INPUTS}, how: ${how}${more} } }`
      const it = await start(t, config(how), '2s')
      await it.send(5)
      const state = () => it.supervisor.states()[0]!
      await until(() => (state().failures ?? 0) > 0)
      const { since } = state()
      for (const batch of [10, 11]) {
        const replaced = it.replace(config(another, `, batch: { max_events: ${batch} }`))
        await it.send(1)
        await replaced
        // One more, so that the successor has failed too.
        const before = state().failures ?? 0
        await until(() => state().failures! > before)
        const failures = state().failures!
        t.ok(Math.abs(Date.parse(state().since!) - Date.parse(since!)) < 50, 'its begin')
        t.ok(failures > 1, 'its count')
        const lasted = Date.now() - Date.parse(since!)
        const shown = [...it.metrics.components.get('a')!.series.get('sluice_delivery_failing_seconds')![0]!.read()][0]!
          .value
        if (another === 'fails') t.ok(shown * 1000 > lasted - 50, 'its metric')
      }
      const { failures } = state()
      await it.replace(config('takes'))
      await it.arrived(t)
      t.equal(state().failures, undefined)
      const past = state().last_outage!
      t.ok(
        past.failures >= failures! && Math.abs(Date.parse(past.since) - Date.parse(since!)) < 50,
        'all of it is over',
      )
      const logged = it.logged('delivery works again')
      t.match(logged, [{ component: 'a', failures: past.failures, since: /^20/, lasted: /s$/ }], 'and logged once')
      await it.replace(config('takes', ', batch: { max_events: 10 }'))
      t.match(state().last_outage, { failures: past.failures }, 'the last outage stays known')
      await it.end(t)
    },
  )
}

for (const buffer of ['memory', 'disk']) {
  t.test(`what goes back into a ${buffer} buffer at a reload is in flight, and received once`, async t => {
    const shape = (how: string, max_events: number) =>
      `destinations: { a: { type: collect, ${INPUTS}, how: ${how}, buffer: { type: ${buffer} }, batch: { max_events: ${max_events} } } }`
    const it = await start(t, shape('fails', 100))
    await it.send(30)
    const counters = it.metrics.components.get('a')!
    await until(() => counters.received.events === 90)
    for (const max of [101, 102]) {
      await it.replace(shape('fails', max))
      await until(() => counters.held().events === 90)
      t.same([counters.received.events, counters.inFlight().events, counters.discards.size], [90, 90, 0])
      t.equal(it.supervisor.undelivered(), 90)
    }
    await it.replace(shape('takes', 100))
    await it.arrived(t)
    await it.end(t)
    t.same([counters.received.events, counters.passed.events, counters.discards.size], [90, 90, 0])
    const { components } = it.metrics
    t.match(totalsOf(it.supervisor.config, { components, heldBefore: new Map(), underWay: 0 }), {
      received: 90,
      passed: 90,
      discarded: {},
      delivered: { a: 90 },
    })
  })
}

longTest('a reload without a change replaces nothing, and waits for nobody', async t => {
  const folder = testFolder(t, { key: 'one' })
  const config = `destinations:
  a: { type: collect, ${INPUTS}, key_file: ${join(folder, 'key')} }
  b: { type: collect, inputs: [tailed], how: hangs }`
  const it = await start(t, config, '2h')
  await it.send(5)
  await until(() => it.metrics.components.get('b')!.received.events === 5 && got.a?.length === 15)
  const before = made
  await it.replace(config)
  await it.replace(`discard_orphans: [x]\n${config}`)
  t.equal(made, before)
  t.equal(it.supervisor.config.discardOrphans[0], 'x', 'although it is the configuration that runs')
  writeFileSync(join(folder, 'key'), 'two')
  await it.replace(config.replace(', how: hangs', ''))
  const changed = made
  t.ok(changed > before)
  await it.replace(config.replace(', how: hangs', ''))
  t.equal(made, changed)
  writeFileSync(join(folder, 'key'), 'three')
  await it.replace(config.replace(', how: hangs', ''))
  t.ok(made > changed, 'a file has other bytes')
  await until(() => got.b?.length === 5)
  await it.end(t)
})

for (const buffer of ['memory', 'disk']) {
  t.test(`a destination with a ${buffer} buffer goes on at a reload of others, with its request`, async t => {
    const opens: (() => void)[] = []
    gates = { processor: Promise.resolve(), destination: new Promise(resolve => opens.push(resolve)) }
    const config = (text: string, b = '') => `processors:
  f: { type: filter, ${INPUTS}, condition: "if (.message contains '${text}')" }
destinations:
  a: { type: collect, inputs: [f, f.discarded], how: waits, buffer: { type: ${buffer} } }
${b}`
    const other = (how: string) => `  b: { type: collect, ${INPUTS}, how: ${how} }`
    const it = await start(t, config('0', other('takes')), '2h')
    const counters = it.metrics.components.get('a')!
    await it.send(10)
    await until(() => counters.received.events === 30 && got.b?.length === 30)
    stopped = []
    await it.replace(config('1', other('holds')))
    await it.send(10)
    await until(() => counters.received.events === 60)
    t.same(
      stopped.filter(id => id === 'a'),
      ['a'],
      'but for the one of the dry run',
    )
    t.equal(got.a, undefined, 'nobody waited for its request')
    // What waits for the other one goes back to its sources.
    await it.replace(config('2', '  c: { type: blackhole, inputs: [f] }'))
    await it.send(10)
    t.same(
      stopped.filter(id => id === 'a'),
      ['a', 'a'],
    )
    t.ok(it.metrics.checkConservation())
    for (const open of opens) open()
    const complete = (name: string) => new Set(got.a?.filter(line => line.startsWith(name))).size === 30
    await until(() => ['piped', 'sent', 'tailed'].every(complete))
    await it.replace(config('3'))
    await it.send(10)
    await until(() => new Set(got.a).size === 120)
    t.equal(got.a!.filter(line => numberOf(line) >= 20).length, 60, 'nothing comes twice that was not given back')
    await it.end(t)
  })
}

t.test(
  'a destination that fails and stays the same keeps its events: none comes twice, no source reads again',
  async t => {
    const config = (
      n: number,
    ) => `processors: { f: { type: filter, ${INPUTS}, condition: "if (.message contains '${n}')" } }
destinations: { a: { type: collect, inputs: [f, f.discarded], how: failing, batch: { max_events: 4 } } }`
    isFailing = true
    const it = await start(t, config(0), '2h')
    await it.send(20)
    await until(() => (it.supervisor.states()[0]!.failures ?? 0) > 0)
    const { since } = it.supervisor.states()[0]!
    for (let n = 1; n <= 3; n++) {
      await it.replace(config(n))
      await it.send(20)
      t.ok(Math.abs(Date.parse(it.supervisor.states()[0]!.since!) - Date.parse(since!)) < 50)
    }
    isFailing = false
    await it.arrived(t)
    t.same(
      ['piped', 'sent', 'tailed'].map(id => it.metrics.components.get(id)!.returned),
      [0, 0, 0],
    )
    await it.end(t)
  },
)

t.test('processors are made again at a reload, with what waits in them, and are fed by a source again', async t => {
  const config = (n: number, inputs = '[p]') => `processors:
  p: { type: stoppable, ${INPUTS} }
  q: { type: stoppable, inputs: ${inputs} }
  r: { type: stoppable, inputs: [tailed] }
  w: { type: throttle, inputs: [piped], limit: 10, window: 1 Hours, over_limit: { wait: 2 Hours } }
  f: { type: filter, inputs: [sent], condition: "if (.field_${n} exists)" }
destinations:
  a: { type: collect, inputs: [q] }
  b: { type: collect, inputs: [r, f], batch: { max_events: ${n} } }
  c: { type: collect, inputs: [w] }`
  const it = await start(t, config(1))
  const count = (id: string) => stopped.filter(other => other === id).length
  const a = () => got.a ?? []
  for (let n = 2; n <= 5; n++) {
    await it.send(5)
    await it.replace(config(n))
    t.ok(it.metrics.checkConservation())
  }
  await until(() => a().length === 60 && got.c?.length === 10)
  t.same(['p', 'q', 'r'].map(count), [8, 8, 8], 'in the dry run, and what ran')
  await until(() => it.metrics.components.get('w')!.waiting() === 10)
  const tap: string[] = []
  t.equal(it.supervisor.taps.tap('w.discarded', batch => void tap.push(String(batch.length)))?.(), undefined)
  await it.replace(config(5, '[p, piped]'))
  t.same(['p', 'q', 'r'].map(count), [10, 10, 10])
  await it.send(5)
  await until(() => a().length === 80)
  t.equal(new Set(a()).size, 75)
  await it.replace(config(5, '[p, piped]').replace('type: throttle, inputs: [piped]', 'type: throttle, inputs: [sent]'))
  await it.end(t)
})

t.test('a reload that runs out of time costs other branches neither counts nor requests in flight', async t => {
  let release = { destination() {}, processor() {} }
  const gate = (name: 'destination' | 'processor') =>
    new Promise<void>(resolve => {
      release = { ...release, [name]: resolve }
    })
  gates = { destination: gate('destination'), processor: gate('processor') }
  const config = (n: number) => `processors:
  t: { type: throttle, inputs: [tailed], limit: 10, window: 1 Hours, on_backlog: as_live }
  g: { type: gated, inputs: [piped] }
destinations:
  a: { type: collect, inputs: [t], how: waits, batch: { max_events: 4 } }
  b: { type: collect, inputs: [g], batch: { max_events: ${n} } }
  c: { type: blackhole, inputs: [sent] }`
  // Slower than in other tests: all that does not hang has to end before the reload gives up.
  const it = await start(t, config(1), '4s', hurried(2))
  await it.send(8)
  await until(() => it.metrics.components.get('a')!.received.events === 8)
  await it.replace(config(2))
  await it.send(8)
  for (const go of Object.values(release)) go()
  await until(() => got.b?.length === 16 && got.a?.length === 10)
  t.equal(new Set(got.b).size, 16)
  t.equal(new Set(got.a).size, 10, 'none was sent twice')
  await until(() => it.metrics.components.get('t')!.discards.get('throttled')?.events === 6)
  t.equal(it.metrics.components.get('tailed')!.returned, 0)
  await it.end(t)
})

t.test('a processor leaves no counts when a source sends again what it has decided about', async t => {
  for (const keeps of ['tailed', 'piped']) {
    const config = (b: string) => `processors:
  t: { type: throttle, inputs: [${keeps}], limit: 10, window: 1 Hours }
destinations:
  a: { type: collect, inputs: [t] }
  ${b}`
    const it = await start(t, config(`b: { type: collect, inputs: [${keeps}], how: fails }`), '2h')
    await it.send(10)
    await until(() => got.a?.length === 10 && it.metrics.components.get('b')!.failures.size > 0)
    got = {}
    await it.replace(config(`c: { type: blackhole, inputs: [sent] }`))
    await until(() => got.a?.length === 10)
    t.equal(it.metrics.components.get('t')!.discards.size, 0, `${keeps}: none was counted twice`)
    await it.end(t)
  }
})

t.test(
  'what a processor made of events waits for the successor of a destination, too: none is lost or counted twice',
  async t => {
    for (const ending of ['', ', max_line_bytes: 3000']) {
      const config = (b: string) => `processors:
  t: { type: throttle, inputs: [tailed], limit: 20, window: 1 Hours${b} }
  r: { type: reduce, inputs: [t, piped], max_events: 2, merge: { .message: concat } }
destinations:
  a: { type: collect, inputs: [r], how: failing${b && ', batch: { max_events: 3 }'} }
  b: { type: collect, inputs: [r] }`
      isFailing = true
      const it = await start(t, config(''), '2h')
      await it.send(10)
      await until(() => got.b?.length === 10 && it.metrics.components.get('a')!.failures.size > 0)
      // The state of the throttle and what waits in front of the destination go on, or neither does.
      await it.replace(config(', max_keys: 77'), ending)
      isFailing = false
      await until(() => got.a?.length === (ending === '' ? 10 : 15))
      t.equal(new Set(got.a!.flatMap(line => line.match(/\w+ \d+/g))).size, 20)
      const returned = ['piped', 'tailed'].map(id => it.metrics.components.get(id)!.returned)
      t.same(returned, [0, ending === '' ? 0 : 10], 'only what the file source reads again when it ends')
      t.equal(it.metrics.components.get('t')!.discards.size, 0, 'the throttle counts no event twice')
      await it.end(t)
    }
  },
)

t.test('what waits for a destination stays when a source changes that cannot read it again', async t => {
  isFailing = true
  const config = `destinations: { a: { type: collect, ${INPUTS}, how: failing } }`
  const it = await start(t, config, '2h')
  await it.send(10)
  await until(() => it.metrics.components.get('a')!.failures.size > 0)
  await it.replace(config, '', ', max_line_bytes: 3000')
  await it.send(5)
  isFailing = false
  await it.arrived(t)
  await it.end(t)
})

t.test('what waits for a destination arrives once when the time of a reload runs out later', async t => {
  isFailing = true
  const config = (n: number) => `processors: { s: { type: stoppable, inputs: [tailed] } }
destinations: { a: { type: collect, inputs: [piped, sent, s], how: failing, batch: { max_events: ${n} } } }`
  const it = await start(t, config(1), '2s')
  await it.send(10)
  await until(() => it.metrics.components.get('a')!.failures.size > 0)
  stopsLate = true
  await it.replace(config(2).replace('{ s:', '{ other:').replace(', s]', ', other]'))
  stopsLate = false
  isFailing = false
  await it.send(5)
  await it.arrived(t)
  await it.end(t)
})

t.test('a destination does not stay when a source of its events ends', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(5)
  await it.replace(SHAPES[0]!, ', max_line_bytes: 2000')
  await it.send(5)
  await it.arrived(t)
  t.ok(stopped.length >= 2, 'in the dry run, and what ran')
  await it.end(t)
})

t.test('a source goes on at a reload, unless its file has other bytes', async t => {
  const folder = testFolder(t, { key: 'one' })
  const more = ` }\n  keyed: { type: keyed, key_file: ${join(folder, 'key')}`
  const config = (n: number) => `destinations: { a: { type: collect, ${INPUTS}, batch: { max_events: ${n} } } }`
  const it = await start(t, config(1))
  await it.replace(config(2), more)
  const before = keyedMade
  await it.replace(config(3), more)
  t.equal(keyedMade, before + 1, 'in the dry run')
  writeFileSync(join(folder, 'key'), 'two')
  await it.replace(config(3), more)
  t.equal(keyedMade, before + 3)
  await it.end(t)
})

t.test('what cannot be built changes nothing', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(5)
  made = 0
  const bad = it.replace(`destinations: { a: { type: collect, ${INPUTS}, how: cannot_be_made } }`)
  await t.rejects(bad, { message: 'no such thing' })
  t.equal(it.supervisor.replaced, 0)
  t.equal(made, 1, 'it was tried beside the one that runs')
  const elsewhere = { ...it.supervisor.config, dataDir: '/nowhere' }
  await t.rejects(it.supervisor.replace(elsewhere), { message: /data_dir/ })
  await it.send(5)
  await it.arrived(t)
  await it.end(t)
  await t.rejects(it.replace(SHAPES[1]!), { message: /stopping/ })
})

t.test('a dry run leaves nothing behind', async t => {
  const buffered = `a: { type: collect, ${INPUTS}, buffer: { type: disk, max_bytes: 10MiB } }`
  const it = await start(t, `destinations: { ${buffered} }`)
  await it.send(5)
  await until(() => it.metrics.components.get('a')!.received.events === 15)
  made = 0
  const bad = it.replace(`destinations: { ${buffered}, z: { type: collect, ${INPUTS}, how: cannot_be_made_again } }`)
  await t.rejects(bad, { message: 'not twice' })
  const lines = String(await it.metrics.render()).split('\n')
  t.equal(lines.filter(line => line.startsWith('sluice_buffer_events{component_id="a"}')).length, 1)
  await it.send(5)
  await it.arrived(t)
  await it.end(t)
})

t.test('what ran before is tried again when nothing can be made for a moment', async t => {
  const it = await start(t, `destinations: { a: { type: collect, ${INPUTS} } }`)
  await it.send(5)
  let left = -1
  onMade = id => {
    if (left < 0) left = 3
    else if (left-- > 0) throw new Error(`${id} is being written`)
  }
  const other = `destinations: { z: { type: collect, ${INPUTS} } }`
  await t.rejects(it.replace(other), { message: 'z is being written' })
  t.match(it.logged('cannot restore the previous configuration; retrying'), [
    { code: 'SLUICE_REPLACE_FAILED', error: 'a is being written', cause: 'z is being written' },
    { error: 'a is being written' },
  ])
  await it.send(5)
  await it.arrived(t)
  t.same(Object.keys(got), ['a'])
  left = Number.POSITIVE_INFINITY
  onMade = () => {
    if (left !== Number.POSITIVE_INFINITY) throw new Error('lost for good')
    left = 0
  }
  await t.rejects(it.replace(other), { message: 'Sluice is stopping' })
  t.equal(it.logged('cannot restore the previous configuration; nothing is running').length, 1)
  t.ok(it.supervisor.failed && it.supervisor.isStopping)
  await it.end(t)
})

t.test('what cannot start gives way to what ran before', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(5)
  await it.replace(
    `destinations: { a: { type: collect, ${INPUTS} }, z: { type: collect, ${INPUTS}, how: cannot_start } }`,
  )
  await it.send(5)
  await until(() => it.wentBack.length === 1 && !it.supervisor.config.destinations.some(({ id }) => id === 'z'))
  t.match(it.wentBack[0], { message: 'destination z cannot start: not on this machine' })
  await it.send(5)
  await until(() => new Set(got.a).size >= 45)
  t.same(new Set(got.a).size, 45, 'every event was delivered')
  t.notOk(it.supervisor.failed)
  await it.end(t)
})

t.test('what cannot start in several places gives way once, after whoever asked for it was answered', async t => {
  const it = await start(t, SHAPES[0]!)
  const fails = `{ type: collect, ${INPUTS}, how: cannot_start }`
  const bad = `destinations: { a: { type: collect, ${INPUTS} }, y: ${fails}, z: ${fails} }`
  let answered = false
  const replaced = it.replace(bad).then(() => {
    answered = true
    t.equal(it.wentBack.length, 0)
  })
  await until(() => it.wentBack.length > 0)
  t.ok(answered)
  await replaced
  // Comes behind whatever was to follow.
  await t.rejects(it.supervisor.replace({ ...it.supervisor.config, dataDir: '/nowhere' }), { message: /data_dir/ })
  t.match(it.wentBack, [{ message: 'destination y cannot start: not on this machine' }])
  await it.replace(SHAPES[1]!)
  await it.send(5)
  await it.arrived(t)
  t.notOk(it.supervisor.failed)
  await it.end(t)
})

t.test('what cannot start has been replaced by the time it would give way', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(5)
  const bad = it.replace(
    `destinations: { a: { type: collect, ${INPUTS} }, z: { type: collect, ${INPUTS}, how: cannot_start } }`,
  )
  const good = it.replace(SHAPES[1]!)
  await Promise.all([bad, good])
  await it.send(5)
  // Comes behind whatever was to follow.
  await t.rejects(it.supervisor.replace({ ...it.supervisor.config, dataDir: '/nowhere' }), { message: /data_dir/ })
  t.same(valuesOf(it.supervisor.config.destinations, 'id'), ['b'])
  await until(() => new Set(Object.values(got).flat()).size === 30)
  t.notOk(it.supervisor.failed)
  await it.end(t)
})

t.test('a source whose options changed goes on from its checkpoint', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(20)
  await it.replace(SHAPES[0]!, ', max_line_bytes: 2000')
  await it.send(20)
  await it.arrived(t)
  await it.end(t)
})

t.test('a source that was kept, and changed or taken out later, shows nothing of itself any more', async t => {
  const it = await start(t, SHAPES[0]!)
  const shown = async () => {
    const lines = String(await it.metrics.render()).split('\n')
    return lines.filter(line => line.startsWith('sluice_files_watched{')).length
  }
  t.equal(await shown(), 1)
  await it.replace(SHAPES[1]!)
  t.equal(await shown(), 1, 'kept')
  await it.replace(SHAPES[1]!, ', max_line_bytes: 2000')
  t.equal(await shown(), 1, 'another in its place')
  await it.replace(SHAPES[0]!, ', max_line_bytes: 2000')
  await it.end(t)
})

t.test('an end in the middle of a replacement', async t => {
  const it = await start(t, SHAPES[0]!)
  await it.send(50)
  const replaced = it.replace(SHAPES[1]!)
  await it.send(10)
  it.supervisor.stop(AbortSignal.timeout(5000))
  await replaced.catch(() => {})
  await it.run
  t.equal(it.supervisor.undelivered(), 0)
  t.ok(it.metrics.checkConservation())
  const piped = Object.values(got)
    .flat()
    .filter(line => line.startsWith('piped'))
  // A line of which a part was read is delivered as that part.
  let rest = ''
  for (let chunk; (chunk = it.stdin.read()) !== null; ) rest += chunk
  const unread = rest.match(/piped/g) ?? []
  t.equal(new Set(piped).size, it.metrics.components.get('piped')!.received.events)
  t.equal(new Set(piped).size + unread.length, 60, 'what can be read once only was delivered, if it was read')
})

t.test('a shutdown ends early when two checks in a row find nothing but destinations on hold', async t => {
  /** The next check: it sets the timer of the one after it. Others may set timers in between. */
  let check = () => {}
  let isSet = false
  const byHand: TimerClock = {
    ...clock,
    after(ms, fn) {
      if (!isSet) return clock.after(ms, fn)
      check = () => setting(fn)
      return () => {}
    },
  }
  const setting = (fn: () => void) => {
    isSet = true
    fn()
    isSet = false
  }
  let open = { processor: () => {}, destination: () => {} }
  gates = {
    processor: new Promise(resolve => (open = { ...open, processor: resolve })),
    destination: new Promise(resolve => (open = { ...open, destination: resolve })),
  }
  const config = `processors: { g: { type: gated, inputs: [tailed] } }
destinations: { h: { type: collect, inputs: [tailed], how: holds }, w: { type: collect, inputs: [g], how: waits } }`
  const it = await start(t, config, '5m', byHand)
  const stateOf = (id: string) => it.supervisor.states().find(state => state.id === id)!.state
  const isOver = () =>
    it.logged('not waiting for paused or failing destinations; their events are delivered after the next start')
      .length > 0
  const received = (id: string) => it.metrics.components.get(id)!.received.events
  await it.send()
  await until(() => stateOf('h') === 'holding' && received('g') === 1)
  setting(() => it.supervisor.stop(AbortSignal.timeout(60_000)))
  check()
  t.notOk(isOver(), 'an event may be on its way to a destination that works')
  open.processor()
  await until(() => received('w') === 1)
  check()
  t.notOk(isOver(), 'it has come there')
  open.destination()
  await until(() => got.w?.length === 1)
  await until(() => stateOf('w') === 'stopped')
  check()
  t.notOk(isOver(), 'the checks before do not count')
  check()
  t.ok(isOver())
  await it.run
  t.same(got, { w: ['tailed 0 begun and ended'] })
  t.equal(it.supervisor.undelivered(), 1, 'what waits for the destination on hold is read again')
})

t.test('a shutdown waits for a request in flight of a destination on hold', t => {
  const isOver = (isAttempting: boolean) =>
    isOnHold([{ delivery: { state: 'holding', outage: { pausedMs: 0, isAttempting } } } as DestinationRun], [], 1000)
  t.notOk(isOver(true), 'another request was refused, and this one may be accepted')
  t.ok(isOver(false))
  t.end()
})

t.test('a shutdown does not wait for a destination that fails and whose events are in a disk buffer', async t => {
  const config = `destinations:
  a: { type: collect, inputs: [tailed], how: fails, buffer: { type: disk } }
  b: { type: collect, inputs: [tailed] }`
  const it = await start(t, config)
  await it.send(3)
  await until(() => it.supervisor.states().find(({ id }) => id === 'a')!.failures !== undefined && got.b?.length === 3)
  it.supervisor.stop(AbortSignal.timeout(600_000))
  await it.run
  t.equal(it.supervisor.undelivered(), 3, 'they are delivered after the next start')
})

t.test('options that are the same, and that only look so', async t => {
  const same = { a: [1, { b: 'x' }], key: new Secret('k'), pattern: new Pattern('x'), none: undefined }
  t.ok(sameOptions(same, { ...same, key: new Secret('k'), pattern: new Pattern('x') }))
  t.notOk(sameOptions(same, { ...same, key: new Secret('other') }))
  const when = (text: string) => ({ when: parseCondition(text) })
  const one = "if (.a equal 'x' AND NOT length(.b) greater 3)"
  t.ok(sameOptions(when(one), when(one)), 'a throttle with a condition keeps its buckets')
  t.notOk(sameOptions(when(one), when(one.replace('3', '4'))))
  t.notOk(sameOptions(same, { ...same, pattern: new Pattern('y') }))
  t.notOk(sameOptions(same, { ...same, a: [1, { b: 'y' }] }))
  t.notOk(sameOptions({ a: 1 }, { a: 1, b: 2 }))
  t.notOk(sameOptions({ a: 1 }, { b: 1 }))
  t.notOk(sameOptions(new Map(), new Map()), 'nobody knows')
})
