import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Client } from '../../src/client.js'
import { codecs } from '../../src/core/codecs/list.js'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { HOST, listening, ownPort } from '../support/address.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { fill, Mounts, mayMount } from '../support/mounts.js'
import { needs } from '../support/needs.js'
import { type Step, startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'
import { type Look, Machine, missingLine, symptomsOf } from '../support/symptoms.js'
import { until } from '../support/until.js'

/** Every case of the page is made here, and its commands have to print what the page shows. */

// The scenes do not know of each other.
t.jobs = 3

const PAGE = 'docs/troubleshooting.md'
const cases = symptomsOf(PAGE)

/** Ids that the page uses, and what they are in the scene. */
type Names = Readonly<Record<string, string>>
interface Made {
  readonly names?: Names
  /** What is done before somebody looks. */
  readonly first?: () => Promise<unknown>
  /** What is done, and has to hold, when somebody has looked. */
  readonly last?: (t: Test) => Promise<unknown>
  /** Why it cannot be made on this machine. */
  readonly skip?: string | undefined
}
const as = (names: Names): Made => ({ names })

interface Scene {
  readonly machine: Machine
  readonly cases: Readonly<Record<string, Made>>
}

/** Addresses of the page. */
const METRICS = '127.0.0.1:9598'
const PAGE_ADDRESS = '127.0.0.1:9599'
const NOBODY = '127.0.0.1:9'

async function nobodyOn({ addresses }: Machine): Promise<void> {
  addresses.set(NOBODY, `${HOST}:${await ownPort()}`)
}

async function daemonOn(t: Test, machine: Machine, config: string): Promise<Daemon> {
  const daemon = await startDaemon(t, machine.folder, machine.here(config))
  machine.journal = () => daemon.stderr
  machine.addresses.set(METRICS, /"url":"http:\/\/([^"/]+)\/metrics"/.exec(daemon.stderr)![1]!)
  return daemon
}

/** Lines that come for as long as somebody looks. */
function keepWriting({ onEnd }: Machine, path: string, line: string): void {
  const timer = setInterval(() => appendFileSync(path, line), 100)
  onEnd.push(() => clearInterval(timer))
}

/**
 * Writes new files, with a pause in the middle of their line: only the first line of a file is cut for that. The pauses
 * get longer, until a busy machine sees one.
 */
function keepPausing({ onEnd }: Machine, path: string): void {
  let timer: NodeJS.Timeout
  const write = (isNew: boolean, pauseMs: number) => {
    if (isNew) rmSync(path, { force: true })
    appendFileSync(path, isNew ? 'half a line' : 'half a line\n')
    timer = setTimeout(write, pauseMs, !isNew, isNew ? pauseMs : Math.min(pauseMs * 1.5, 5000))
  }
  write(true, 100)
  onEnd.push(() => clearTimeout(timer))
}

async function receiverFor(t: Test, otherwise: Step) {
  const receiver = await startReceiver()
  receiver.otherwise = otherwise
  t.teardown(() => receiver.close())
  return receiver
}

/** Destinations that do not get rid of anything, each in its own way. */
async function deliveryFails(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  await nobodyOn(machine)
  const path = (name: string) => join(machine.folder, name)
  writeFileSync(path('etc/key'), 'the-old-key', { mode: 0o600 })
  writeFileSync(path('etc/other-key'), 'the-old-key', { mode: 0o600 })
  writeFileSync(path('log/app/app.log'), 'one\ntwo\n')
  const wants = async () => {
    const receiver = await receiverFor(t, 200)
    receiver.authorization = 'Token the-new-key'
    return receiver
  }
  const [refuses, rotated] = [await wants(), await wants()]
  const busy = await receiverFor(t, { status: 503, body: 'overloaded' })
  const moved = await receiverFor(t, { status: 301, headers: { location: 'https://logs.example.com/v4/ingest' } })
  const slow = await receiverFor(t, { hang: 'after_body' })
  const up = (id: string, url: string, more = '') =>
    `  ${id}: { type: http, inputs: [app], url: "${url}", batch: { max_wait: 10ms }, retry: { initial: 100ms, max: 1s }${more} }\n`
  const daemon = await daemonOn(
    t,
    machine,
    `sources: { app: { type: file, include: [/var/log/app/*.log] } }
destinations:
${up('up_refused', refuses.url(), ', auth: { key_file: /etc/sluice/key }')}\
${up('up_rotated', rotated.url(), `, auth: { key_file: /etc/sluice/other-key }, validate: "${rotated.url()}"`)}\
${up('up_keyless', refuses.url(), ', auth: { key_file: /etc/sluice/access-key }')}\
${up('up_credential', refuses.url(), ', auth: { credential: access-key }')}\
${up('up_away', `http://${NOBODY}/ingest`)}\
${up('up_busy', busy.url())}\
${up('up_moved', moved.url())}\
${up('up_plain', busy.url().replace('http:', 'https:'))}\
${up('up_slow', slow.url(), ', timeout: 300ms')}\
`,
  )
  const rotate = async () => {
    const holds = () => daemon.logs().some(line => line.component === 'up_rotated' && line.level === 50)
    await daemon.until(holds)
    writeFileSync(path('etc/other-key'), 'the-new-key')
  }
  return {
    machine,
    cases: {
      'The receiver refuses the access key': as({ upstream: 'up_refused' }),
      'There is no access key': as({ upstream: 'up_keyless' }),
      'There is no credential': as({ upstream: 'up_credential' }),
      'Nothing listens at the address, or the name does not exist': as({ upstream: 'up_away' }),
      'The receiver answers 429 or 5xx': as({ upstream: 'up_busy' }),
      'The address has moved': as({ upstream: 'up_moved' }),
      'The certificate is not accepted': as({ upstream: 'up_plain' }),
      'The receiver takes the request and does not answer': as({ upstream: 'up_slow' }),
      '/readyz answers 503': as({ upstream: 'up_refused' }),
      'The key was rotated': { first: rotate, names: { upstream: 'up_rotated' } },
    },
  }
}

/** Files that are not read, or not as somebody wants them. */
async function files(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  const path = (name: string) => join(machine.folder, 'log', name)
  for (const name of ['new', 'odd', 'loop', 'text', 'mixed']) mkdirSync(path(name))
  symlinkSync('loop.log', path('loop/loop.log'))
  execFileSync('mkfifo', [path('odd/pipe.log')])
  const json = '{"app":"cart","level":"info","n":1}\n'
  writeFileSync(path('new/old.log'), 'was here before\n'.repeat(3))
  writeFileSync(path('long.log'), `${'x'.repeat(5000)}\n`)
  writeFileSync(path('mixed/mixed.log'), `${json}Listening on port 8080\n${json}`)
  for (const name of ['trace.log', 'slow.log']) writeFileSync(path(name), '')
  for (let i = 0; i < 5; i++) writeFileSync(path(`many${i}.log`), json)
  const source = (id: string, include: string, more = '') => `  ${id}: { type: file, include: [${include}]${more} }\n`
  const daemon = await daemonOn(
    t,
    machine,
    `sources:
${source('s_none', '/var/log/shop/*.log')}\
${source('s_loop', '/var/log/loop/*.log')}\
${source('s_odd', '/var/log/odd/*.log')}\
${source('s_end', '/var/log/new/*.log', ', read_from: end')}\
${source('s_long', '/var/log/long.log', ', max_line_bytes: 1024')}\
${source('s_trace', '/var/log/trace.log')}\
${source('s_slow', '/var/log/slow.log', ', partial_line_timeout: 10ms')}\
${source('s_text', '/var/log/text/*.log')}\
${source('s_mixed', '/var/log/mixed/*.log', ', decode: json')}\
${source('s_many', '/var/log/many*.log', ', max_open_files: 2')}\
${source('s_again', '/var/log/many*.log')}\
processors:
  by_ap: { type: throttle, inputs: [s_mixed], limit: 1, window: 1h, key_field: .ap }
destinations:
  out: { type: blackhole, inputs: [s_none, s_loop, s_odd, s_end, s_long, s_trace, s_slow, s_text, by_ap, s_many, s_again] }
`,
  )
  keepWriting(machine, path('trace.log'), 'Error: no such cart\n    at find (cart.js:7)\n')
  keepPausing(machine, path('slow.log'))
  keepWriting(machine, path('text/text.log'), json)
  await daemon.scrapedUntil(scrape => scrape.events('s_mixed').sent === 3)
  const edit = async () => {
    writeFileSync(path('.edited'), `${readFileSync(path('long.log'), 'utf8')}more\n`)
    renameSync(path('.edited'), path('long.log'))
  }
  return {
    machine,
    cases: {
      'No file fits the pattern': as({ app: 's_none' }),
      'It cannot be read': as({ app: 's_loop' }),
      'It is not a file': as({ app: 's_odd' }),
      'It was there before the first start': as({ app: 's_end' }),
      'They are longer than `max_line_bytes`': as({ app: 's_long' }),
      'They are lines of one stack trace': as({ app: 's_trace' }),
      'The program writes them in pieces': as({ app: 's_slow' }),
      'The source does not decode': as({ app: 's_text' }),
      'Some lines are not JSON': as({ app: 's_mixed' }),
      'The field of the key is not there': as({ limit_app: 'by_ap', app: 's_mixed' }),
      'Too few descriptors': as({ app: 's_many' }),
      'Two sources read the same file': as({ app: 's_many', again: 's_again' }),
      'An editor replaced the file': { first: edit },
    },
  }
}

const noise = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => `{"app":"app-${i % 4}","n":${from + i},"text":"${'x'.repeat(200)}"}\n`).join(
    '',
  )

/** Events that are held back, refused, or have no room. */
async function discards(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  await nobodyOn(machine)
  const log = join(machine.folder, 'log/app/app.log')
  writeFileSync(log, noise(0, 20_000))
  const strict = await receiverFor(t, { status: 400, body: 'n is not a number', headers: { 'x-request-id': 'a1b2' } })
  const up = (id: string, input: string, url: string, more = '') =>
    `  ${id}: { type: http, inputs: [${input}], url: "${url}", batch: { max_wait: 10ms }${more} }\n`
  const daemon = await daemonOn(
    t,
    machine,
    `sources: { app: { type: file, include: [/var/log/app/*.log], decode: json } }
processors:
  by_app: { type: throttle, inputs: [app], limit: 1, window: 1h, key_field: .app }
  few_keys: { type: throttle, inputs: [app], limit: 100000, window: 1h, key_field: .app, max_keys: 2, on_max_keys: discard }
destinations:
${up('up_strict', 'by_app', strict.url())}\
${up('up_full', 'app', `http://${NOBODY}/`, ', buffer: { type: disk, max_bytes: 1MB, when_full: drop_newest }')}\
  out: { type: blackhole, inputs: [few_keys] }
`,
  )
  keepWriting(machine, log, noise(100_000, 4))
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_dead_letter_events_total', { component_id: 'up_strict' }) > 0)
  return {
    machine,
    cases: {
      'A throttle has discarded them': as({ limit_app: 'by_app' }),
      'The receiver rejects them': as({ upstream: 'up_strict' }),
      'The disk buffer is full': as({ upstream: 'up_full' }),
      'A throttle has more keys than `max_keys`': as({ limit_app: 'few_keys' }),
    },
  }
}

/** A backlog, and positions that cannot be saved. */
async function behind(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  const log = join(machine.folder, 'log/app/app.log')
  writeFileSync(log, `${'x'.repeat(999)}\n`.repeat(60_000))
  writeFileSync(join(machine.folder, 'log/other.log'), 'one\n')
  // A folder of positions that leads nowhere: there are none, and none can be saved.
  symlinkSync('nowhere', join(machine.folder, 'state/checkpoints'))
  const stuck = await receiverFor(t, { hang: 'after_body' })
  stuck.script.push(200, 200)
  const config = `shutdown_timeout: 1s
sources:
  app: { type: file, include: [/var/log/app/*.log] }
  other: { type: file, include: [/var/log/other.log] }
  web: { type: tcp, listen: "127.0.0.1:${await takenPort(t)}" }
destinations:
  upstream: { type: http, inputs: [app], url: "${stuck.url()}" }
  archive: { type: blackhole, inputs: [app] }
  out: { type: blackhole, inputs: [other, web] }
`
  const daemon = await daemonOn(t, machine, config)
  return {
    machine,
    cases: {
      'The receiver is slower than the writers': {
        first: () => daemon.scrapedUntil(s => s.events('upstream').sent > 0),
      },
      'One destination blocks the others': {},
      'Its port is taken': {},
      'Positions cannot be saved': {},
    },
  }
}

/** Something that has a port already. */
const takenPort = (t: Test) => listening(t, createServer(), '127.0.0.1')

const numbered = (from: number, count: number) => Array.from({ length: count }, (_, i) => `line ${from + i} of a file`)
const textOf = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

/** Two disks without room: that of a file destination, and that of `data_dir`. */
async function fullDisks(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  const path = (name: string) => join(machine.folder, name)
  const mounts = new Mounts()
  machine.onEnd.push(mounts.end)
  mounts.make(path('state'), '1m')
  const lines = numbered(0, 3000)
  writeFileSync(path('log/app/app.log'), textOf(lines.slice(0, 1000)))
  writeFileSync(path('log/kept.log'), textOf(lines))
  mkdirSync(path('log/archive'))
  mounts.make(path('log/archive'), '1m')
  fill(path('log/archive/filler'))
  const receiver = await receiverFor(t, 503)
  const retry = 'retry: { initial: 100ms, max: 500ms }'
  const config = `sources:
  app: { type: file, include: [/var/log/app/*.log] }
  kept: { type: file, include: [/var/log/kept.log] }
  other: { type: file, include: [/var/log/other.log] }
destinations:
  upstream: { type: http, inputs: [app], url: "${receiver.url()}", ${retry}, batch: { max_wait: 10ms }, buffer: { type: disk, max_bytes: 100MB } }
  archive: { type: file, inputs: [kept], path: /var/log/archive/kept.log, ${retry} }
  out: { type: blackhole, inputs: [other] }
`
  const daemon = await daemonOn(t, machine, config)
  const unwritable = (value: number) => daemon.scrapedUntil(scrape => scrape.sum('sluice_buffer_unwritable') === value)
  const fillUp = async () => {
    await daemon.scrapedUntil(scrape => scrape.sum('sluice_buffer_events') === 1000)
    fill(path('state/filler'))
    appendFileSync(path('log/app/app.log'), textOf(lines.slice(1000)))
    await unwritable(1)
    // Its positions are to be saved again and again; that they cannot be is logged after the buffer.
    keepWriting(machine, path('log/other.log'), 'one\n')
  }
  const makeRoom = async (t: Test) => {
    rmSync(path('state/filler'))
    await unwritable(0)
    receiver.otherwise = 200
    await daemon.until(() => receiver.lines().length >= lines.length)
    const arrived = receiver.lines().map(line => (JSON.parse(line) as { message: string }).message)
    // Several requests are under way at a time.
    t.same(arrived.sort(), [...lines].sort(), 'everything arrives once')
    for (const msg of ['writes to the buffer work again', 'positions can be saved again'])
      await daemon.until(() => daemon.logs().some(line => line.msg === msg))
    await daemon.stop(t)
  }
  const otherDisk = async (t: Test) => {
    rmSync(path('log/archive/filler'))
    await daemon.scrapedUntil(scrape => scrape.events('archive').sent === lines.length)
    t.ok(
      readFileSync(path('log/archive/kept.log'), 'utf8') === textOf(lines),
      'everything is in the file once, in order',
    )
  }
  const noMount = mayMount() ? undefined : 'only root can make a small file system, and not in every container'
  return {
    machine,
    cases: {
      'The disk of a file destination is full': { last: otherDisk, skip: noMount },
      'The disk of `data_dir` is full': { first: fillUp, last: makeRoom, skip: noMount },
    },
  }
}

const SMALL = `sources: { app: { type: file, include: [/var/log/app/*.log] } }
destinations: { out: { type: file, inputs: [app], path: /var/lib/sluice/out.log } }
`

/** A configuration that is changed, and a daemon that is killed. */
async function changes(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  writeFileSync(join(machine.folder, 'log/app/app.log'), 'one\n')
  const first = await daemonOn(t, machine, SMALL)
  await first.scrapedUntil(scrape => scrape.events('out').sent === 1)
  first.child.kill('SIGKILL')
  await first.exit
  const daemon = await daemonOn(t, machine, SMALL)
  machine.journal = () => first.stderr + daemon.stderr
  const good = readFileSync(daemon.configPath, 'utf8')
  const refused = () => daemon.logs().filter(({ code }) => code === 'SLUICE_RELOAD_FAILED').length
  const reloaded = (text: string) => async () => {
    const before = refused()
    writeFileSync(daemon.configPath, text)
    daemon.child.kill('SIGHUP')
    await daemon.until(() => refused() > before)
  }
  return {
    machine,
    cases: {
      'The daemon was killed': {},
      'It was not asked to reload': {},
      'The new configuration is wrong': { first: reloaded(good.replace('include:', 'inclde:')) },
      'Another `data_dir` needs a restart': { first: reloaded(good.replace('/state', '/elsewhere')) },
    },
  }
}

/** What keeps a daemon from starting. */
async function starts(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  await daemonOn(t, machine, SMALL)
  const config = (name: string, text: string) => writeFileSync(join(machine.folder, 'etc', name), machine.here(text))
  config('wrong.yaml', `${SMALL.replace('type: file, include', 'type: fil, include')}procesors: {}\n`)
  config('unset.yaml', `${SMALL}  # \${SLUICE_TOKEN}\n`.replace('/*.log', '/${SHOP_NAME}.log'))
  config('again.yaml', `data_dir: /var/lib/sluice\nmetrics: false\n${SMALL}`)
  config('port.yaml', `data_dir: ${machine.folder}/other\nmetrics: { listen: ${METRICS} }\n${SMALL}`)
  const taken = await listening(t, createServer())
  machine.addresses.set(PAGE_ADDRESS, `${HOST}:${taken}`)
  const page = (options: string) =>
    `status_page: { ${options} }\ndata_dir: ${machine.folder}/other\nmetrics: false\n${SMALL}`
  config('page.yaml', page(`listen: '${HOST}:${taken}'`))
  config('reached.yaml', page(`listen: '0.0.0.0:9599'`))
  config('token', 'a-token-that-everyone-can-read')
  chmodSync(join(machine.folder, 'etc/token'), 0o644)
  config('token.yaml', page(`listen: '${HOST}:${taken}', token_file: ${machine.folder}/etc/token`))
  writeFileSync(join(machine.folder, 'state/file'), '')
  config('folder.yaml', `data_dir: /var/lib/sluice/file\nmetrics: false\n${SMALL}`)
  const gone = new Machine(t)
  config('gone.yaml', `data_dir: ${gone.folder}/state\n${SMALL}`)
  const named = (name: string) => ({ '/etc/sluice/sluice.yaml': `/etc/sluice/${name}` })
  /** The journal has the output of a daemon that ends at once. */
  const ends = (name: string, names: Names = {}): Made => ({
    names: { ...named(name), ...names },
    first: async () => {
      const printed = await machine.run(`sluice run --config /etc/sluice/${name}\n`, {})
      machine.journal = () => printed
    },
  })
  return {
    machine,
    cases: {
      'The configuration is wrong': ends('wrong.yaml'),
      'A variable is not set': ends('unset.yaml'),
      'Another daemon has its data_dir': ends('again.yaml'),
      'The port of the metrics is taken': ends('port.yaml'),
      'The port of the page is taken': ends('page.yaml'),
      'The page needs a token': ends('reached.yaml'),
      'The token of the page cannot be used': ends('token.yaml', { '/etc/sluice/page-token': '/etc/sluice/token' }),
      'The data_dir cannot be used': ends('folder.yaml'),
      '`sluice status` finds no daemon': as(named('gone.yaml')),
    },
  }
}

/** A daemon under management, and keys that come to their end. */
async function managed(t: Test): Promise<Scene> {
  const machine = new Machine(t)
  const path = (name: string) => join(machine.folder, name)
  const service = (listen: string) => `metrics: false\nservice: { listen: '${listen}', data_dir: ./service }\n`
  writeFileSync(path('service.yaml'), service('127.0.0.1:0'))
  const init = await command(['admin', 'init', '--config', 'service.yaml', '--json'], { cwd: machine.folder })
  t.equal(init.code, 0, init.stderr)
  const { manager, service_account: account } = JSON.parse(init.stdout) as InitResult
  const start = (args: string[]) => {
    const running = sluice(args, { cwd: machine.folder })
    t.teardown(async () => {
      running.child.kill('SIGKILL')
      await running.exit
    })
    return running
  }
  const serving = start(['serve', '--config', 'service.yaml'])
  const url = await serving.until(() => /"url":"([^"]+)\/v3"/.exec(serving.stderr)?.[1])
  const client = new Client({ url, key: account.key, retries: 0 })
  const owner = new Client({ url, key: manager.key, retries: 0 })
  const out = { type: 'file', inputs: ['ingest'], path: path('out.ndjson') }
  const { id } = await client.pipelines.create({ title: 'app', config: { destinations: { out } } })
  await client.pipelines.publish(id)
  writeFileSync(path('key'), account.key, { mode: 0o600 })
  const expiring = await owner.keys.create({ expires_in: 1 })
  writeFileSync(path('short-key'), expiring.key, { mode: 0o600 })
  writeFileSync(
    path('sluice.yaml'),
    machine.here(`data_dir: /var/lib/sluice
metrics: { listen: 127.0.0.1:0 }
sources: { app: { type: file, include: [/var/log/app/*.log] } }
managed: { allow_files: [${path('out.ndjson')}], poll_interval: 1s, report_interval: 1s }
`),
  )
  const daemon = start([
    'run',
    '--pipeline',
    `${url}/v3/pipeline/${id}`,
    '--key-file',
    path('key'),
    '--config',
    path('sluice.yaml'),
  ])
  machine.journal = () => daemon.stderr
  machine.env = { SLUICE_URL: url, SLUICE_ACCESS_KEY: manager.key }
  await daemon.until(() => daemon.stderr.includes('"started"'))
  const refused = async () => {
    const config = { destinations: { out: { ...out, path: '/etc/motd' } } }
    await client.pipelines.update(id, { config })
    await client.pipelines.publish(id)
    await daemon.until(() => daemon.stderr.includes('SLUICE_REVISION_REFUSED'))
  }
  const away = async () => {
    serving.child.kill('SIGTERM')
    await serving.exit
    await daemon.until(() => daemon.stderr.includes('cannot reach the service;'))
  }
  return {
    machine,
    cases: {
      'The revision may not run on this machine': { first: refused },
      'The key has expired': { first: async () => (machine.env.SLUICE_ACCESS_KEY = expiring.key) },
      'The service is away': { first: away },
    },
  }
}

const SCENES = { deliveryFails, files, discards, behind, fullDisks, changes, starts, managed }
const made = new Set<string>()

const scenes = Object.entries(SCENES).map(([name, scene]) =>
  t.test(name, { buffered: true, timeout: 300_000 }, async t => {
    const { machine, cases: own } = await scene(t)
    for (const [heading, { first, last, names = {}, skip }] of Object.entries(own)) {
      made.add(heading)
      if (skip) {
        t.pass(heading, { skip })
        continue
      }
      const looks = cases.get(heading) ?? []
      t.ok(looks.length > 0, `${heading}: the page shows what is said`)
      await first?.()
      if (first) machine.changed()
      for (const look of looks) await isShown(t, machine, look, names)
      await last?.(t)
    }
  }),
)

async function isShown(t: Test, machine: Machine, { line, commands, shown }: Look, names: Names): Promise<void> {
  if (commands.includes('curl ') && !needs(t, 'curl')) return
  const before = machine.printedBefore(commands, names)
  if (before !== undefined && missingLine(before, shown) === undefined)
    return void t.pass(`${PAGE}:${line} was printed`)
  let said = ''
  const isPrinted = async () => {
    said = await machine.run(commands, names)
    return missingLine(said, shown) === undefined
  }
  await until(`${PAGE}:${line} to be printed`, isPrinted, { every: 200, show: () => [missingLine(said, shown), said] })
  t.pass(`${PAGE}:${line} is printed`)
}

await Promise.all(scenes)
t.test('every case of the page is made', async t => {
  const missing = [...cases.keys()].filter(heading => !made.has(heading))
  t.same(missing, [], 'cases that nobody makes')
  t.ok(cases.size >= 15)
})

t.test('what the page names exists', async t => {
  const text = readFileSync(join(checkout, PAGE), 'utf8')
  const code = readdirSync(join(checkout, 'src'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.name.endsWith('.ts'))
    .map(entry => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('')
  const counters = codecs.map(({ name }) => `sluice_not_${name}_lines_total`)
  for (const name of new Set(text.match(/\b(sluice_[a-z_]+[a-z]|SLUICE_[A-Z_]+[A-Z])\b(?!_?\()/g)))
    t.ok(counters.includes(name) || code.includes(name), `${name} is in the code`)
  const headings = [...text.matchAll(/^##+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
  for (const [, link = ''] of text.matchAll(/\]\(#([^)]+)\)/g))
    t.ok(headings.includes(link), `#${link} leads somewhere`)
})
