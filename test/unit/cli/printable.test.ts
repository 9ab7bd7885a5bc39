import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { commands } from '../../../src/cli/commands.js'
import type { Io } from '../../../src/daemon/process/command-line.js'
import { dispatch } from '../../../src/daemon/process/dispatch.js'
import { createLog } from '../../../src/daemon/process/log.js'
import { daemonState } from '../../../src/daemon/systemd/service-state.js'
import { fleetText } from '../../../src/service/commands/fleet.js'
import { HOST, listening } from '../../support/address.js'
import { commandIo } from '../../support/command-io.js'
import { testFolder } from '../../support/folder.js'

/** Clears the screen with one character and with two, hides text, and turns its direction round. */
const BAD = 'a\x9b2Jb\x1b[8mc\u202ed\x7f'
/** What moves the cursor of a terminal, but for line ends and tabs. */
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]/

interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

async function run(t: Test, argv: readonly string[], { stdin = '', env = {} } = {}): Promise<Ran> {
  const { io, text } = commandIo(env, Readable.from([Buffer.from(stdin)]))
  const code = await dispatch(argv, commands, io)
  for (const [name, shown] of Object.entries(text)) t.notMatch(shown, CONTROLS, `${argv[0]}: ${name}`)
  return { code, ...text }
}

/** A server that answers everything with `body`. */
async function answering(t: Test, body: string, { path, status = 200 }: { path?: string; status?: number } = {}) {
  const server = createServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(body)
  })
  if (path === undefined) return `http://${HOST}:${await listening(t, server)}`
  await once(server.listen(path), 'listening')
  t.teardown(() => server.close())
  return ''
}

t.test('tap shows events as JSON with the same values', async t => {
  // The path of a socket must be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const socket = join(folder, 'socket')
  const event = { message: BAD, [BAD]: [BAD] }
  await answering(t, `${JSON.stringify(event)}\n# ${BAD}\n`, { path: socket })
  const { stdout, stderr } = await run(t, ['tap', 'x', '--socket', socket])
  t.same(JSON.parse(stdout), event)
  t.equal(stderr, '# a\\u{9b}2Jb\\u{1b}[8mc\\u{202e}d\\u{7f}\n')
  await answering(t, `no component ${BAD}\n`, { path: `${socket}2`, status: 404 })
  t.match(await run(t, ['tap', 'x', '--socket', `${socket}2`]), { code: 1, stderr: /no component a\\u\{9b\}/ })
})

t.test('explain, test, simulate and throttle show events', async t => {
  const config = `
sources: { in: { type: tcp, listen: "127.0.0.1:0", decode: json } }
processors: { lim: { type: throttle, inputs: [in], limit: 1, window: 1s, key_field: .app } }
destinations: { out: { type: blackhole, inputs: [lim] } }
tests:
  - name: ${JSON.stringify(`odd ${BAD}`)}
    steps: [{ into: in, events: [${JSON.stringify(BAD)}] }]
    expect: { out: [${JSON.stringify(`other ${BAD}`)}] }
`
  testFolder(t, { 'sluice.yaml': config })
  const path = join(t.testdirName, 'sluice.yaml')
  const text = await run(t, ['explain', path, `x\t${BAD}`])
  t.match(text.stdout, / {4}x\ta\\u\{9b\}2Jb/)
  const json = await run(t, ['explain', path, '--json', BAD])
  t.match(JSON.parse(json.stdout), { source: { fields: { message: BAD } } })
  t.match(await run(t, ['test', path]), { code: 1, stdout: /failed odd a\\u\{9b\}.*other a\\u\{9b\}.*\+ a\\u\{9b\}/s })
  const line = `${JSON.stringify({ app: BAD, timestamp: 1 })}\n`
  const decided = await run(t, ['simulate', path, '--component', 'lim', '--time', '.timestamp', '--decisions'], {
    stdin: line,
  })
  t.match(JSON.parse(decided.stdout), { bucket: BAD })
  t.match(decided.stderr, /a\\u\{9b\}2Jb/)
})

t.test('errors, of a configuration too', async t => {
  const folder = testFolder(t, { 'bad.yaml': `sources: { in: { type: "x\\x9b2J\\e[8m" } }\ndata_dir: "\\x9b2J"\n` })
  t.match(await run(t, ['validate', join(folder, 'bad.yaml')]), { code: 78, stderr: /x\\u\{9b\}2J/ })
  t.match(await run(t, ['run', join(folder, 'bad.yaml')]), { code: 78, stderr: /x\\u\{9b\}2J/ })
  t.match(await run(t, [`r${BAD}`]), { code: 2, stderr: /unknown command ra\\u\{9b\}2J/ })
  t.match(await run(t, ['run', join(folder, BAD)]), { code: 78, stderr: /a\\u\{9b\}2J/ })
})

t.test('answers of the service, and reports of daemons', async t => {
  const env = { SLUICE_ACCESS_KEY: 'k'.repeat(40) }
  const url = await answering(t, JSON.stringify({ data: { title: BAD } }))
  const call = ['api', 'GET', '/v3/pipeline', '--url', url]
  t.same(JSON.parse((await run(t, call, { env })).stdout), { data: { title: BAD } })
  const error = { code: 'x', message: BAD, errors: [{ path: BAD, message: BAD }] }
  const refusing = await answering(t, JSON.stringify(error), { status: 400 })
  t.match(await run(t, [...call.slice(0, -1), refusing], { env }), { code: 1, stderr: /400.*a\\u\{9b\}2J/s })
  const daemon = {
    ...{ id: 'd', pipeline_id: 'p', host: BAD, version: BAD, revision: 1, published_revision: 1, behind: false },
    ...{ health: 'failed' as const, error: BAD, totals: {}, started_at: null, reported_at: '', silent: false },
  }
  t.notMatch(fleetText([daemon], 200), CONTROLS)
})

t.test('the log as JSON, and what systemd shows', async t => {
  let logged = ''
  const stderr = { write: (text: string) => (logged += text) }
  const log = createLog({ stderr, env: {} } as unknown as Io, { format: 'json' })
  log.warn({ path: BAD }, `seen ${BAD}`)
  t.notMatch(logged, CONTROLS)
  t.match(JSON.parse(logged), { path: BAD, msg: `seen ${BAD}` })
  const { status } = daemonState({
    destinations: [{ id: 'up', state: 'holding', reason: BAD, ownReason: BAD }] as never,
  })
  t.equal(status, 'up holds: a\\u{9b}2Jb\\u{1b}[8mc\\u{202e}d\\u{7f}')
})
