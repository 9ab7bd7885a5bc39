import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Io } from '../../../../src/daemon/process/command-line.js'
import { type LogOptions, openLog } from '../../../../src/daemon/process/log.js'
import { bound } from '../../../support/bound.js'
import { built, sluiceMain } from '../../../support/checkout.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { sluice } from '../../../support/sluice.js'
import { until } from '../../../support/until.js'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|[+-]\d\d:\d\d)$/

/** A log whose lines are kept. */
function logged(options?: LogOptions, { isTTY = false, env = {} }: { isTTY?: boolean; env?: NodeJS.ProcessEnv } = {}) {
  const lines: string[] = []
  const stderr = { isTTY, write: (line: string) => lines.push(line) }
  return { lines, ...openLog({ stderr, env } as unknown as Io, options) }
}

/** The line without its time, which is checked. */
function untimed(line: string | undefined): string {
  const [time, ...rest] = (line ?? '').split(' ')
  t.match(time, TIME)
  return rest.join(' ')
}

t.test('text: time, level word, message and fields on one line', async t => {
  const { log, lines } = logged({ format: 'text' })
  log.warn({ component: 'up', counts: { a: 1 }, error: 'no way: EHOSTUNREACH', empty: '', n: 3 }, 'is away')
  log.info('ready')
  t.equal(untimed(lines[0]), 'WARN  is away component=up counts={"a":1} error="no way: EHOSTUNREACH" empty="" n=3\n')
  t.equal(untimed(lines[1]), 'INFO  ready\n')
})

t.test('text: an error has the place where it was thrown; control characters are escaped', async t => {
  const { log, lines } = logged({ format: 'text' })
  log.error({ err: new TypeError('two\nlines') }, 'failed')
  const { message: error, stack } = new Error('thrown')
  log.error({ error, stack }, 'failed')
  log.child({ component: 'a' }).error({ path: '/x\x1b[2J\u009b\u202e\r\n', 'na\x1bme': 1 }, 'odd\x07')
  t.match(untimed(lines[0]), /^ERROR failed err="TypeError: two\\nlines" at=".*log\.test\..*:\d+:\d+\)?"\n$/)
  t.match(untimed(lines[1]), /^ERROR failed error=thrown at=".*log\.test\..*:\d+:\d+\)?"\n$/)
  t.equal(untimed(lines[2]), 'ERROR odd\\u{7} component=a path="/x\\u001b[2J\\u{9b}\\u{202e}\\r\\n" na\\u{1b}me=1\n')
})

t.test('text: a key is redacted as it is in JSON', async t => {
  const { log, lines } = logged({ format: 'text' })
  log.info({ auth: { key: 'secret' } }, 'asked')
  t.equal(untimed(lines[0]), 'INFO  asked auth=[Redacted]\n')
})

t.test('the format: by option, else by whether it is a terminal; colors only there', async t => {
  const one = (options?: LogOptions, terminal?: { isTTY: boolean; env?: NodeJS.ProcessEnv }) => {
    const { log, lines } = logged(options, terminal)
    log.warn('x')
    return lines[0]!
  }
  t.match(one(), /^\{"level":40/)
  t.match(one({ format: 'json' }, { isTTY: true }), /^\{"level":40/)
  t.match(one({ format: 'text' }), / WARN {2}x\n$/)
  t.match(one({}, { isTTY: true, env: { NO_COLOR: '1' } }), /Z? WARN {2}x\n$/)
  t.notMatch(one({}, { isTTY: true, env: { TERM: 'dumb' } }), '\x1b')
  t.match(one({}, { isTTY: true }), '\x1b[33mWARN \x1b[0m x\n')
})

t.test('another format takes effect in child loggers too', async t => {
  const { log, setFormat, lines } = logged()
  const child = log.child({ component: 'a' })
  child.info('one')
  setFormat('text')
  child.info('two')
  t.match(lines[0], /^\{/)
  t.equal(untimed(lines[1]), 'INFO  two component=a\n')
})

const CONFIG = `data_dir: state
metrics: false
sources: { in: { type: stdin } }
destinations: { out: { type: file, inputs: [in], path: out.log } }
`

t.test('the daemon writes text on a terminal, with the time of its zone', async t => {
  const script = needs(t, 'script')
  if (!script) return
  const folder = testFolder(t, { 'sluice.yaml': CONFIG })
  const command = `${process.execPath} ${sluiceMain} run sluice.yaml < /dev/null`
  const { stdout, status } = spawnSync(script, ['-qec', command, 'typed'], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', TZ: 'Asia/Kolkata' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.equal(status, 0)
  t.match(stdout, /^\S+\+05:30 INFO {2}started version=\S+ config=\["sluice\.yaml"\] data_dir=\S+\r$/m)
  t.match(stdout, /\+05:30 INFO {2}ended received=0 /)
})

t.test('log.format: a reload of the daemon changes it', async t => {
  const folder = testFolder(t, { 'sluice.yaml': `${CONFIG}log: { format: text }\n` })
  const path = join(folder, 'sluice.yaml')
  const daemon = sluice(['run', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => / INFO {2}started /.test(daemon.stderr))
  writeFileSync(path, readFileSync(path, 'utf8').replace('format: text', 'format: json'))
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('"msg":"configuration reloaded"'))
  daemon.child.stdin!.end()
  t.equal(await daemon.exit, 0)
  t.match(daemon.stderr, /\{.*"msg":"ended"\}\n$/)
})

t.test('log.format: the service has it too', async t => {
  const yaml = 'log: { format: text }\nmetrics: false\nservice: { listen: 127.0.0.1:0, data_dir: service }\n'
  const service = sluice(['serve', 'sluice.yaml'], { cwd: testFolder(t, { 'sluice.yaml': yaml }) })
  t.teardown(() => service.child.kill('SIGKILL'))
  await service.until(() => / INFO {2}the service is ready version=/.test(service.stderr))
  service.child.kill('SIGTERM')
  const [code] = (await once(service.child, 'exit')) as [number]
  t.equal(code, 0)
  t.notMatch(service.stderr, '{"level"')
})

t.test('a log that cannot be written does not end the daemon or the service', async t => {
  if (!existsSync('/dev/full')) return t.pass('there is no /dev/full')
  const yaml = `${CONFIG}service: { listen: 127.0.0.1:0, data_dir: service }\n`
  const cwd = testFolder(t, { 'sluice.yaml': yaml })
  const full = openSync('/dev/full', 'a')
  t.teardown(() => closeSync(full))
  const run = spawnSync(process.execPath, [sluiceMain, 'run', 'sluice.yaml'], {
    cwd,
    input: 'one\ntwo\n',
    stdio: ['pipe', 'pipe', full],
  })
  t.equal(run.status, 0)
  t.equal(readFileSync(join(cwd, 'out.log'), 'utf8').split('\n').length, 3)
  const service = spawn(...bound(process.execPath, [sluiceMain, 'serve', 'sluice.yaml']), {
    cwd,
    stdio: ['ignore', 'ignore', full],
  })
  t.teardown(() => service.kill('SIGKILL'))
  await until(() => existsSync(join(cwd, 'service')))
  service.kill('SIGTERM')
  const [code] = (await once(service, 'exit')) as [number]
  t.equal(code, 0)
})

t.test('lines that found no room are counted, and said when there is room again', t => {
  const folder = testFolder(t)
  const path = join(folder, 'log')
  // A limit on the size of files stands for a full disk.
  const script = `
    import { truncateSync } from 'node:fs'
    import { openLog } from '${built}/src/daemon/process/log.js'
    import { lostLines } from '${built}/src/daemon/process/stderr.js'
    const { log } = openLog(process)
    for (let i = 0; i < 100; i++) log.info({ i }, 'x'.repeat(50))
    const lost = lostLines()
    truncateSync('${path}', 10)
    log.info({ lost }, 'room')
    log.info('next')`
  const { status } = spawnSync(
    'sh',
    ['-c', `ulimit -f 2; exec "$0" --input-type=module -e "$1" 2>> ${path}`, process.execPath, script],
    { cwd: folder },
  )
  t.equal(status, 0)
  const [torn, room, again, next] = readFileSync(path, 'utf8').split('\n')
  t.equal(torn, '{"level":3', 'the line that was cut off ends')
  const { lost, msg } = JSON.parse(room!)
  t.equal(msg, 'room')
  t.ok(lost > 50)
  t.match(JSON.parse(again!), { level: 40, lines: lost, msg: /^the log can be written again/ })
  t.match(JSON.parse(next!), { msg: 'next' })
  t.end()
})
