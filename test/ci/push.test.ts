import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

const linesOf = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : [])
const eventsOf = (path: string) => linesOf(path).map(line => JSON.parse(line) as Record<string, unknown>)

/** The port that a source listens on. */
async function portOf(daemon: Daemon, component: string): Promise<string> {
  const address = () => daemon.logs().find(log => log.msg === 'listening' && log.component === component)?.address
  return String(await until(`the address of ${component}`, address))
    .split(':')
    .pop()!
}

t.test('logger sends syslog over TCP, as it is asked to', async t => {
  const logger = needs(t, 'logger')
  if (!logger) return
  const folder = testFolder(t)
  const config = `
sources: { syslog: { type: tcp, listen: 127.0.0.1:0, decode: syslog } }
destinations: { out: { type: file, inputs: [syslog], path: out.ndjson, encoding: json } }
`
  const daemon = await startDaemon(t, folder, config)
  const port = await portOf(daemon, 'syslog')
  const out = join(folder, 'out.ndjson')
  const cases: [args: string[], fields: Record<string, unknown>][] = [
    [
      ['--rfc3164', '-t', 'app', '--id=77', '-p', 'auth.warning'],
      { app: 'app', pid: '77', facility: 'auth', severity: 'warning' },
    ],
    [
      ['--rfc3164', '-t', 'app', '--octet-count'],
      { app: 'app', facility: 'user', severity: 'notice', severity_code: 5 },
    ],
    [
      ['--rfc5424', '-t', 'app', '--id=78', '--msgid', 'ID', '--sd-id', 'a@1', '--sd-param', 'b="c\\"d"'],
      { app: 'app', pid: '78', msgid: 'ID', structured_data: { 'a@1': { b: 'c"d' } } },
    ],
    [
      ['--rfc5424=notime,nohost', '--octet-count', '-t', 'app', '-p', 'local7.debug'],
      { app: 'app', facility: 'local7', severity: 'debug', host: '127.0.0.1' },
    ],
  ]
  for (const [n, [args, fields]] of cases.entries()) {
    const message = `message ${n}: é "quoted" [x]`
    const before = Math.floor(Date.now() / 1000) * 1000
    execFileSync(logger, ['--tcp', '-n', '127.0.0.1', '-P', port, ...args, '--', message])
    await until('the message', () => linesOf(out).length === n + 1)
    const event = eventsOf(out)[n]!
    t.match(event, { message, peer: '127.0.0.1', ...fields }, args.join(' '))
    const time = Date.parse(String(event.timestamp))
    t.ok(time >= before && time <= Date.now() + 1, `the time it was sent at: ${event.timestamp}`)
  }
  execFileSync(logger, ['--tcp', '-n', '127.0.0.1', '-P', port, '--octet-count', '-e'], {
    input: 'one\ntwo\n\nthree\n',
  })
  await until('the last messages', () => linesOf(out).length === cases.length + 3)
  t.same(
    eventsOf(out)
      .slice(-3)
      .map(({ message }) => message),
    ['one', 'two', 'three'],
  )
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('out').sent === cases.length + 3)
  t.equal(scrape.sum('sluice_not_syslog_lines_total') + scrape.sum('sluice_framing_errors_total'), 0)
  await daemon.stop(t)
})

t.test('rsyslog forwards in its formats, through an outage and a restart: nothing is lost', async t => {
  const [rsyslogd, logger] = [needs(t, 'rsyslogd'), needs(t, 'logger')]
  if (!rsyslogd || !logger) return
  const folder = testFolder(t)
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const formats = {
    traditional: { template: 'RSYSLOG_TraditionalForwardFormat', framing: 'traditional' },
    forward: { template: 'RSYSLOG_ForwardFormat', framing: 'octet-counted' },
    protocol23: { template: 'RSYSLOG_SyslogProtocol23Format', framing: 'traditional' },
    counted23: { template: 'RSYSLOG_SyslogProtocol23Format', framing: 'octet-counted' },
  }
  const names = Object.keys(formats)
  const ports = Object.fromEntries(await Promise.all(names.map(async name => [name, await ownPort()] as const)))
  const run = async () => {
    const daemon = await startDaemon(
      t,
      folder,
      `
sources:
${names.map(name => `  ${name}: { type: tcp, listen: ${HOST}:${ports[name]}, decode: syslog }`).join('\n')}
destinations:
${names.map(name => `  to_${name}: { type: http, inputs: [${name}], url: "${receiver.url(`/${name}`)}", batch: { max_wait: 20ms }, retry: { initial: 100ms, max: 200ms }, max_in_flight: 1 }`).join('\n')}
`,
    )
    for (const name of names) await portOf(daemon, name)
    return daemon
  }
  let daemon = await run()
  const actions = Object.entries(formats).map(
    ([name, { template, framing }]) =>
      `action(type="omfwd" protocol="tcp" target="${HOST}" port="${ports[name]}" template="${template}" TCP_Framing="${framing}" action.resumeInterval="1" action.resumeRetryCount="-1" queue.type="LinkedList" queue.size="100000" queue.timeoutEnqueue="10000")`,
  )
  // The path of a socket must be short.
  const spool = mkdtempSync(join(tmpdir(), 'push-'))
  t.teardown(() => rmSync(spool, { recursive: true }))
  const socket = join(spool, 'log')
  writeFileSync(
    join(folder, 'rsyslog.conf'),
    [
      `global(workDirectory="${spool}")`,
      `module(load="imuxsock" SysSock.Use="off")`,
      `input(type="imuxsock" Socket="${socket}" RateLimit.Interval="0" UseSysTimeStamp="off")`,
      ...actions,
      '',
    ].join('\n'),
  )
  const rsyslog = spawn(rsyslogd, ['-n', '-iNONE', '-f', join(folder, 'rsyslog.conf')], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [rsyslog.stdout, rsyslog.stderr]) stream.on('data', part => (said += part))
  const ended = once(rsyslog, 'close')
  t.teardown(async () => {
    rsyslog.kill('SIGKILL')
    await ended
  })
  await until('rsyslog to listen', () => existsSync(socket) || rsyslog.exitCode !== null)
  t.equal(rsyslog.exitCode, null, said)
  let sent = 0
  const send = async (count: number) => {
    const args = ['--socket', socket, '--socket-errors=on', '-t', 'the-app', '--id=4711', '-p', 'mail.err']
    const child = spawn(logger, args, { stdio: ['pipe', 'inherit', 'inherit'] })
    child.stdin.end(Array.from({ length: count }, () => `message ${sent++} is "quoted" \\ ü\n`).join(''))
    const [code] = await once(child, 'close')
    if (code !== 0) t.fail(`logger ended with ${code}`)
  }
  /** What the receiver took of each, in order: the events, and the numbers of the messages. */
  const taken = Object.fromEntries(names.map(name => [name, [] as Record<string, unknown>[]]))
  const numbers = Object.fromEntries(names.map(name => [name, [] as number[]]))
  const different = Object.fromEntries(names.map(name => [name, new Set<number>()]))
  let looked = 0
  let all = 0
  const look = () => {
    while (receiver.requests[looked]?.status !== undefined) {
      const { path, status, body } = receiver.requests[looked++]!
      if (status !== 200) continue
      const name = path.slice(1)
      for (const line of body.split('\n').slice(0, -1)) {
        const event = JSON.parse(line) as Record<string, unknown>
        all++
        // rsyslog has something to say itself now and then.
        if (event.app !== 'the-app') continue
        const number = Number(/message (\d+) /.exec(String(event.message))?.[1])
        taken[name]!.push(event)
        numbers[name]!.push(number)
        different[name]!.add(number)
      }
    }
    return Math.min(...names.map(name => different[name]!.size))
  }
  const allTaken = async () => await until('all messages', () => look() === sent)

  const began = Math.floor(Date.now() / 1000) * 1000
  await send(500)
  await allTaken()
  for (const name of names) {
    const [first] = taken[name]!
    t.match(
      first,
      { app: 'the-app', pid: '4711', facility: 'mail', severity: 'err', severity_code: 3, peer: '127.0.0.1' },
      name,
    )
    t.match(first?.message, / ?message 0 is "quoted" \\ ü/, name)
    const time = Date.parse(String(first?.timestamp))
    t.ok(time >= began && time <= Date.now() + 1, `${name}: ${first?.timestamp}`)
  }

  receiver.otherwise = 503
  await send(2000)
  await until('a refusal', () => receiver.requests.some(({ status }) => status === 503))
  receiver.otherwise = 200
  await allTaken()
  for (const name of names)
    t.same(
      numbers[name],
      Array.from({ length: sent }, (_, n) => n),
      `${name}: each once, in order`,
    )

  // While it goes on sending the daemon is stopped in order, and started again.
  let over = false
  const sending = (async () => {
    while (!over) await send(200)
  })()
  let received = 0
  for (let round = 0; round < 2; round++) {
    const before = sent
    await until('further messages', () => look() > before)
    const totals = await daemon.stop(t)
    t.equal(totals.undelivered, 0)
    received += totals.received
    daemon = await run()
  }
  over = true
  await sending
  await allTaken()
  received += (await daemon.stop(t)).received
  look()
  // After a refused connection rsyslog repeats a message.
  t.equal(all, received, 'nothing is repeated on the way through')
})

/** One daemon that tails a file and sends it to another one. */
async function startSender(t: Test, folder: string, port: number): Promise<Daemon> {
  mkdirSync(folder, { recursive: true })
  const config = `
sources: { log: { type: file, include: [in.log], decode: json } }
destinations:
  up:
    type: http
    inputs: [log]
    url: http://${HOST}:${port}/in
    validate: http://${HOST}:${port}/in
    auth: { key_file: key }
    compression: gzip
    batch: { max_events: 100, max_wait: 10ms }
    max_in_flight: 4
    retry: { initial: 20ms, max: 100ms }
`
  return await startDaemon(t, folder, config)
}

t.test(
  'from daemon to daemon over HTTP: the one that takes is killed again and again, and nothing is lost',
  async t => {
    const folder = testFolder(t, { key: 'shared\n', sender: { key: 'shared\n', 'in.log': '' } })
    const port = await ownPort()
    const take = () =>
      startDaemon(
        t,
        folder,
        `
sources: { web: { type: http, listen: ${HOST}:${port}, path: /in, auth: { key_file: key } } }
destinations: { out: { type: file, inputs: [web], path: out.ndjson, encoding: raw } }
`,
      )
    let taking = await take()
    const sending = await startSender(t, join(folder, 'sender'), port)
    let written = 0
    const write = (count: number) => {
      let text = ''
      for (const end = written + count; written < end; written++) text += `{"n":${written}}\n`
      appendFileSync(join(folder, 'sender/in.log'), text)
    }
    const numbers = () =>
      linesOf(join(folder, 'out.ndjson'))
        // A kill may tear a line, which then comes again.
        .filter(line => line.endsWith('}'))
        .map(line => JSON.parse(line).n as number)
    for (let round = 0; round < 4; round++) {
      const before = numbers().length
      write(20_000)
      await until('more lines', () => numbers().length > before + 1000 * round)
      taking.child.kill('SIGKILL')
      await taking.exit
      taking = await take()
    }
    write(1000)
    await until('all lines', () => new Set(numbers()).size === written)
    await sending.scrapedUntil(scrape => scrape.events('up').sent === written)
    const repeats = numbers().length - written
    t.ok(repeats <= 4 * 4 * 100, `${repeats} of ${written} twice: what was on its way when it was killed`)
    const scrape = await taking.scrape()
    t.equal(scrape.sum('sluice_http_answers_total', { status: '202' }) > 0, true)
    await sending.stop(t)
    await taking.stop(t)
  },
)

t.test('HTTP and syslog into a disk buffer: 202 says that a kill takes nothing', async t => {
  const folder = testFolder(t)
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = 503
  const run = () =>
    startDaemon(
      t,
      folder,
      `
sources:
  web: { type: http, listen: 127.0.0.1:0 }
  syslog: { type: tcp, listen: 127.0.0.1:0, decode: syslog }
destinations:
  out: { type: http, inputs: [web, syslog], url: "${receiver.url()}", buffer: { type: disk }, retry: { initial: 50ms, max: 100ms } }
`,
    )
  const first = await run()
  const url = `http://127.0.0.1:${await portOf(first, 'web')}/`
  const socket = connect(Number(await portOf(first, 'syslog')), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('<13>Nov 20 08:14:26 a1 app[7]: kept\n')
  for (let n = 0; n < 20; n++) {
    const answer = await fetch(url, {
      method: 'POST',
      body: `{"n":${n}}\n{"n":${n}}`,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    t.equal(answer.status, 202, 'although the receiver takes nothing')
  }
  // Nothing waits for an acknowledgement before all has come, either.
  await first.scrapedUntil(
    scrape => scrape.events('out').received === 41 && scrape.sum('sluice_source_unacknowledged_bytes') === 0,
  )
  first.child.kill('SIGKILL')
  await first.exit
  t.same(receiver.lines(), [])
  receiver.otherwise = 200
  const second = await run()
  await until('all events', () => receiver.lines().length >= 41)
  const events = receiver.lines().map(line => JSON.parse(line) as Record<string, unknown>)
  t.same(
    events.flatMap(({ n }) => (n === undefined ? [] : [n])).sort((a, b) => Number(a) - Number(b)),
    Array.from({ length: 40 }, (_, n) => n >> 1),
  )
  t.match(
    events.filter(({ app }) => app),
    [{ message: 'kept', host: 'a1', app: 'app', pid: '7', severity: 'notice', peer: '127.0.0.1' }],
  )
  await second.stop(t)
})

t.test('files and standard input can be syslog too', async t => {
  const year = new Date().getFullYear()
  const folder = testFolder(t, {
    'syslog.log': `Nov 20 08:14:26 h sshd[9]: from a file\n${year}-11-20T08:14:26+01:00 h cron: new style\nnone\n`,
  })
  const config = `
sources:
  log: { type: file, include: [syslog.log], decode: syslog }
  in: { type: stdin, decode: syslog }
processors:
  not_cron: { type: filter, inputs: [log, in], condition: "if (NOT (.app equal 'cron'))" }
destinations: { out: { type: file, inputs: [not_cron], path: out.ndjson, encoding: json } }
`
  const daemon = await startDaemon(t, folder, config)
  daemon.child.stdin?.end('<11>app: from standard input\n')
  const out = join(folder, 'out.ndjson')
  await until('three lines', () => linesOf(out).length === 3)
  const events = eventsOf(out).sort((a, b) => (String(a.message) < String(b.message) ? -1 : 1))
  t.match(events, [
    { message: 'from a file', app: 'sshd', pid: '9', host: 'h', file: String },
    { message: 'from standard input', app: 'app', severity: 'err', facility: 'user' },
    { message: 'none', file: String },
  ])
  t.equal((await daemon.scrape()).sum('sluice_not_syslog_lines_total'), 1)
  await daemon.stop(t)
})

t.test('HTTP while the daemon ends: what got 202 is there, and what is not there got none', async t => {
  const folder = testFolder(t)
  const config = `
sources: { web: { type: http, listen: 127.0.0.1:0 } }
destinations: { out: { type: file, inputs: [web], path: out.log, encoding: raw } }
`
  const daemon = await startDaemon(t, folder, config)
  const port = await portOf(daemon, 'web')
  const accepted: number[] = []
  const refused: number[] = []
  let next = 0
  let over = false
  const client = async () => {
    while (!over) {
      const n = next++
      const body = Array.from({ length: 50 }, () => `${n}`).join('\n')
      const headers = { 'content-type': 'text/plain' }
      const status = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers }).then(
        async response => {
          await response.arrayBuffer()
          return response.status
        },
        () => 0,
      )
      if (status === 202) accepted.push(n)
      else refused.push(n)
      if (status === 0) over = true
    }
  }
  const clients = Array.from({ length: 8 }, client)
  await until('accepted requests', () => accepted.length > 100)
  const totals = await daemon.stop(t)
  await Promise.all(clients)
  const counts = new Map<string, number>()
  for (const line of linesOf(join(folder, 'out.log'))) counts.set(line, (counts.get(line) ?? 0) + 1)
  for (const n of accepted)
    if (counts.get(String(n)) !== 50) t.fail(`request ${n} was taken, and is there ${counts.get(String(n))} times`)
  for (const n of refused)
    if (![undefined, 50].includes(counts.get(String(n)))) t.fail(`a part of request ${n} is there`)
  t.equal(totals.undelivered, 0)
  t.ok(accepted.length > 100)
})
