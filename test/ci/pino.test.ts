import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { type Logger, pino } from 'pino'
import t, { type Test } from 'tap'
import transport, { type PinoTransportOptions } from '../../src/pino.js'
import { HOST, ownPort } from '../support/address.js'
import { bound } from '../support/bound.js'
import { testFolder } from '../support/folder.js'
import { install } from '../support/installed.js'
import { type Receiver, type ReceiverOptions, startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

const FAST = { batch: { max_wait: '20ms' }, retry: { initial: '10ms', max: '50ms' } } as const

async function receiver(t: Test, options: ReceiverOptions = {}): Promise<Receiver> {
  const receiver = await startReceiver(options)
  t.teardown(() => receiver.close())
  return receiver
}

/** A log that remembers. */
function memory(): { log: Logger; told: Record<string, unknown>[] } {
  const told: Record<string, unknown>[] = []
  return { told, log: pino({ level: 'info' }, { write: line => told.push(JSON.parse(line)) }) }
}

async function end(stream: Writable): Promise<void> {
  const closed = once(stream, 'close')
  stream.end()
  await closed
}

const numbers = (receiver: Receiver) => receiver.lines().map(line => (JSON.parse(line) as { n: number }).n)
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
const ascending = (a: number, b: number) => a - b

t.test('every line arrives, as pino wrote it, over requests that fail', async t => {
  const to = await receiver(t)
  to.script.push(503, { reset: 'after_body' }, 429)
  const { log, told } = memory()
  const stream = await transport({ http: { url: to.url('/in'), ...FAST } }, log)
  const written: string[] = []
  const write = (line: string) => {
    written.push(line)
    stream.write(line)
  }
  const app = pino({ base: null }, { write })
  for (let n = 0; n < 3000; n++) app.info({ n, text: 'é\n"' }, `line ${n}`)
  await end(stream)
  t.same(new Set(to.lines()), new Set(written.map(line => line.trimEnd())))
  t.match(to.requests[0], { method: 'POST', path: '/in', headers: { 'content-type': /ndjson/ } })
  t.notOk(told.some(({ msg }) => /lost|discarded/.test(String(msg))))
})

t.test('lines are throttled by key; a header carries the access key', async t => {
  const to = await receiver(t, { authorization: 'Token secret' })
  const { log } = memory()
  const options: PinoTransportOptions = {
    throttle: {
      limit: 2,
      window: '1 Hours',
      key_field: '.route',
      exclude: "if (.level equal '50' OR .x equal '${HOME}')",
    },
    http: { url: to.url(), auth: { type: 'token', key: 'secret' }, ...FAST },
  }
  const stream = await transport(options, log)
  const app = pino(stream)
  for (let n = 0; n < 20; n++) app.info({ n, route: n % 2 ? '/a' : '/b' })
  app.error({ n: 20, route: '/a' })
  app.info({ n: 21, route: '/a', x: '${HOME}' })
  await end(stream)
  t.same(numbers(to).sort(ascending), [0, 1, 2, 3, 20, 21])
})

t.test('a refused key holds the lines until it is replaced', async t => {
  const to = await receiver(t, { authorization: 'Token new' })
  const { log, told } = memory()
  const key_file = join(testFolder(t, { key: 'old\n' }), 'key')
  const stream = await transport({ http: { url: to.url(), auth: { type: 'token', key_file }, ...FAST } }, log)
  const app = pino(stream)
  for (let n = 0; n < 50; n++) app.info({ n })
  await until(
    'a refusal, and its line',
    () => to.requests.some(({ status }) => status === 401) && told.find(({ level }) => level === 50),
  )
  t.same(to.lines(), [])
  writeFileSync(key_file, 'new\n')
  await until('all lines', () => to.lines().length === 50)
  await end(stream)
  t.same(numbers(to).sort(ascending), upTo(50))
})

t.test('full: waits, and then nothing is missing', async t => {
  const to = await receiver(t)
  to.otherwise = 503
  const { log } = memory()
  const stream = await transport({ http: { url: to.url(), ...FAST, timeout: '1s' } }, log)
  const line = (n: number) => `${JSON.stringify({ n, pad: 'x'.repeat(10_000) })}\n`
  let n = 0
  const fill = async () => {
    while (n < 20_000) {
      while (!stream.writableNeedDrain) stream.write(line(n++))
      const refusals = to.requests.length
      let drained = false
      stream.once('drain', () => (drained = true))
      // While it is refused again and again, nothing moves that could make room.
      await until('room, or more refusals', () => drained || to.requests.length > refusals + 20)
      if (!drained) return
    }
  }
  await fill()
  t.ok(n > 100 && n < 5000, `the stream is full after ${n} lines of 10 kB`)
  const before = n
  await fill()
  t.ok(n - before <= 1, 'and stays so')
  to.otherwise = 200
  await end(stream)
  t.same(numbers(to).sort(ascending), upTo(n))
})

t.test('full, on_full: discard: whole lines go, their number is told, and the rest arrives', async t => {
  const to = await receiver(t)
  // After a 401 it would ask the less often the longer the lines below take.
  to.otherwise = 503
  const { log, told } = memory()
  const stream = await transport({ http: { url: to.url(), ...FAST }, on_full: 'discard' }, log)
  let n = 0
  let pending = ''
  /** Lines in portions that know nothing of lines. */
  const write = async (count: number) => {
    for (let i = 0; i < count; i++) {
      pending += `${JSON.stringify({ n: n++, pad: 'x'.repeat(5000) })}\n`
      if (pending.length < 47_777) continue
      stream.write(pending.slice(0, 47_777))
      pending = pending.slice(47_777)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  await write(10_000)
  t.ok(stream.writableLength < 1e6, 'nothing queues up')
  await until('the line that there is no room', () =>
    told.some(({ msg }) => /no room for more lines/.test(String(msg))),
  )
  to.otherwise = 200
  const from = n
  await until('a line that is written from now on', async () => {
    await write(10)
    return numbers(to).some(number => number >= from)
  })
  await write(100)
  stream.write(pending)
  await end(stream)
  const arrived = numbers(to).sort(ascending)
  const discarded = told.reduce(
    (sum, { lines, msg }) => sum + (/lines were discarded meanwhile/.test(String(msg)) ? Number(lines) : 0),
    0,
  )
  t.ok(discarded > 1000, `${discarded} lines discarded`)
  t.equal(new Set(arrived).size, arrived.length)
  t.equal(arrived.length + discarded, n, 'every line arrived or was counted')
  t.equal(arrived.at(-1), n - 1)
})

t.test('the end comes within its time, and says what is lost', async t => {
  const to = await receiver(t)
  to.otherwise = { hang: 'after_body' }
  const { log, told } = memory()
  const throttle = { limit: 5, window: '1h', key_field: '.n', exclude: 'if (.n less 1)' } as const
  const stream = await transport({ throttle, http: { url: to.url(), ...FAST }, shutdown_timeout: '300ms' }, log)
  const app = pino(stream)
  for (let n = 0; n < 20; n++) app.info({ n: 1 })
  const began = performance.now()
  await end(stream)
  const took = performance.now() - began
  t.ok(took >= 290, `${took} ms`)
  t.match(told.at(-1), { level: 50, lines: 5, msg: /stopped before the receiver accepted all lines/ })
})

t.test('refused lines go to the dead letters of the folder that was given, else they are told', async t => {
  const to = await receiver(t)
  to.otherwise = 422
  const data_dir = testFolder(t)
  const ship = async (options: Partial<PinoTransportOptions>) => {
    const { log, told } = memory()
    const stream = await transport({ http: { url: to.url(), ...FAST }, ...options }, log)
    const app = pino(stream)
    for (let n = 0; n < 3; n++) app.info({ n })
    await end(stream)
    return told
  }
  t.match(await ship({}), [{ level: 40, events: 3, on_reject: 'discard' }])
  t.match(await ship({ data_dir }), [{ level: 40, events: 3, on_reject: 'dead_letter' }])
  const [file] = readdirSync(join(data_dir, 'dead-letter'))
  t.equal(
    readFileSync(join(data_dir, 'dead-letter', file!), 'utf8')
      .trim()
      .split('\n').length,
    3,
  )
})

t.test('wrong options are told with their paths', async t => {
  const url = `http://${HOST}:${await ownPort()}/`
  const cases: [unknown, RegExp][] = [
    [{}, /^@sluice-logs\/sluice\/pino: http: is missing/],
    [{ http: {} }, /^@sluice-logs\/sluice\/pino: http\.url: is missing/],
    [{ http: { url: 'ftp://x' } }, /^@sluice-logs\/sluice\/pino: http\.url: must be a whole address/],
    [{ http: { url, retrys: 3 } }, /http\.retrys: unknown option of http; did you mean "retry"\?/],
    [{ http: { url, colour: 3 } }, /http\.colour: unknown option of http; known are url, method,/],
    [{ http: { url, batch: { max_event: 3 } } }, /http\.batch\.max_event: unknown option; did you mean "max_events"\?/],
    [{ http: { url, type: 'file' } }, /http\.type: has no meaning here/],
    [{ http: { url, on_reject: 'dead_letter' } }, /http\.on_reject: the dead-letter queue needs a data_dir/],
    [{ http: { url, buffer: { type: 'disk' } } }, /http\.buffer: a disk buffer needs a data_dir/],
    [{ http: { url }, throttle: { window: '1s' } }, /throttle\.limit: is missing/],
    [{ http: { url }, throttle: { limit: 1, window: '1s', exclude: '.a' } }, /throttle\.exclude: expected an operator/],
    [{ http: { url }, on_ful: 'wait' }, /on_ful: unknown option; did you mean "on_full"\?/],
    [{ http: { url }, shutdown_timeout: '10s' }, /shutdown_timeout: must be at most 9 Seconds/],
    [{ http: { url, auth: { type: 'token', key: 'se cret' } } }, /http\.auth\.key: the key has a character/],
  ]
  for (const [options, message] of cases) {
    const { log } = memory()
    await t.rejects(
      transport(options as PinoTransportOptions, log),
      { code: 'SLUICE_OPTIONS', message },
      String(message),
    )
    const error = await transport(options as PinoTransportOptions, log).catch((error: Error) => error)
    t.notMatch(String((error as Error).message), 'se cret')
  }
  const { log } = memory()
  const stream = await transport({ http: { url, auth: { type: 'token', key_file: '/no/such/file' } } }, log)
  stream.write('{}\n')
  stream.destroy()
  await once(stream, 'close')
})

interface App {
  readonly child: ChildProcess
  readonly stderr: () => string
  readonly code: Promise<number | null>
}

/** An app in a process of its own, where the package is installed. */
function start(file: string, env: NodeJS.ProcessEnv): App {
  const child = spawn(...bound(process.execPath, [file]), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text))
  return { child, stderr: () => stderr, code: once(child, 'close').then(([code]) => code as number | null) }
}

t.test('in an app: the example; an exit at once; an uncaught error; a receiver that takes nothing', async t => {
  const folder = testFolder(t, {
    'app.mjs': `import { pino } from 'pino'
const options = JSON.parse(process.env.OPTIONS)
const log = pino({ transport: { target: '@sluice-logs/sluice/pino', options } })
const count = Number(process.env.COUNT)
for (let n = 0; n < count; n++) log.info({ n })
process.stderr.write('logged\\n')
if (process.env.HOW === 'exit') process.exit(3)
if (process.env.HOW === 'throw') setTimeout(() => { throw new Error('an error of the app') }, 300)
`,
  })
  const [example] = install(folder, ['docs/examples/pino-transport.mjs'])
  const to = await receiver(t, { authorization: 'Token k' })
  const shown = start(example!, { INGEST_URL: to.url(), SLUICE_ACCESS_KEY: 'k' })
  t.equal(await shown.code, 0, shown.stderr())
  t.equal(to.lines().length, 21)
  t.equal(to.lines().filter(line => line.includes('"level":50')).length, 1)

  for (const [how, code] of [
    ['end', 0],
    ['exit', 3],
    ['throw', 1],
  ] as const) {
    const to = await receiver(t)
    const OPTIONS = JSON.stringify({ http: { url: to.url(), ...FAST } })
    const app = start(join(folder, 'app.mjs'), { OPTIONS, COUNT: '2000', HOW: how })
    t.equal(await app.code, code, app.stderr())
    t.same(numbers(to).sort(ascending), upTo(2000), how)
  }

  const hanging = await receiver(t)
  hanging.otherwise = { hang: 'after_body' }
  const OPTIONS = JSON.stringify({ http: { url: hanging.url(), ...FAST }, shutdown_timeout: '1s' })
  const app = start(join(folder, 'app.mjs'), { OPTIONS, COUNT: '20000', HOW: 'end' })
  t.equal(await app.code, 0, app.stderr())
  t.match(app.stderr(), /^logged$/m, 'the app never waits for a receiver that never answers')
  t.match(app.stderr(), /"lines":20000,.*stopped before the receiver accepted all lines/)

  const wrong = start(join(folder, 'app.mjs'), { OPTIONS: '{"http":{}}', COUNT: '1', HOW: 'end' })
  t.not(await wrong.code, 0)
  t.match(wrong.stderr(), /sluice\/pino: http\.url: is missing/)
})
