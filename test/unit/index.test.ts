import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { createThrottle, OptionsError, type Throttle, type ThrottleOptions, version } from '../../src/index.js'
import { checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { install } from '../support/installed.js'
import { settle } from '../support/manual-time.js'

const clockOf = (now = 0, epoch = 0) => {
  const time = { now, epoch }
  return { time, clock: { now: () => time.now, wall: () => time.now + time.epoch } }
}

/** What passes, each event at its own time. */
async function decide(options: ThrottleOptions, events: readonly { t: number; event: unknown }[]): Promise<boolean[]> {
  const { time, clock } = clockOf()
  const throttle = createThrottle(options, { clock })
  const passed = new Set<unknown>()
  throttle.on('data', event => passed.add(event))
  const result: boolean[] = []
  for (const { t, event } of events) {
    time.now = t
    const before = throttle.stats.discarded
    await new Promise(resolve => throttle.write(event, resolve))
    result.push(throttle.stats.discarded === before)
  }
  await settle()
  const { received, passed: within, excluded, discarded, fail_open } = throttle.stats
  if (received !== within + excluded + discarded + fail_open) throw new Error('the statistics do not add up')
  if (events.some(({ event }, i) => typeof event === 'object' && passed.has(event) !== result[i]))
    throw new Error('another event than was written')
  return result
}

interface Vector {
  readonly name: string
  readonly config: ThrottleOptions
  readonly events: readonly { readonly t: number; readonly event: object; readonly decision: string }[]
}

t.test('the vectors, as objects and as lines', async t => {
  const vectors = JSON.parse(readFileSync(join(checkout, 'test/vectors/throttle.json'), 'utf8')) as Vector[]
  for (const { name, config, events } of vectors) {
    const expected = events.map(({ decision }) => decision !== 'discard')
    t.same(await decide(config, events), expected, name)
    const lines = events.map(({ t, event }) => ({ t, event: Buffer.from(JSON.stringify(event)) }))
    t.same(await decide(config, lines), expected, `${name}: lines`)
  }
})

t.test('objects, strings and bytes are events; what passes is the very chunk', async t => {
  const events = [
    { app: 'a' },
    '{"app":"a"}',
    Buffer.from('{"app":"b"}'),
    new Uint8Array(Buffer.from('{ "app" : "b" }\n')),
    '{"app":"c"}\r\n',
    'plain text',
    ['no', 'fields'],
    new (class App {
      app = 'd'
    })(),
    Object.create({ app: 'inherited' }),
    { app: 5n },
    { app: '5' },
  ]
  const at = events.map(event => ({ t: 0, event }))
  const passes = [true, false, true, false, true, true, false, true, false, true, false]
  t.same(await decide({ limit: 1, window: '1s', key_field: '.app' }, at), passes)
  const lines = ['one', 'two', 'one', ''].map(event => ({ t: 0, event }))
  t.same(await decide({ limit: 1, window: '1s', key_field: '.message' }, lines.slice(0, 3)), [true, true, false])
})

t.test('what is no event is an error of the stream, and so is a value without a text', async t => {
  const circular: Record<string, unknown> = {}
  circular.k = circular
  for (const [event, message] of [
    [5, /an event must be an object, a string or a Buffer, not a number/],
    [true, /not a boolean/],
    [circular, /circular/i],
  ] as const) {
    const throttle = createThrottle({ limit: 1, window: '1s', key_field: '.k' })
    await t.rejects(
      pipeline(
        Readable.from([{ k: 1 }, event]),
        throttle,
        new Writable({ objectMode: true, write: (_e, _c, done) => done() }),
      ),
      { message },
    )
  }
})

async function collect(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const all: unknown[] = []
  for await (const event of stream) all.push(event)
  return all
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => ({ n, app: n % 2 ? 'a' : 'b' }))

t.test('the discarded ones, in order, with backpressure, and an end', async t => {
  const throttle = createThrottle({ limit: 3, window: '1h', key_field: '.app' })
  const { discarded } = throttle
  t.equal(throttle.discarded, discarded)
  const events = numbered(500)
  const passed = collect(Readable.from(events).pipe(throttle))
  for (let i = 0; i < 10; i++) await settle()
  t.ok(throttle.stats.received < 100, `waits for its reader: ${throttle.stats.received} received`)
  t.same([await collect(discarded), await passed], [events.slice(6), events.slice(0, 6)])
  t.match(throttle.stats, { received: 500, passed: 6, excluded: 0, discarded: 494, fail_open: 0, buckets: 2 })
})

t.test('a reader of the discarded ones may leave, come late, or not come at all', async t => {
  const leaving = createThrottle({ limit: 1, window: '1h' })
  const { discarded } = leaving
  const passed = collect(Readable.from(numbered(300)).pipe(leaving))
  await settle()
  discarded.destroy()
  t.equal((await passed).length, 1, 'nobody waits for one who left')
  t.equal(leaving.stats.discarded, 299)

  const none = createThrottle({ limit: 1, window: '1h' })
  t.equal((await collect(Readable.from(numbered(300)).pipe(none))).length, 1)
  t.same(await collect(none.discarded), [], 'too late: it has ended')

  const broken = createThrottle({ limit: 1, window: '1h' })
  const left = broken.discarded
  broken.destroy()
  await settle()
  t.ok(left.destroyed, 'it ends with the throttle')
  t.ok(broken.discarded.destroyed)
  const early = createThrottle({ limit: 1, window: '1h' })
  early.destroy()
  await settle()
  t.ok(early.discarded.destroyed)
})

t.test('windows follow the clock that was given', async t => {
  const { time, clock } = clockOf(0, 1_700_000_000_000)
  const options = { limit: 1, window: '10s', key_field: '.app', max_keys: 1 } as const
  const write = async (throttle: Throttle, event: object) => {
    const before = throttle.stats.discarded
    await new Promise(resolve => throttle.write(event, resolve))
    throttle.read()
    return throttle.stats.discarded === before
  }
  const fixed = createThrottle(options, { clock })
  t.same(
    [await write(fixed, { app: 'a' }), await write(fixed, { app: 'a' }), await write(fixed, { app: 'b' })],
    [true, false, true],
  )
  t.match(fixed.stats, { passed: 1, discarded: 1, fail_open: 1, buckets: 1 })
  time.now = 9999
  t.notOk(await write(fixed, { app: 'a' }))
  time.now = 10_000
  t.ok(await write(fixed, { app: 'a' }))
  time.now = 40_000
  t.equal(fixed.stats.buckets, 0)
  const aligned = createThrottle({ ...options, window_mode: 'aligned' }, { clock })
  time.now = 49_999
  t.ok(await write(aligned, { app: 'a' }))
  time.now = 50_000
  t.ok(await write(aligned, { app: 'a' }))
  time.epoch -= 3_600_000
  t.ok(await write(aligned, { app: 'a' }), 'set back')
  const real = createThrottle({ limit: 1, window: '1h' }, { highWaterMark: 3 })
  t.equal(real.writableHighWaterMark, 3)
  t.ok(await write(real, {}))
  t.notOk(await write(real, {}))
})

t.test('wrong options are told as those of a configuration are', async t => {
  const thrown = (options: unknown) => {
    try {
      createThrottle(options as ThrottleOptions)
      return undefined
    } catch (error) {
      return error as OptionsError
    }
  }
  const error = thrown({ limit: 0, window: '1 Moon', keyField: '.a' })
  t.ok(error instanceof OptionsError)
  t.equal(error?.code, 'SLUICE_OPTIONS')
  t.same(error?.faults.map(({ path }) => path).sort(), ['keyField', 'limit', 'window'])
  t.match(error?.message, /^createThrottle: /)
  t.match(error?.message, 'keyField: unknown option; did you mean "key_field"?')
  t.match(thrown({})?.message, 'limit: is missing')
  t.match(thrown(undefined)?.message, /^createThrottle: options: /)
  t.match(version, /^\d+\.\d+\.\d+$/)
})

t.test('the example runs where the package is installed', async t => {
  const folder = testFolder(t)
  const [example] = install(folder, ['docs/examples/throttle-stream.mjs'])
  const input = numbered(20).map(event => JSON.stringify(event.n === 10 ? { ...event, level: 'error' } : event))
  const { status, stdout, stderr } = spawnSync(process.execPath, [example!], {
    input: `${input.join('\n')}\n`,
    encoding: 'utf8',
  })
  t.equal(status, 0, stderr)
  t.same(
    stdout.trim().split('\n'),
    [0, 1, 2, 3, 10].map(n => input[n]),
  )
  t.equal(stderr, '20 events: 4 passed, 1 excluded, 15 discarded\n')
})

/** Prints the address of each module that is loaded. */
const SHOWS_LOADED = `
import { writeSync } from 'node:fs'
export async function load(url, context, next) {
  writeSync(2, url + '\\n')
  return next(url, context)
}`

const url = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`

t.test('importing it loads no package but zod, and the client none at all', async t => {
  const folder = testFolder(t)
  install(folder, [])
  const hook = url(`import { register } from 'node:module'; register(${JSON.stringify(url(SHOWS_LOADED))})`)
  for (const [entry, packages] of [
    ['@sluice-logs/sluice', ['zod']],
    ['@sluice-logs/sluice/client', []],
  ] as const) {
    const args = ['--import', hook, '--input-type=module', '-e', `import '${entry}'`]
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
    t.equal(status, 0, stderr)
    const loaded = stderr.split('\n').filter(line => line.startsWith('file:'))
    t.ok(
      loaded.some(line => line.includes('/dist/src/')),
      'its own files',
    )
    const names = loaded.flatMap(line => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(line)?.[1] ?? [])
    t.same(new Set(names.filter(name => name !== '@sluice-logs/sluice')), new Set(packages), entry)
  }
})

t.test('require() loads it where Node.js can do that, and import does in any case', async t => {
  const folder = testFolder(t)
  install(folder, [])
  const printed = (...args: string[]) => spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).stdout
  for (const [entry, name] of [
    ['@sluice-logs/sluice', 'createThrottle'],
    ['@sluice-logs/sluice/client', 'Client'],
  ] as const) {
    if ('require_module' in process.features) t.equal(printed('-p', `typeof require('${entry}').${name}`), 'function\n')
    const code = `import { ${name} } from '${entry}'; console.log(typeof ${name})`
    t.equal(printed('--no-experimental-require-module', '--input-type=module', '-e', code), 'function\n')
  }
})
