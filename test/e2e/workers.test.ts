import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { socketPath } from '../../src/admin/socket.js'
import { sleep } from '../../src/lib/time.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { eventually } from '../support/patience.js'
import { sluice } from '../support/sluice.js'

/** Two files, each with a chain of filters on a thread of its own; a throttle of both, on the main thread. */
const config = ({ least = 0, rest = '', throttle = false, destination = 'type: file, path: out.ndjson' } = {}) => `
workers: 2
sources:
  a: { type: file, include: [a.log], decode: json, scan_interval: 50ms }
  b: { type: file, include: [b.log], decode: json, scan_interval: 50ms }
processors:
  even_a: { type: filter, inputs: [a], condition: if (NOT (.odd equal 'true')) }
  even_b: { type: filter, inputs: [b], condition: if (NOT (.odd equal 'true')) }
  large_a: { type: filter, inputs: [even_a], condition: if (.n greater_or_equal ${least}) }
  large_b: { type: filter, inputs: [even_b], condition: if (.n greater_or_equal ${least}) }
${throttle ? '  limit: { type: throttle, inputs: [large_a, large_b], limit: 100, window: 1 Hours, key_field: .app }\n' : ''}
destinations:
  out: { ${destination}, inputs: [${throttle ? 'limit' : 'large_a, large_b'}] }
  odd: { type: file, path: odd.ndjson, inputs: [even_a.discarded] }
${rest}`

interface Line {
  readonly file: string
  readonly n: number
}

function around(t: Test) {
  const folder = testFolder(t, { 'a.log': '', 'b.log': '' })
  const written = { a: 0, b: 0 }
  return {
    folder,
    /** Writes lines, half of which are odd. */
    write(file: 'a' | 'b', count: number) {
      let text = ''
      for (const end = written[file] + count; written[file] < end; written[file]++) {
        const n = written[file]
        text += `${JSON.stringify({ file, n, odd: n % 2 === 1, app: `app${n % 3}` })}\n`
      }
      appendFileSync(join(folder, `${file}.log`), text)
    },
    lines(name = 'out.ndjson'): Line[] {
      const path = join(folder, name)
      const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
      return text
        .slice(0, text.lastIndexOf('\n') + 1)
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line) as Line)
    },
  }
}

const numbersOf = (lines: readonly Line[], file: string) => lines.filter(one => one.file === file).map(({ n }) => n)
const evenUpTo = (n: number, from = 0) => Array.from({ length: n }, (_, i) => i).filter(i => i % 2 === 0 && i >= from)

async function reload(daemon: Daemon, text: string): Promise<void> {
  const [dataDir, metrics] = readFileSync(daemon.configPath, 'utf8').split('\n')
  const done = () => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length
  const before = done()
  writeFileSync(daemon.configPath, `${dataDir}\n${metrics}\n${text}`)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => done() > before)
}

t.test('chains on two threads: in order, counted, and with what filters discard', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, config())
  write('a', 5000)
  write('b', 3000)
  await eventually(() => lines().length === 4000 && lines('odd.ndjson').length === 2500)
  t.same(numbersOf(lines(), 'a'), evenUpTo(5000))
  t.same(numbersOf(lines(), 'b'), evenUpTo(3000))
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('out').sent === 4000)
  t.same(scrape.events('a'), { received: 5000, sent: 5000, discarded: 0, inFlight: 0 })
  t.same(scrape.events('even_b'), { received: 3000, sent: 1500, discarded: 1500, inFlight: 0 })
  t.same(scrape.events('odd'), { received: 2500, sent: 2500, discarded: 0, inFlight: 0 })
  const totals = await daemon.stop(t)
  t.match(totals, { received: 8000, passed: 4000, undelivered: 0 })
})

t.test('the limit of a throttle that both threads feed is exact', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, config({ throttle: true }))
  write('a', 2000)
  write('b', 2000)
  await daemon.scrapedUntil(scrape => scrape.events('limit').received === 2000)
  await eventually(() => lines().length === 300)
  await reload(daemon, config({ throttle: true, least: 1000 }))
  write('a', 1000)
  await daemon.scrapedUntil(scrape => scrape.events('limit').received === 2500)
  t.equal(lines().length, 300, 'its windows are handed over at a reload')
  t.match(await daemon.stop(t), { discarded: { limit: { throttled: 2200 } }, delivered: { out: 300 } })
})

t.test('a reload changes a filter on a thread while lines are written', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, config())
  for (let i = 0; i < 5; i++) {
    write('a', 500)
    write('b', 500)
    await reload(daemon, config({ least: -1 - i }))
  }
  write('a', 500)
  await eventually(() => numbersOf(lines(), 'a').at(-1) === 2998 && numbersOf(lines(), 'b').at(-1) === 2498)
  t.same(numbersOf(lines(), 'a'), evenUpTo(3000), 'nothing is lost, and nothing comes twice')
  t.same(numbersOf(lines(), 'b'), evenUpTo(2500))
  await reload(daemon, config().replace('workers: 2\n', ''))
  write('a', 500)
  await reload(daemon, config().replace('workers: 2', 'workers: 1'))
  write('a', 500)
  await reload(daemon, config().replace('even_a.discarded', 'even_b.discarded'))
  write('b', 500)
  await eventually(() => numbersOf(lines(), 'a').at(-1) === 3998 && numbersOf(lines(), 'b').at(-1) === 2998)
  t.same(numbersOf(lines(), 'a'), evenUpTo(4000), 'what runs on a thread moves to another one')
  t.same(numbersOf(lines(), 'b'), evenUpTo(3000))
  t.match(await daemon.stop(t), { received: 7000, passed: 3500 })
})

/** A daemon that has read so many lines of `a` and sends them to nobody. */
async function withoutReceiver(t: Test, count: number, timeout: string, options = 'batch: {}') {
  const { folder, write, lines } = around(t)
  const away = config({ destination: `type: http, url: 'http://127.0.0.1:1/', ${options}` })
  const daemon = await startDaemon(t, folder, `shutdown_timeout: ${timeout}\n${away}`)
  write('a', count)
  await daemon.scrapedUntil(scrape => scrape.events('out').received > 0)
  return { daemon, folder, write, lines }
}

t.test('a reload while the receiver is away gives back what is read again', async t => {
  const { daemon, write, lines } = await withoutReceiver(t, 400, '2s', 'batch: { max_events: 10 }')
  await reload(daemon, config())
  write('a', 400)
  await eventually(() => lines().length === 400)
  t.same(numbersOf(lines(), 'a'), evenUpTo(800))
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('a').received === 800)
  t.equal(scrape.events('a').inFlight, 0)
  t.match(await daemon.stop(t), { received: 800, undelivered: 0 })
})

t.test('after a kill nothing is missing', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, config())
  write('a', 20_000)
  write('b', 20_000)
  await eventually(() => lines().length > 100)
  daemon.child.kill('SIGKILL')
  await daemon.exit
  write('a', 1000)
  const next = await startDaemon(t, folder, config())
  await eventually(() => {
    const all = lines()
    return new Set(numbersOf(all, 'a')).size === 10_500 && new Set(numbersOf(all, 'b')).size === 10_000
  })
  await next.stop(t)
  const before = lines().length
  const last = await startDaemon(t, folder, config())
  write('b', 1000)
  await eventually(() => lines().length >= before + 500)
  t.match(await last.stop(t), { received: 1000 })
  t.equal(lines().length, before + 500, 'after an end in order nothing comes twice')
})

t.test('SIGTERM while the receiver takes nothing ends in time, and the lines come after the next start', async t => {
  const { daemon, folder, lines } = await withoutReceiver(t, 1000, '500ms')
  t.match(await daemon.stop(t), { received: 1000, undelivered: 500 })
  await startDaemon(t, folder, config())
  await eventually(() => lines().length === 500)
  t.same(numbersOf(lines(), 'a'), evenUpTo(1000))
})

t.test('outputs on a thread can be tapped, and the status shows its sources', async t => {
  const { folder, write } = around(t)
  const daemon = await startDaemon(t, folder, config())
  const socket = socketPath(join(folder, 'state'))
  const tap = sluice(['tap', 'even_b', '--limit', '3', '--socket', socket])
  const stop = setInterval(() => write('b', 2), 20)
  t.equal(await tap.exit, 0)
  clearInterval(stop)
  t.equal(
    tap.stdout
      .trimEnd()
      .split('\n')
      .filter(line => line.startsWith('{"file":"b"')).length,
    3,
  )
  const none = sluice(['tap', 'nothing', '--socket', socket])
  t.equal(await none.exit, 1)
  t.match(none.stderr, /there are a, b, even_a, even_a\.discarded, even_b, even_b\.discarded, large_a/)
  const status = sluice(['status', '--socket', socket])
  t.equal(await status.exit, 0, status.stdout)
  await daemon.stop(t)
})

const DYING = { NODE_OPTIONS: `--import ${new URL('../support/dying-processor.js', import.meta.url).href}` }

/** With a processor on the thread of `a` that can end it. */
const fatalConfig = () =>
  config()
    .replace('large_a: { type: filter, inputs: [even_a]', 'large_a: { type: filter, inputs: [fatal]')
    .replace('processors:', 'processors:\n  fatal: { type: dies, inputs: [even_a], marker: died }')

t.test('a thread that dies is started again, and nothing is missing', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, fatalConfig(), DYING)
  write('a', 1000)
  write('b', 1000)
  await eventually(() => lines().length === 1000)
  appendFileSync(join(folder, 'a.log'), '{"file":"a","n":1000,"die":true}\n')
  await daemon.until(() => daemon.stderr.includes('SLUICE_WORKER_ENDED'))
  t.match(
    daemon.logs().find(({ code }) => code === 'SLUICE_WORKER_ENDED'),
    { level: 50, worker: 'worker 1', sources: 'a', error: 'it failed: a thread fell' },
  )
  write('b', 1000)
  await eventually(() => numbersOf(lines(), 'b').length === 1000, 5000)
  const ids = await eventually(() => {
    const all = numbersOf(lines(), 'a')
    return all.includes(1000) && all
  })
  t.same([...new Set(ids)], [...evenUpTo(1000), 1000])
  t.same(numbersOf(lines(), 'b'), evenUpTo(2000), 'the other thread has nothing to do with it')
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('out').inFlight === 0)
  t.equal(scrape.sum('sluice_component_errors_total', { component_id: 'a', kind: 'worker' }), 1)
  await reload(daemon, config({ least: 1 }))
  write('a', 10)
  await eventually(() => numbersOf(lines(), 'a').includes(1008))
  await daemon.stop(t)
})

t.test('a thread that takes long to start again is waited for', async t => {
  const { folder, write, lines } = around(t)
  const slow = fatalConfig().replace('marker: died', 'marker: died, slow: go')
  const daemon = await startDaemon(t, folder, slow, DYING)
  const ended = () => daemon.logs().filter(({ code }) => code === 'SLUICE_WORKER_ENDED').length
  write('a', 100)
  await eventually(() => lines().length === 50)
  appendFileSync(join(folder, 'a.log'), '{"file":"a","n":100,"die":true}\n')
  await daemon.until(() => ended() === 1)
  // It is started again after a second at most, and asked for its counters every half second.
  await sleep(2200)
  writeFileSync(join(folder, 'go'), '')
  await eventually(() => numbersOf(lines(), 'a').includes(100))
  t.equal(ended(), 1)
  await daemon.stop(t)
})

t.test('a thread that never returns does not keep the daemon from ending, and nothing is missing', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, `shutdown_timeout: 300ms\n${fatalConfig()}`, DYING)
  write('a', 100)
  await eventually(() => lines().length === 50)
  appendFileSync(join(folder, 'a.log'), '{"file":"a","n":100,"die":"never"}\n')
  await eventually(() => existsSync(join(folder, 'died')))
  write('b', 100)
  await eventually(() => lines().length === 100)
  daemon.child.kill('SIGTERM')
  t.match(await daemon.ended(t), { delivered: { out: 100 } })
  t.match(
    daemon.logs().find(({ code }) => code === 'SLUICE_WORKER_ENDED'),
    { worker: 'worker 1', error: 'it did not end in time' },
  )
  await startDaemon(t, folder, config())
  await eventually(() => numbersOf(lines(), 'a').includes(100))
})

t.test('where a thread cannot run its part, the chains before it go on', async t => {
  const { folder, write, lines } = around(t)
  const daemon = await startDaemon(t, folder, config(), DYING)
  write('a', 100)
  write('b', 100)
  await eventually(() => lines().length === 100)
  const refused = fatalConfig().replace(
    'inputs: [even_a], marker: died',
    'inputs: [even_b], marker: died, refuses: true',
  )
  const [dataDir, metrics] = readFileSync(daemon.configPath, 'utf8').split('\n')
  writeFileSync(daemon.configPath, `${dataDir}\n${metrics}\n${refused.replace('[fatal]', '[even_a]')}`)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('SLUICE_RELOAD_FAILED'))
  t.match(
    daemon.logs().find(({ code }) => code === 'SLUICE_RELOAD_FAILED'),
    { error: 'worker 2 (b) cannot start: not on a thread' },
  )
  write('a', 100)
  write('b', 100)
  await eventually(() => lines().length === 200)
  t.same(numbersOf(lines(), 'a'), evenUpTo(200))
  t.same(numbersOf(lines(), 'b'), evenUpTo(200))
  t.match(await daemon.stop(t), { received: 400, undelivered: 0 })
})
