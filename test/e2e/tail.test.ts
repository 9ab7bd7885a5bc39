import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { type Receiver, startReceiver } from '../support/receiver.js'
import { seeded } from '../support/seeded.js'
import { until } from '../support/until.js'

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** Files like those that real programs write, and worse. */
const FILES: Record<string, Buffer> = {
  windows: Buffer.from('2026-01-01 CBS starting\r\n2026-01-01 CBS done\r\n\r\nlast without an end'),
  syslog: Buffer.from(
    Array.from({ length: 3000 }, (_, i) => `Jan  1 00:${i % 60}:00 combo sshd[${i}]: check pass; user ünknown\n`).join(
      '',
    ),
  ),
  empty_lines: Buffer.from('\n\n\r\n\none\n\n'),
  zeros: Buffer.concat([Buffer.from('before\n'), Buffer.alloc(5000), Buffer.from('\nafter\0\n')]),
  latin: Buffer.from('caf\xe9 \xff\xfe\n\xc3\n\xe2\x82\n\xf0\x9f\x98', 'latin1'),
  long: Buffer.concat([
    Buffer.from('short\n'),
    Buffer.alloc(2_500_000, 'é'),
    Buffer.from('\nshort again\n'),
    Buffer.alloc(1_048_577, 'x'),
  ]),
  only_cr: Buffer.from('a\rb\r\r\nc\r'),
  nothing: Buffer.alloc(0),
}

t.test('whatever is in a file comes out byte for byte, at once or in portions', async t => {
  const folder = testFolder(t)
  const names = Object.keys(FILES)
  const sources = names.flatMap(name => [
    `  ${name}: { type: file, include: [${name}.log], partial_line_timeout: 5m, follow: false }`,
    `  ${name}_portions: { type: file, include: [${name}.portions], partial_line_timeout: 20ms }`,
  ])
  const destinations = names.flatMap(name => [
    `  out_${name}: { type: file, inputs: [${name}], encoding: raw, path: ${name}.out }`,
    `  out_${name}_portions: { type: file, inputs: [${name}_portions], path: ${name}.portions.out }`,
  ])
  for (const [name, bytes] of Object.entries(FILES)) {
    writeFileSync(join(folder, `${name}.log`), bytes)
    writeFileSync(join(folder, `${name}.portions`), '')
  }
  const daemon = await startDaemon(
    t,
    folder,
    `sources:\n${sources.join('\n')}\ndestinations:\n${destinations.join('\n')}\n`,
  )
  const random = seeded(7)
  for (const [name, bytes] of Object.entries(FILES)) {
    for (let at = 0; at < bytes.length; ) {
      const size = 1 + Math.floor(random() * Math.max(8, bytes.length / 6))
      appendFileSync(join(folder, `${name}.portions`), bytes.subarray(at, at + size))
      at += size
      await pause(10)
    }
  }
  // Unfinished lines are cut meanwhile.
  await pause(100)
  for (const name of names) appendFileSync(join(folder, `${name}.portions`), '\n')
  const total = 2 * Object.values(FILES).reduce((sum, { length }) => sum + length, 0) + names.length
  await daemon.scrapedUntil(
    scrape => scrape.sum('sluice_component_sent_bytes_total', { component_kind: 'destination' }) >= total,
  )
  t.match(await daemon.stop(t), { discarded: {}, undelivered: 0 })
  for (const [name, bytes] of Object.entries(FILES)) {
    for (const [out, all] of [
      [`${name}.out`, bytes],
      [`${name}.portions.out`, Buffer.concat([bytes, Buffer.from('\n')])],
    ] as const)
      t.ok(readFileSync(join(folder, out)).equals(all), `${out} is what was in ${name}`)
  }
})

/** Writes numbered lines, a few each time, for as long as it is told to. */
class Writer {
  written = 0
  readonly #path: string

  constructor(path: string) {
    this.#path = path
    writeFileSync(path, '')
  }

  lines(n: number): void {
    let text = ''
    for (const end = this.written + n; this.written < end; this.written++) text += lineOf(this.written)
    appendFileSync(this.#path, text)
  }

  async steadily(ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end; await pause(2)) this.lines(7)
  }
}

function lineOf(i: number): string {
  return `${String(i).padStart(8, '0')} ${'something happened '.repeat(1 + (i % 5))}end\n`
}

/** How often each line was delivered; and what is there that is no line, or only a part of one. */
function deliveries(path: string): { counts: Map<number, number>; strange: string[] } {
  const counts = new Map<number, number>()
  const strange: string[] = []
  if (!existsSync(path)) return { counts, strange }
  for (const line of readFileSync(path, 'utf8').split('\n').slice(0, -1)) {
    const i = Number(line.slice(0, 8))
    if (`${line}\n` === lineOf(i)) counts.set(i, (counts.get(i) ?? 0) + 1)
    else strange.push(line)
  }
  return { counts, strange }
}

async function deliveredAll(daemon: Daemon, lines: number, path: string): Promise<void> {
  const all = () => deliveries(path).counts.size >= lines
  await until(`${lines} lines`, all, { every: 50, show: () => daemon.stderr })
}

t.test('rotation by renaming, and by copying and truncating, while lines are written', async t => {
  const folder = testFolder(t)
  const path = join(folder, 'app.log')
  const out = join(folder, 'out.log')
  const writer = new Writer(path)
  const config = `
sources: { log: { type: file, include: [app.log] } }
destinations: { copy: { type: file, inputs: [log], path: out.log } }
`
  const daemon = await startDaemon(t, folder, config)
  // A file that is renamed before the first search is never found.
  writer.lines(1)
  await deliveredAll(daemon, writer.written, out)
  for (let i = 0; i < 3; i++) {
    await writer.steadily(150)
    renameSync(path, `${path}.${i}`)
    if (i === 1) {
      // The program goes on for a while with the file that it has open, as programs do until they are told.
      appendFileSync(`${path}.${i}`, lineOf(writer.written++))
      await pause(30)
      appendFileSync(`${path}.${i}`, lineOf(writer.written++))
    }
    writeFileSync(path, '')
    await writer.steadily(100)
  }
  for (let i = 0; i < 3; i++) {
    // What is written and truncated before anybody could read it is gone: nobody writes for a moment.
    await deliveredAll(daemon, writer.written, out)
    copyFileSync(path, `${path}.copy.${i}`)
    const { written } = writer
    truncateSync(path)
    // Once with more than there was before, so that the size does not tell of it.
    writer.lines(i === 2 ? written : 1)
    await writer.steadily(150)
  }
  await deliveredAll(daemon, writer.written, out)
  t.match(await daemon.stop(t), { received: writer.written, passed: writer.written, discarded: {}, undelivered: 0 })
  const { counts, strange } = deliveries(out)
  t.same(strange, [], 'whole lines only')
  t.equal(counts.size, writer.written, 'every line')
  t.same([...counts].filter(([, count]) => count !== 1).slice(0, 5), [], 'each of them once')
})

const SECONDS = 600
const LIMIT = 5

/** Lines of the last ten minutes, `LIMIT` a second of each app in both files together: never more. */
function backlog(now: number): { readonly dense: string[]; readonly sparse: string[] } {
  const line = (file: string, n: number, app: string, ms: number) =>
    JSON.stringify({ ts: new Date(now - SECONDS * 1000 + ms).toISOString(), app, file, n })
  const dense = Array.from({ length: SECONDS * 4 * 3 }, (_, n) =>
    line('dense', n, `app-${n % 3}`, Math.floor(n / 3) * 250),
  )
  const sparse = Array.from({ length: SECONDS }, (_, n) => line('sparse', n, 'app-0', n * 1000 + 100))
  return { dense, sparse }
}

t.test('a backlog within the limit passes a throttle in event time, and one on the clock discards it', async t => {
  const folder = testFolder(t, { logs: {} })
  const port = await ownPort()
  const url = `http://${HOST}:${port}`
  const limit = `type: throttle, inputs: [logs], limit: ${LIMIT}, window: 1 Seconds, key_field: .app`
  const delivery = 'retry: { initial: 50ms, max: 200ms }, batch: { max_wait: 20ms }'
  const config = `
sources: { logs: { type: file, include: [logs/*.log], decode: json } }
processors:
  event_time: { ${limit}, time_field: .ts }
  clock: { ${limit} }
destinations:
  by_event_time: { type: http, inputs: [event_time], url: "${url}/event-time", ${delivery} }
  by_clock: { type: http, inputs: [clock], url: "${url}/clock", ${delivery} }
`
  const daemon = await startDaemon(t, folder, config)
  // Nobody listens while ten minutes are written, and afterwards all of it is to be delivered at once.
  const written = backlog(Date.now())
  appendFileSync(join(folder, 'logs/dense.log'), `${written.dense.join('\n')}\n`)
  appendFileSync(join(folder, 'logs/sparse.log'), `${written.sparse.join('\n')}\n`)
  const lines = [...written.dense, ...written.sparse]
  await daemon.scrapedUntil(
    scrape => scrape.sum('sluice_component_in_flight_events', { component_id: 'by_event_time' }) > 0,
  )
  const receiver: Receiver = await startReceiver({ port })
  t.teardown(() => receiver.close())
  const decided = (decision: string, component_id: string, scrape: Awaited<ReturnType<typeof daemon.scrape>>) =>
    scrape.sum('sluice_throttle_events_total', { component_id, decision })
  /** What is counted when all lines have gone as far as they go. */
  const settled = (events: number) =>
    daemon.scrapedUntil(scrape =>
      ['event_time', 'clock'].every(id => {
        const [{ sent, discarded }, destination] = [scrape.events(id), scrape.events(`by_${id}`)]
        return sent + discarded === events && destination.sent === sent
      }),
    )
  const scrape = await settled(lines.length)
  scrape.conserves(t)
  const delivered = (path: string) =>
    receiver.requests
      .filter(({ path: to, status }) => to === path && status === 200)
      .flatMap(({ body }) => body.split('\n').filter(Boolean))
  t.equal(scrape.events('event_time').discarded, 0, 'in event time nothing is discarded')
  for (const decision of ['late', 'fail_open', 'discarded'])
    t.equal(decided(decision, 'event_time', scrape), 0, decision)
  t.equal(scrape.sum('sluice_throttle_untimed_events_total'), 0)
  t.same(delivered('/event-time').sort(), [...lines].sort(), 'all of it arrives')
  const clock = scrape.events('clock')
  t.ok(clock.discarded > lines.length / 2, `on the clock most is: ${clock.discarded} of ${lines.length}`)
  t.equal(delivered('/clock').length, lines.length - clock.discarded)

  // The limit holds all the same, for what is written now.
  const ts = new Date().toISOString()
  const burst = Array.from({ length: 4 * LIMIT }, (_, n) => JSON.stringify({ ts, app: 'app-9', n }))
  appendFileSync(join(folder, 'logs/dense.log'), `${burst.join('\n')}\n`)
  const after = await settled(lines.length + burst.length)
  t.equal(decided('discarded', 'event_time', after), 3 * LIMIT)
  t.same(delivered('/event-time').slice(lines.length), burst.slice(0, LIMIT))
  const totals = await daemon.stop(t)
  t.equal(totals.undelivered, 0)
})

t.test('state and logs that were copied to another place are read on, and the log says so', async t => {
  const folder = testFolder(t, { logs: {} })
  const lines = (name: string) => Array.from({ length: 50 }, (_, i) => `${name} ${i} ${Math.sin(i + 1)}\n`).join('')
  for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, 'logs', `${name}.log`), lines(name))
  const config = `sources: { app: { type: file, include: [logs/*.log] } }
destinations: { out: { type: file, inputs: [app], encoding: raw, path: out.txt } }
`
  const out = () => readFileSync(join(folder, 'out.txt'), 'utf8').split('\n').filter(Boolean)
  const first = await startDaemon(t, folder, config)
  await until('150 lines', () => existsSync(join(folder, 'out.txt')) && out().length >= 150)
  await first.stop(t)
  for (const name of ['state', 'logs']) {
    cpSync(join(folder, name), join(folder, 'copy'), { recursive: true, preserveTimestamps: true })
    rmSync(join(folder, name), { recursive: true })
    renameSync(join(folder, 'copy'), join(folder, name))
  }
  appendFileSync(join(folder, 'logs', 'b.log'), 'after\n')
  const second = await startDaemon(t, folder, config)
  await until('the new line', () => out().includes('after'))
  await second.stop(t)
  t.equal(out().length, 151)
  t.match(
    second.logs().filter(({ continued }) => continued !== undefined),
    [{ continued: 3, read_again: 0 }],
  )
})
