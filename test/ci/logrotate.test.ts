import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sleep } from '../../src/lib/time.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { Seeded } from '../support/seeded.js'
import { whileStopped } from '../support/stopped.js'
import { until } from '../support/until.js'

t.setTimeout(3_600_000)

const STEPS = 14
const WAYS = ['nocompress', 'compress', 'compress\n delaycompress']

/** A log that logrotate copies and truncates while it is read, and which of its lines arrived. */
class Rotating {
  readonly path: string
  readonly #folder: string
  readonly #random: Seeded
  readonly #banner: string
  #written = 0

  constructor(folder: string, random: Seeded) {
    this.#folder = folder
    this.#random = random
    this.path = join(folder, 'app.log')
    // Logs that all begin with the same lines are hard to tell apart.
    this.#banner = random.pick(['', '# a short header\n', `# ${'the same long header '.repeat(70)}\n`])
    chmodSync(folder, 0o755)
    writeFileSync(this.path, this.#banner)
  }

  get written(): number {
    return this.#written
  }

  append(lines: number): void {
    let text = ''
    for (const end = this.#written + lines; this.#written < end; this.#written++)
      text += `${this.#line(this.#written)}\n`
    appendFileSync(this.path, text)
  }

  #line(i: number): string {
    return `${String(i).padStart(8, '0')} ${'x'.repeat((i * 7919) % 97)}`
  }

  /** Nothing is written meanwhile: what comes between the copy and the truncation is in neither. */
  rotate(logrotate: string, way: string): void {
    const config = join(this.#folder, 'logrotate.conf')
    const text = `${this.path} {\n rotate 99\n copytruncate\n ${way}\n}\n`
    writeFileSync(config, text, { mode: 0o600 })
    execFileSync(logrotate, ['--force', '--state', join(this.#folder, 'logrotate.state'), config])
    // Some programs write their header again.
    if (this.#random.chance(0.8)) appendFileSync(this.path, this.#banner)
  }

  /** How often each line arrived. */
  arrived(): number[] {
    const out = join(this.#folder, 'out.log')
    const counts = new Array<number>(this.#written).fill(0)
    for (const text of existsSync(out) ? readFileSync(out, 'utf8').split('\n') : []) {
      const i = Number(text.slice(0, 8))
      // A kill in the middle of a write leaves a part of a line, which comes whole afterwards.
      if (text.length > 8 && this.#line(i) === text) counts[i]!++
    }
    return counts
  }

  missing(): number[] {
    return [...this.arrived().entries()].filter(([, count]) => count === 0).map(([i]) => i)
  }

  /** What there is to be known of a failure. */
  state(): Record<string, unknown> {
    const names = readdirSync(this.#folder).filter(name => name.startsWith('app.log'))
    const checkpoint = join(this.#folder, 'state/checkpoints/log.json')
    return {
      files: names.map(name => [name, statSync(join(this.#folder, name)).size]),
      checkpoint: existsSync(checkpoint) ? readFileSync(checkpoint, 'utf8') : undefined,
    }
  }
}

function start(t: Test, folder: string, pattern: string): Promise<Daemon> {
  const yaml = `
sources: { log: { type: file, include: ['${pattern}'], exclude: ['*.gz'], rotate_wait: 500ms, scan_interval: 200ms } }
destinations: { copy: { type: file, inputs: [log], path: out.log, batch: { max_events: 200, max_wait: 20ms } } }
`
  return startDaemon(t, folder, yaml)
}

/** Appends, rotates, ends and kills at random. What a copy still has must arrive, and again only after a kill. */
async function run(t: Test, seed: number, logrotate: string): Promise<void> {
  const random = new Seeded(seed * 2_654_435_761)
  const folder = testFolder(t)
  const log = new Rotating(folder, random)
  const pattern = random.pick(['app.log', 'app.log*'])
  const way = random.pick(WAYS)
  let kills = 0
  const steps: unknown[] = [pattern, way]
  const daemons: Daemon[] = []
  let daemon: Daemon | undefined
  const begin = async () => {
    daemon = await start(t, folder, pattern)
    daemons.push(daemon)
    return daemon
  }
  daemon = await begin()
  // Of a file that no daemon ever saw nothing can be known. The first checkpoint may be older than the first search.
  const checkpoint = join(folder, 'state/checkpoints/log.json')
  await daemon.until(() => fileText(checkpoint).includes(log.path))
  const end = async (signal: 'SIGKILL' | 'SIGTERM') => {
    daemon?.child.kill(signal)
    await daemon?.exit
    if (daemon && signal === 'SIGKILL') kills++
    if (daemon) steps.push(log.state())
    daemon = undefined
  }
  for (let i = 0; i < STEPS; i++) {
    const what = random.next()
    const before = log.written
    log.append(random.pick([1, 20, 300, 3000]))
    if (random.chance(0.3)) await sleep(random.below(300))
    steps.push(
      `${before}-${log.written} ${what < 0.5 ? 'rotate' : what < 0.65 ? 'kill' : what < 0.75 ? 'end' : 'start'}`,
    )
    if (what < 0.5) log.rotate(logrotate, way)
    else if (what < 0.65) await end('SIGKILL')
    else if (what < 0.75) await end('SIGTERM')
    else if (!daemon) await begin()
  }
  log.append(1)
  daemon ??= await begin()
  // What is missing is told below.
  await until('all lines', () => log.missing().length === 0, { every: 100 }).catch(() => {})
  const missing = log.missing()
  const known = missing.length === 0 ? {} : { steps, ...log.state(), logs: daemons.map(one => one.logs()) }
  t.same(missing.slice(0, 20), [], `seed ${seed}: every line of ${log.written} arrived`, known)
  const most = Math.max(...log.arrived())
  t.ok(most <= kills + 1, `seed ${seed}: a line arrived ${most} times, with ${kills} kills`)
  const bad = daemon.logs().filter(({ level }) => Number(level) >= 50)
  t.same(bad, [], `seed ${seed}: no error is logged`)
  await end('SIGTERM')
}

t.test('copied and truncated by logrotate, with kills: what a copy has arrives', async t => {
  const logrotate = needs(t, 'logrotate')
  if (!logrotate || !needs(t, 'gzip')) return
  const from = Number(process.env.SLUICE_SEED ?? 1)
  const seeds = Number(process.env.SLUICE_SEEDS ?? 2)
  for (let seed = from; seed < from + seeds; seed++) await t.test(`seed ${seed}`, t => run(t, seed, logrotate))
})

t.test('truncated by hand: the number of bytes that nobody read is logged and counted', async t => {
  const folder = testFolder(t, { 'app.log': 'first\n' })
  const path = join(folder, 'app.log')
  const daemon = await start(t, folder, 'app.log')
  await daemon.until(() => existsSync(join(folder, 'out.log')) && readFileSync(join(folder, 'out.log')).length > 0)
  await whileStopped(daemon.pid, () => {
    appendFileSync(path, 'second\n')
    truncateSync(path)
    appendFileSync(path, 'third\n')
  })
  await daemon.until(() => readFileSync(join(folder, 'out.log'), 'utf8').includes('third'))
  const line = daemon.logs().find(({ msg }) => String(msg).startsWith('file was truncated'))
  t.match(line, { level: 40, file: path, read_bytes: 6, unread_bytes: 0 })
  await daemon.stop(t)
})

const LINES = ['{"level":"info","n":1}', 'not JSON', '{"n":2', '  {"level":"error"} ']

const config = (inputs: string, rest = '', encoding = 'raw') => `
sources: { log: { type: file, include: [in.log], decode: json } }
${rest}
destinations: { copy: { type: file, inputs: [${inputs}], path: copy.log, encoding: ${encoding} } }
`
const FILTER = `processors: { errors: { type: filter, inputs: [log], condition: "if (NOT .level equal 'error')" } }`
const LIMIT = 'processors: { limit: { type: throttle, inputs: [log], limit: 1000, window: 1 Hours } }'

t.test('lines that are only copied are not decoded, and are as they were', async t => {
  for (const [name, yaml] of [
    ['from a source to a file', config('log')],
    ['behind a throttle without a key', config('limit', LIMIT)],
  ] as const) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), `${LINES.join('\n')}\n`)
    const daemon = await startDaemon(t, folder, yaml)
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === LINES.length)
    t.equal(scrape.sum('sluice_not_json_lines_total'), 0, name)
    t.equal(readFileSync(join(folder, 'copy.log'), 'utf8'), `${LINES.join('\n')}\n`, name)
    await daemon.stop(t)
  }
})

t.test('lines that are no JSON are counted as soon as anything looks at events', async t => {
  for (const [name, yaml] of [
    ['a condition', config('errors', FILTER)],
    ['a destination that writes JSON', config('log', '', 'json')],
    ['a disk buffer', config('log').replace('type: file, inputs', 'type: file, buffer: { type: disk }, inputs')],
  ] as const) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), `${LINES.join('\n')}\n`)
    const daemon = await startDaemon(t, folder, yaml)
    await daemon.scrapedUntil(scrape => scrape.sum('sluice_not_json_lines_total') === 2)
    t.pass(name)
    await daemon.stop(t)
  }
})

t.test('records that cannot be read are counted once, whatever becomes of them', async t => {
  for (const encoding of ['raw', 'json']) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), Buffer.from('91018091028181', 'hex'))
    const daemon = await startDaemon(t, folder, config('log', '', encoding).replace('decode: json', 'decode: msgpack'))
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 3)
    t.equal(scrape.sum('sluice_not_msgpack_lines_total'), 2, encoding)
    await daemon.stop(t)
  }
})

t.test('a reload begins to decode, and ends it', async t => {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'in.log'), 'no JSON\n')
  const daemon = await startDaemon(t, folder, config('log'))
  const counted = (scrape: { sum(name: string): number }) => scrape.sum('sluice_not_json_lines_total')
  const reload = async (yaml: string, events: number, expected: number) => {
    const before = daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length
    const file = join(folder, 'sluice.yaml')
    const head = readFileSync(file, 'utf8').split('sources:')[0]!
    writeFileSync(file, `${head}${yaml.trimStart()}`)
    daemon.child.kill('SIGHUP')
    await daemon.until(() => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length === before + 1)
    appendFileSync(join(folder, 'in.log'), 'no JSON\n')
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === events)
    t.equal(counted(scrape), expected)
  }
  t.equal(counted(await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 1)), 0)
  await reload(config('errors', FILTER), 2, 1)
  await reload(config('log'), 3, 1)
  await daemon.stop(t)
})
