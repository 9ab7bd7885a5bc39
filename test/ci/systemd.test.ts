import { spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../src/cli/commands.js'
import { findCommand, readCall } from '../../src/daemon/process/command-line.js'
import { EXIT } from '../../src/daemon/process/dispatch.js'
import { HOST, listening } from '../support/address.js'
import { checkout, sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** Stands in for systemd: prints what it is told, a JSON list of words each time, and takes up the barriers. */
const RECEIVER = `
import array, json, os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('[]', flush=True)
while True:
    data, ancillary, _, _ = s.recvmsg(65536, socket.CMSG_LEN(64))
    for level, kind, value in ancillary:
        if kind == socket.SCM_RIGHTS:
            fds = array.array('i')
            fds.frombytes(value[:len(value) - len(value) % fds.itemsize])
            for fd in fds: os.close(fd)
    words = data.decode().split('\\n')
    if 'BARRIER=1' not in words: print(json.dumps(words), flush=True)
`

t.test('what the daemon tells systemd, by systemd-notify', async t => {
  const python = needs(t, 'python3')
  if (!python || !needs(t, 'systemd-notify')) return
  const folder = testFolder(t, { 'app.log': '{"a":1}\n' })
  // The path of a socket has to be short.
  const place = mkdtempSync(join(tmpdir(), 'notify-'))
  const socket = join(place, 'socket')
  const receiver = spawn(python, ['-c', RECEIVER, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => {
    receiver.kill('SIGKILL')
    rmSync(place, { recursive: true })
  })
  const told: string[] = []
  let rest = ''
  receiver.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) told.push(...(JSON.parse(line) as string[]), ';')
  })
  const notified = (what: string, test: () => boolean) => until(what, test, { show: () => told.join(' ') })
  await notified('that it listens', () => told.length > 0)

  const config = join(folder, 'sluice.yaml')
  const text = `metrics: false
data_dir: ${join(folder, 'state')}
sources:
  app: { type: file, include: [${join(folder, 'app.log')}], decode: json }
destinations:
  out: { type: file, inputs: [app], path: ${join(folder, 'out.log')} }
`
  writeFileSync(config, text)
  const env = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '2000000', WATCHDOG_PID: undefined }
  const running = sluice(['run', '--config', config], { env })
  await notified('READY', () => told.includes('READY=1'))
  await notified('what it does', () => told.includes('STATUS=delivers to out'))
  await notified('WATCHDOG', () => told.includes('WATCHDOG=1'))

  told.length = 0
  running.child.kill('SIGHUP')
  await notified('READY again', () => told.includes('READY=1'))
  t.ok(told.indexOf('RELOADING=1') >= 0 && told.indexOf('RELOADING=1') < told.indexOf('READY=1'))
  t.ok(
    told.slice(0, told.indexOf('READY=1')).some(word => /^MONOTONIC_USEC=\d+$/.test(word)),
    'with the time',
  )

  told.length = 0
  writeFileSync(config, text.replace('inputs', 'input'))
  running.child.kill('SIGHUP')
  const refused = /^STATUS=cannot apply the new configuration, the previous one is running: .*sluice\.yaml:6:/
  await notified('what is wrong', () => told.some(word => refused.test(word)))

  told.length = 0
  running.child.kill('SIGTERM')
  t.equal(await running.exit, 0, running.stderr)
  await notified('STOPPING', () => told.includes('STOPPING=1'))
  await notified('how long', () => told.some(word => /^EXTEND_TIMEOUT_USEC=\d+$/.test(word)))
  t.notMatch(running.stderr, 'cannot notify systemd')

  // Something listens there, and is no service.
  const taken = createServer(socket => void socket.destroy())
  const port = await listening(t, taken, '127.0.0.1')
  const source = `  net: { type: tcp, listen: 127.0.0.1:${port} }\n`
  writeFileSync(config, text.replace('destinations', `${source}destinations`).replace('[app]', '[app, net]'))
  const failing = sluice(['run', '--config', config], { env })
  const failed = 'STATUS=net failed and is restarting: EADDRINUSE'
  await notified('that a source fails', () => told.includes(failed))
  failing.child.kill('SIGTERM')
  await failing.exit

  told.length = 0
  writeFileSync(config, `metrics: false\ndata_dir: ${join(folder, 'managed')}\nsources:\n  app: { type: stdin }\n`)
  const key = join(folder, 'key')
  writeFileSync(key, `sts_${'0'.repeat(40)}\n`)
  const url = `http://127.0.0.1:${port}/v3/pipeline/${'0'.repeat(24)}`
  const managed = sluice(['run', '--config', config, '--pipeline', url, '--key-file', key], { env })
  await notified('what it waits for', () =>
    told.some(word => word.startsWith('STATUS=waiting for a revision to run: ')),
  )
  await notified('READY', () => told.includes('READY=1'))
  await notified('WATCHDOG', () => told.includes('WATCHDOG=1'))
  managed.child.kill('SIGTERM')
  t.equal(await managed.exit, 0, managed.stderr)

  writeFileSync(config, text)
  const alone = sluice(['run', '--config', config], { env: { NOTIFY_SOCKET: join(place, 'nobody') } })
  await alone.until(() => /cannot notify systemd/.test(alone.stderr))
  alone.child.kill('SIGTERM')
  t.equal(await alone.exit, 0, 'it runs all the same')
})

t.test('in the journal each line has its priority', async t => {
  const folder = testFolder(t, { 'wrong.yaml': 'sources: 1\n', journal: '' })
  const journal = join(folder, 'journal')
  const { dev, ino } = statSync(journal, { bigint: true })
  const said = (args: string[], stream: string) => {
    const fd = openSync(journal, 'w')
    const env = { ...process.env, JOURNAL_STREAM: stream }
    const { status } = spawnSync(process.execPath, [sluiceMain, ...args], { env, stdio: ['ignore', 'ignore', fd] })
    closeSync(fd)
    return { status, lines: readFileSync(journal, 'utf8').trimEnd().split('\n') }
  }
  const wrong = said(['run', '--config', join(folder, 'wrong.yaml')], `${dev}:${ino}`)
  t.equal(wrong.status, 78)
  t.ok(wrong.lines.length > 0 && wrong.lines.every(line => /^<3>\S/.test(line)), wrong.lines.join('\n'))
  const elsewhere = said(['run', '--config', join(folder, 'wrong.yaml')], `${dev}:${ino + 1n}`)
  t.ok(
    elsewhere.lines.every(line => !line.startsWith('<')),
    'the journal is somewhere else',
  )

  const state = `data_dir: ${join(folder, 'state')}`
  writeFileSync(
    join(folder, 'right.yaml'),
    `metrics: false\n${state}\nsources: { in: { type: stdin } }\ndestinations: { out: { type: blackhole, inputs: [in] } }\n`,
  )
  const right = said(['run', '--config', join(folder, 'right.yaml')], `${dev}:${ino}`)
  t.equal(right.status, 0)
  t.ok(right.lines.length > 1 && right.lines.every(line => /^<6>\{"level":30,/.test(line)), right.lines.join('\n'))
})

/** Each unit with its configuration. */
const UNITS = {
  sluice: '/etc/sluice/sluice.yaml',
  'sluice@': '/etc/sluice/%i.yaml',
  'sluice-api': '/etc/sluice/service.yaml',
}
const MOST_EXPOSURE = 1.5

/** The values of a setting of a unit, in order. */
function settings(unit: string): (name: string) => string[] {
  const lines = readFileSync(join(checkout, `systemd/${unit}.service`), 'utf8').split('\n')
  return name => lines.filter(line => line.startsWith(`${name}=`)).map(line => line.slice(name.length + 1))
}

t.test('systemd accepts the units without a word, and finds them well confined', async t => {
  const analyze = needs(t, 'systemd-analyze')
  if (!analyze) return
  const folder = testFolder(t)
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(analyze, args, { encoding: 'utf8', timeout: 30_000 })
    return { status, stdout, stderr }
  }
  for (const unit of readdirSync(join(checkout, 'systemd'))) {
    const copy = join(folder, unit)
    cpSync(join(checkout, 'systemd', unit), copy)
    t.same(run('verify', '--recursive-errors=no', copy), { status: 0, stdout: '', stderr: '' }, unit)
    if (!unit.endsWith('.service')) continue
    const { status, stdout } = run('security', '--offline=true', `--threshold=${MOST_EXPOSURE * 10}`, copy)
    const exposure = stdout.split('\n').filter(line => line.startsWith('→'))
    t.equal(status, 0, `${unit}: ${exposure.join()}`)
  }
})

t.test('the units call the program as the program is', async t => {
  for (const [unit, config] of Object.entries(UNITS)) {
    const setting = settings(unit)
    const [start = '', ...others] = setting('ExecStart')
    t.same(others, [], `${unit}: one program`)
    const [check = ''] = setting('ExecStartPre')
    t.equal(check[0], '-', 'systemd restarts for ever what fails here, whatever its exit code; ExecStart fails with 78')
    for (const line of [check.slice(1), start]) {
      const argv = line.split(' ')
      t.same(argv.slice(0, 2), ['/usr/bin/env', 'sluice'], 'wherever it is installed')
      const [command, args] = findCommand(argv.slice(2), commands)
      t.doesNotThrow(() => readCall(command, args), line)
      t.match(line, config)
    }
    t.same(setting('RestartPreventExitStatus'), [String(EXIT.config)], 'a wrong configuration is not tried for ever')
    t.same([setting('Type'), setting('NotifyAccess')], [['notify'], ['all']], 'systemd-notify is not the main process')
    t.ok(setting('SystemCallFilter')[0]?.includes('@pkey'), 'node dies without it')
    t.same(setting('MemoryDenyWriteExecute'), [], 'node dies of it')
  }
  t.match(settings('sluice')('LoadCredential'), [/^access-key:\//])
})

t.test('an instance has the settings of the daemon, and its own configuration, state and metrics', async t => {
  const lines = (unit: string) =>
    readFileSync(join(checkout, `systemd/${unit}.service`), 'utf8')
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
  const [one, instance] = [lines('sluice'), lines('sluice@')]
  t.equal(instance.length, one.length)
  t.same(
    instance.filter((line, i) => line !== one[i]),
    [
      'Description=Sluice log shipper (%i)',
      'ExecStartPre=-/usr/bin/env sluice validate /etc/sluice/%i.yaml',
      'ExecStart=/usr/bin/env sluice run --config /etc/sluice/%i.yaml --metrics-on-socket',
      'SyslogIdentifier=sluice@%i',
      'StateDirectory=sluice@%i',
    ],
  )
})

t.test(
  'with the option of an instance and without metrics.listen, metrics are on the socket only, and the log says so',
  async t => {
    const config = (head: string) =>
      `${head}sources: { in: { type: stdin } }\ndestinations: { out: { type: blackhole, inputs: [in] } }\n`
    const folder = testFolder(t, {
      'without.yaml': config(''),
      'empty.yaml': config('metrics: {}\n'),
      'with.yaml': config(`metrics: { listen: ${HOST}:0 }\n`),
    })
    const served = async (file: string) => {
      const run = sluice(['run', '--config', file, '--metrics-on-socket'], { cwd: folder })
      run.child.stdin!.end()
      t.equal(await run.exit, 0)
      const lines = run.stderr.trim().split('\n')
      return lines.map(line => JSON.parse(line) as { msg: string }).filter(({ msg }) => msg.startsWith('metrics'))
    }
    for (const file of ['without.yaml', 'empty.yaml'])
      t.match(await served(file), [
        {
          socket: /sluice\.sock$/,
          msg: 'metrics are served on the socket only; to serve them at an address, set metrics.listen',
        },
      ])
    t.match(await served('with.yaml'), [{ url: `http://${HOST}:`, msg: 'metrics are served' }])
  },
)
