import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Status } from '../../src/core/status-document.js'
import { textOf } from '../../src/daemon/admin/ask-socket.js'
import { ask } from '../../src/daemon/admin/daemon-socket.js'
import { HOST } from '../support/address.js'
import { command } from '../support/cli.js'
import { receiver } from '../support/destination.js'
import { longTest } from '../support/long-test.js'
import { needs } from '../support/needs.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** A daemon in a folder of its own, and the commands that inspect it. */
async function started(t: Test, config: string, files: Readonly<Record<string, string>>) {
  // The path of a socket has to be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const write = (text: string) =>
    writeFileSync(join(folder, 'sluice.yaml'), `data_dir: ./state\nmetrics: false\n${text}`)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  write(config)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const said = (text: string) => daemon.until(() => daemon.stderr.includes(text))
  /** Appends lines until the command has ended. */
  const feed = async <T>(command: Promise<T>): Promise<T> => {
    const timer = setInterval(() => appendFileSync(join(folder, 'app.log'), '{"n":2}\n'), 50)
    return await command.finally(() => clearInterval(timer))
  }
  return {
    folder,
    write,
    daemon,
    said,
    feed,
    run: (...args: string[]) => command([...args, '--config', 'sluice.yaml'], { cwd: folder }),
  }
}

const refusing = `
sources: { app: { type: file, include: [./app.log] } }
processors: { fields: { type: parse, inputs: [app], codec: json, field: .message, on_error: dead_letter } }
`

t.test('status after a reload lists what runs, and says who could not take dead letters', async t => {
  const refuses = await receiver(t)
  refuses.otherwise = 400
  const out = `out: { type: http, inputs: [fields], url: '${refuses.url()}' }`
  const before = `
sources: { app: { type: file, include: [./app.log] }, spare: { type: file, include: [./app.log] } }
processors:
  fields: { type: parse, inputs: [app], codec: json, field: .message, on_error: dead_letter }
  lim: { type: throttle, inputs: [spare], limit: 1, window: 1h }
destinations: { ${out}, rest: { type: blackhole, inputs: [lim] } }
`
  const { write, daemon, said, run } = await started(t, before, { 'app.log': 'not JSON\n{"n":1}\n' })
  await said('the destination rejected events')
  t.match((await run('status')).stdout, /^lim \(throttle\)/m)
  write(`${refusing}destinations: { ${out} }`)
  daemon.child.kill('SIGHUP')
  await said('configuration reloaded')
  const { stdout } = await run('status')
  t.match(stdout, /! out: 1 event in the dead-letter queue[^!]+The destination rejected them\./)
  t.match(stdout, /! fields: 1 event in the dead-letter queue[^!]+They could not be processed\./)
  t.match(stdout, /^app \(file\) .*\nfields \(parse\) .*\nout \(http\)/m)
  const { stdout: top } = await run('top', '--count', '1', '--interval', '100ms')
  t.match(top, /^fields: processing_failed /m)
  t.notMatch(`${stdout}${top}`, /^(spare|lim|rest)\b/m, 'not what a reload has removed')
})

longTest('of several daemons on a machine, status and top show one and name the others', async t => {
  const config = 'sources: { s: { type: stdin } }\ndestinations: { d: { type: blackhole, inputs: [s] } }\n'
  const [one, two] = [await started(t, config, {}), await started(t, config, {})]
  const socket = ({ folder }: { folder: string }) => join(folder, 'state/sluice.sock')
  const colored = join(two.folder, '\x1b[31mred')
  mkdirSync(colored)
  const listener = createServer().listen(join(colored, 'sluice.sock'))
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  // Other tests may have daemons, too.
  const named = / (?:Another daemon runs|\d+ other daemons run) on this machine.*: sluice status --socket /
  const text = async (args: readonly string[], cwd = one.folder) => {
    const { stdout, stderr } = await command(args, { cwd })
    return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ')
  }
  const top = ['top', '--count', '1', '--interval', '100ms']
  for (const args of [['status'], top, ['tap', 'nothing']]) {
    const shown = ` ${await text(args)}`
    t.match(shown, named, args.join(' '))
    t.ok(shown.includes(socket(two)) && !shown.includes(socket(one)), shown)
    t.ok(shown.includes('\\u{1b}[31mred') && !shown.includes('\x1b'), 'names are safe for a terminal')
  }
  t.match(await text(['status', '--socket', socket(two)]), 'Nothing is wrong', 'as it says')
  for (const chosen of [
    ['--config', 'sluice.yaml'],
    ['--socket', socket(one)],
  ])
    t.notMatch(await text(['status', ...chosen]), 'on this machine', 'not where one was asked for')
  const none = await text(['status'], join(one.folder, 'state'))
  t.match(
    none,
    /no daemon found at the default paths .* Daemons run at .*: name one with --config FILE or --socket PATH/,
  )
  t.ok(none.includes(socket(one)) && none.includes(socket(two)), none)
  two.daemon.child.stdin!.end()
  t.equal(await two.daemon.exit, 0)
  t.notOk((await text(['status'])).includes(socket(two)), 'it has ended')
})

t.test('a file source without a file: the log says so once, and status for as long as it holds', async t => {
  const config = `
sources: { app: { type: file, include: [./log/*.log], exclude: ['*.gz'], scan_interval: 50ms } }
destinations: { out: { type: blackhole, inputs: [app] } }
`
  const { folder, daemon, said, run } = await started(t, config, {})
  const text = 'did not find any file to read; files created later are read from their beginning'
  await said(text)
  t.match(daemon.stderr, `"include":["./log/*.log"],"exclude":["*.gz"],"msg":"${text}"`)
  t.match((await run('status')).stdout, '! app: did not find any file to read')
  mkdirSync(join(folder, 'log'))
  writeFileSync(join(folder, 'log/app.log'), 'one\n')
  await until('a file', async () => (await run('status')).stdout.includes('1 file, 0B unread'))
  t.notMatch((await run('status')).stdout, 'did not find any file')
  t.equal(daemon.stderr.split('did not find any file').length, 2, 'once')
})

t.test('files that cannot be read: status names them, with the reason and what to do', async t => {
  const config = `
sources: { app: { type: file, include: [./log/*.log], scan_interval: 50ms } }
destinations: { out: { type: file, inputs: [app], path: ./out.log, encoding: raw } }
`
  const { folder, daemon, run } = await started(t, config, {})
  const path = (name: string) => join(folder, 'log', name)
  mkdirSync(join(folder, 'log'))
  const utf16 = Buffer.from('\ufeffsecret\r\n', 'utf16le')
  writeFileSync(path('wide.log'), utf16)
  writeFileSync(path('swapped.log'), Buffer.from(utf16).swap16())
  for (let n = 0; n < 4; n++) symlinkSync(`loop${n}.log`, path(`loop${n}.log`))
  const problem = async () => (JSON.parse((await run('status', '--json')).stdout) as Status).problems[0]
  const shown = await until('all of them', async () => {
    const one = await problem()
    return one?.what === 'app: 6 files cannot be read' && one
  })
  t.match(shown.detail, /loop\d\.log \(ELOOP\).* and 1 other file\.$/)
  t.match(shown, { detail: /(wide|swapped)\.log \(UTF-16\)/, todo: /iconv -f UTF-16 -t UTF-8/ })
  // A rotation of a refused file, and a truncation of another one.
  appendFileSync(path('wide.log'), utf16)
  renameSync(path('wide.log'), path('wide.log.1'))
  writeFileSync(path('wide.log'), 'one\n')
  writeFileSync(path('swapped.log'), 'two\n')
  for (let n = 0; n < 4; n++) rmSync(path(`loop${n}.log`))
  const lines = () => readFileSync(join(folder, 'out.log'), 'utf8').split('\n').filter(Boolean).sort()
  await until('both lines', () => existsSync(join(folder, 'out.log')) && lines().length >= 2)
  await until('nothing to be wrong', async () => (await problem()) === undefined)
  t.same(lines(), ['one', 'two'])
  t.equal(daemon.stderr.split('"cause":"UTF-16"').length, 3, 'once for each file')
  t.notMatch(daemon.stderr, /SLUICE_FILE_VANISHED|SLUICE_FILE_TRUNCATED/)
})

longTest('a destination on hold is a problem, and not the bottleneck as well', async t => {
  const refuses = await receiver(t)
  refuses.otherwise = 401
  const config = `
sources: { app: { type: file, include: [./app.log] } }
destinations: { out: { type: http, inputs: [app], url: '${refuses.url()}', max_in_flight: 1 } }
`
  const { said, run } = await started(t, config, { 'app.log': 'one\n' })
  await said('the destination is paused')
  const seen = await until('a destination that was busy most of the time', async () => {
    const status = JSON.parse((await run('status', '--json')).stdout) as Status
    return (status.components.find(({ id }) => id === 'out')!.utilization ?? 0) > 0.6 && status
  })
  t.match(seen, { problems: [{ what: /^out is holding: 401/ }], bottleneck: undefined })
  for (const args of [['status'], ['top', '--count', '1', '--interval', '100ms']]) {
    const { stdout } = await run(...args)
    t.match(stdout, /! out is holding: 401/, args.join(' '))
    t.notMatch(stdout, 'bottleneck', args.join(' '))
  }
})

t.test('a configuration that has become wrong: status, top and tap show the daemon, and the mistake', async t => {
  const config = `${refusing}destinations: { out: { type: blackhole, inputs: [fields] } }\n`
  const { write, run, feed } = await started(t, config, { 'app.log': '{"n":1}\n' })
  for (const [wrong, mistake] of [
    ['nonsense: [', /sluice\.yaml:\d+:11: the bracket that opens here is not closed/],
    ['shutdown_timeout: soon', /sluice\.yaml:\d+:19: shutdown_timeout: /],
  ] as const) {
    write(`${config}${wrong}\n`)
    const status = await run('status')
    t.equal(status.code, 1, 'the mistake is a problem')
    t.match(status.stdout.replaceAll(/\s+/g, ' '), mistake)
    t.match(status.stdout, /^out \(blackhole\) /m)
    t.match(status.stdout, /^ {4}sluice validate sluice\.yaml$/m)
    t.match(JSON.parse((await run('status', '--json')).stdout), { ready: true, problems: [{ what: mistake }] })
    const top = await run('top', '--count', '1', '--interval', '100ms')
    t.equal(top.code, 0)
    t.match(top.stdout, /^out /m)
    t.match(top.stdout.replaceAll(/\s+/g, ' '), mistake)
    const tapping = run('tap', 'app', '--limit', '1')
    const tap = await feed(tapping)
    t.match(tap, { code: 0, stdout: /"message"/, stderr: mistake })
    const listed = await run('tap')
    t.match(listed, { code: 2, stderr: mistake })
    t.match(listed.stderr, /^ {2}out +destination \(blackhole\)$/m)
  }
  write(`${config.replace('blackhole', 'blackhol')}`)
  t.match(await run('tap'), { code: 2, stderr: /blackhol\b/ })
  t.match((await run('tap')).stderr, /^ {2}out +destination \(blackhole\)$/m)
  t.match((await run('status')).stdout, 'Nothing is wrong', 'only what the search for the daemon has read')
})

t.test('without a descriptor for /proc, status has no number of memory', async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const text = 'sources: { s: { type: stdin } }\ndestinations: { d: { type: blackhole, inputs: [s] } }\n'
  const { run, daemon } = await started(t, text, {})
  // It loads what it needs for the answer.
  t.match((await run('status')).stdout, /^Sluice .*, up .*, [1-9].*B of memory, ready$/m)
  const answer = await until('an answer without the number', async () => {
    const open = new Set(readdirSync(`/proc/${daemon.pid}/fd`).map(Number))
    // The connection of the command gets the last one.
    let limit = 0
    while (open.has(limit)) limit++
    execFileSync(prlimit, ['--pid', String(daemon.pid), `--nofile=${limit + 1}:`])
    const { stdout } = await run('status')
    return stdout.includes('B of memory') ? undefined : stdout || undefined
  })
  t.match(answer, /^Sluice .*, up \d+ \w+, ready$/m)
})

t.test('without its daemon, a wrong configuration is the only thing to say', async t => {
  const { write, run, daemon } = await started(
    t,
    'sources: { s: { type: stdin } }\ndestinations: { d: { type: blackhole, inputs: [s] } }\n',
    {},
  )
  daemon.child.stdin!.end()
  t.equal(await daemon.exit, 0)
  write('nonsense: [')
  for (const name of ['status', 'top', 'tap']) t.match(await run(name), { code: 78, stderr: /is not closed/ }, name)
})

longTest('max_in_flight: auto follows what a receiver takes, loses nothing, and is shown', async t => {
  const takes = await receiver(t)
  let [capacity, busy, refused, accepted] = [2, 0, 0, 0]
  takes.otherwise = () => {
    if (busy >= capacity) {
      refused++
      return 429
    }
    busy++
    const ended = () => {
      busy--
      accepted++
    }
    return { wait: sleep(20).then(ended) }
  }
  const config = `
sources: { app: { type: file, include: [./app.log], decode: text } }
destinations:
  out:
    type: http
    inputs: [app]
    url: '${takes.url()}'
    encoding: raw
    batch: { max_events: 2 }
    retry: { initial: 50ms, max: 100ms }
`
  const { folder, run, daemon } = await started(t, config, { 'app.log': '' })
  const lines: string[] = []
  let n = 0
  /** The number of requests that it allows while there are always more events. */
  const allowedNow = async () => {
    const more = Array.from({ length: Math.max(0, 1000 + 2 * accepted - lines.length) }, () => `line ${n++}`)
    appendFileSync(join(folder, 'app.log'), more.map(line => `${line}\n`).join(''))
    lines.push(...more)
    return allowed(await view())
  }
  const view = async () => JSON.parse((await run('status', '--json')).stdout) as Status
  const allowed = ({ destinations }: Status) => destinations[0]!.requests!.allowed
  await until('as many as it takes', async () => (await allowedNow()) <= 2 && refused > 0)
  capacity = 12
  await until('more', async () => (await allowedNow()) > 6)
  const out = ({ components }: Status) => components.find(({ id }) => id === 'out')!
  await until('all lines', async () => out(await view()).sent === lines.length)
  const seen = await view()
  const metrics = await textOf(await ask(join(folder, 'state/sluice.sock'), '/metrics'))
  t.match(metrics, new RegExp(`^sluice_delivery_max_in_flight{.*component_id="out".*} ${allowed(seen)}$`, 'm'))
  t.match((await run('status')).stdout, /^Requests in flight: out 0 of \d+ \(max_in_flight: auto\)$/m)
  t.same(new Set(takes.lines()), new Set(lines))
  t.match(out(seen), { received: lines.length, in_flight: 0 })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.equal(takes.lines().length, lines.length, 'each line once')
})

t.test('status warns while most events of a key are late, because their clock was set back', async t => {
  const now = Date.now()
  const line = (app: string, hoursAgo: number, n: number) =>
    `${JSON.stringify({ app, t: new Date(now - hoursAgo * 3_600_000 + n * 1000).toISOString() })}\n`
  const lines = (of: (n: number) => string) => Array.from({ length: 600 }, (_, n) => of(n)).join('')
  const config = `
sources: { app: { type: file, include: [./app.log], decode: json } }
processors: { lim: { type: throttle, inputs: [app], limit: 10, window: 1 Minutes, key_field: .app, time_field: .t } }
destinations: { out: { type: blackhole, inputs: [lim] } }
`
  // The clock of b is right, in the same file.
  const log = lines(n => line('a', 5, n) + line('b', 4, n)) + lines(n => line('a', 6, n) + line('b', 3, n))
  const { folder, daemon, said, run } = await started(t, config, { 'app.log': log })
  await said('SLUICE_EVENTS_LATE')
  const warning = /"code":"SLUICE_EVENTS_LATE","bucket":"a".*pass without a limit: their times went back/
  t.match(daemon.stderr, warning)
  const problem =
    /! lim: most events of 1 key are late\n[^!]+with\s+discard,\s+they\s+are\s+discarded[^!]+allowed_lateness/
  const { stdout } = await run('status')
  t.match(stdout, problem)
  t.match(JSON.parse((await run('status', '--json')).stdout).problems, [{ component: 'lim', what: /1 key/ }])
  appendFileSync(
    join(folder, 'app.log'),
    lines(n => line('a', 2, n)),
  )
  await until('the clock is right again', async () => !problem.test((await run('status')).stdout))
  t.equal(daemon.stderr.match(/SLUICE_EVENTS_LATE/g)?.length, 1, 'logged once')
})

t.test('status warns if most events are ahead of the clock; they do not make others late', async t => {
  const line = (app: string, ms: number) => `${JSON.stringify({ app, t: Date.now() + ms })}\n`
  const config = `
sources: { app: { type: file, include: [./app.log], decode: json } }
processors: { lim: { type: throttle, inputs: [app], limit: 10, window: 1 Hours, time_field: .t } }
destinations: { out: { type: blackhole, inputs: [lim] } }
`
  const log = (line('ahead', 3_600_000).repeat(2) + line('right', -1000)).repeat(50)
  const { run } = await started(t, config, { 'app.log': log })
  const { stdout } = await until('all are read', async () => {
    const status = await run('status')
    return status.stdout.includes('its 150 events') && status
  })
  t.match(stdout, /! lim: the times of 100 of its 150 events are ahead of the clock[^!]+Correct the clock/)
  t.notMatch(stdout, /are late/)
})

t.test('a dead destination holds up its siblings: for whom they wait, since when, and what to type', async t => {
  const dead = createServer().listen(0, HOST)
  await once(dead, 'listening')
  const { port } = dead.address() as AddressInfo
  dead.close()
  const events = 200_000
  const lines = Array.from({ length: events }, (_, n) => `{"n":${n},"text":"${'a'.repeat(80)}"}\n`).join('')
  const config = (buffer: string) => `
sources: { app: { type: file, include: [./app.log] } }
destinations:
  good: { type: file, inputs: [app], path: ./good.log }
  bad: { type: http, inputs: [app], url: 'http://${HOST}:${port}', ${buffer} }
`
  const { folder, write, daemon, run } = await started(t, config(''), { 'app.log': lines })
  const delivered = () => readFileSync(join(folder, 'good.log'), 'latin1').split('\n').length - 1
  const document = async (): Promise<Status> => JSON.parse((await run('status', '--json')).stdout)
  const waits = await until('both wait', async () => {
    const { waiting_for: waits } = await document()
    return waits.length === 2 && waits
  })
  t.match(waits, [
    { id: 'app', for: ['bad'], since: /^\d{4}-.*Z$/ },
    { id: 'good', for: ['bad'], since: /^\d{4}-.*Z$/ },
  ])
  t.ok(delivered() < events, `${delivered()} of ${events}`)
  const { stdout } = await run('status')
  t.match(stdout, /^! app and good wait for bad\n {2}Since \d\d:\d\d:\d\d\.\n {2}Correct the cause, or give/m)
  t.match(stdout, /No events are lost, as long as their\s+sources keep them\./)
  const metrics = await textOf(await ask(join(folder, 'state/sluice.sock'), '/metrics'))
  const series = metrics.split('\n').filter(line => line.startsWith('sluice_component_waiting_for{'))
  t.same(series.sort(), [
    'sluice_component_waiting_for{component_id="app",for="bad"} 1',
    'sluice_component_waiting_for{component_id="good",for="bad"} 1',
  ])
  const todo = (await document()).problems.find(({ what }) => what === 'app and good wait for bad')!.todo
  const advised = todo.match(/buffer: \{.*?\}/g)!
  t.same(advised, ['buffer: { type: disk }', 'buffer: { type: disk, when_full: drop_newest }'])
  for (const option of advised.toReversed()) {
    write(config(option))
    t.equal((await run('validate')).code, 0, option)
  }
  daemon.child.kill('SIGHUP')
  await until('all events', () => delivered() >= events)
  await until('nobody waits', async () => (await document()).waiting_for.length === 0)
  await daemon.until(() => daemon.stderr.split('no longer waiting').length === 3)
  t.equal(daemon.stderr.split('waiting for components').length, 3, 'once for each')
})

/** With each state on one line. */
const unwrapped = (text: string) => text.replaceAll(/\n {20,}/g, ' ')

t.test('a receiver does not answer: every view says who waits for whom', async t => {
  const silent = createServer().listen(0, HOST)
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const lines = Array.from({ length: 60_000 }, (_, n) => `{"n":${n},"text":"${'a'.repeat(80)}"}\n`).join('')
  const { run } = await started(
    t,
    `
sources: { app: { type: file, include: [./app.log], decode: json } }
processors:
  lim: { type: throttle, inputs: [app], limit: 1000000, window: 1h }
  rest: { type: filter, inputs: [lim], condition: 'if (.n greater 0)' }
destinations:
  up: { type: http, inputs: [lim], url: 'http://${HOST}:${(silent.address() as AddressInfo).port}' }
  copy: { type: file, inputs: [rest], path: ./copy.log }
`,
    { 'app.log': lines },
  )
  const status = await until('all wait', async () => {
    const stdout = unwrapped((await run('status')).stdout)
    return /^up .*no answer for/m.test(stdout) && /^copy.*waits for up/m.test(stdout) && stdout
  })
  t.match(
    status,
    /^! app, lim, rest, and copy wait for up\n {2}Since [\d:]+\. up has waited for an answer since [\d:]+\.$/m,
  )
  t.notMatch(status, /bottleneck/)
  for (const text of [status, unwrapped((await run('top', '--count', '1', '--interval', '100ms')).stdout)]) {
    t.match(text, /^up .* ready, blocks 4 components, no answer for \d+s$/m)
    t.match(text, /^app.* waits for up, /m)
  }
  const drawn = async (format: string) => (await run('graph', '--live', '--format', format)).stdout
  t.match(await drawn('text'), /^app \(file\) {2}0\/s out; waits for up, .*\n└─ lim \(throttle\) .*; waits for up, /)
  const red = [...(await drawn('dot')).matchAll(/^ {2}(".+") \[.*color=red/gm)].map(([, what]) => what)
  t.same(red, ['"up"', '"app" -> "lim"', '"lim" -> "up"'], 'not what only gets nothing')
  t.match(await drawn('mermaid'), /\n {2}style up stroke:#d00.*\n {2}linkStyle 0,2 stroke:#d00/)
})
