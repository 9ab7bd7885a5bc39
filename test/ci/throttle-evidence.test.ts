import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon, type Totals } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

/** What a throttle says of the events that it does not let pass, in the real program. */

interface Line {
  readonly app?: string
  readonly message?: string
  readonly throttle?: {
    readonly bucket: string | null
    readonly limit?: number
    readonly discarded_events?: number
    readonly discarded_bytes?: number
  }
}

const KEYS = 'sluice_throttle_key_discarded_events_total'
const lines = (...apps: string[]) => apps.map((app, n) => `${JSON.stringify({ app, n })}\n`).join('')
const times = (n: number, app: string) => new Array(n).fill(app) as string[]

/** `lenient`: leaves out lines that are not JSON. */
function read(folder: string, name: string, lenient = false): Line[] {
  const path = join(folder, name)
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  return text
    .split('\n')
    .slice(0, -1)
    .filter(line => !lenient || line.startsWith('{'))
    .map(line => JSON.parse(line) as Line)
}

const sum = (found: readonly Line[]) => found.reduce((all, { throttle }) => all + (throttle?.discarded_events ?? 0), 0)
const discards = ({ discarded }: Totals, id: string) =>
  Object.values(discarded[id] ?? {}).reduce((all, events) => all + events, 0)

const SOURCE = 'sources: { app: { type: file, include: [in.log], decode: json } }\n'

t.test('every discard is in a file, in a summary and in the metrics, through reloads and a stop', async t => {
  const folder = testFolder(t, { 'in.log': '' })
  const config = (limit: number) => `${SOURCE}processors:
  limit_app:
    type: throttle
    inputs: [app]
    limit: ${limit}
    window: 1 Hours
    key_field: .app
    annotate: true
    summary: { every: 300ms, to: both, max_per_interval: 2 }
    per_key_metrics: { top: 2 }
  again: { type: throttle, inputs: [limit_app.discarded], limit: 1, window: 1 Hours, key_field: .app }
destinations:
  passed: { type: file, inputs: [limit_app], path: passed.log }
  held_back: { type: file, inputs: [limit_app.discarded], path: held-back.log }
  few: { type: file, inputs: [again], path: few.log }
`
  const daemon = await startDaemon(t, folder, config(1))
  const write = (...apps: string[]) => appendFileSync(join(folder, 'in.log'), lines(...apps))
  write(...times(6, 'a'), ...times(4, 'b'), ...times(3, 'c'), ...times(2, '__other__'))
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('limit_app').discarded === 11)
  const discarded = scrape.all(KEYS).map(({ labels: { component_id, key }, value }) => [component_id, key, value])
  t.same(discarded, [
    ['limit_app', 'a', 5],
    ['limit_app', 'b', 3],
    ['limit_app', '__other__', 3],
  ])
  const promtool = needs(t, 'promtool')
  if (promtool) {
    const checked = spawnSync(promtool, ['check', 'metrics'], { input: scrape.text, encoding: 'utf8' })
    t.same([checked.status, checked.stderr], [0, ''], 'promtool check metrics')
  }
  await daemon.until(() => sum(read(folder, 'passed.log')) === 11)
  for (const limit of [1, 2]) {
    write(...times(3, 'a'), ...times(2, `new-${limit}`))
    writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').replace(/limit: \d/, `limit: ${limit}`))
    const before = daemon.stderr.split('configuration reloaded').length
    daemon.child.kill('SIGHUP')
    await daemon.until(() => daemon.stderr.split('configuration reloaded').length > before)
    ;(await daemon.scrape()).conserves(t)
  }
  write(...times(5, 'z'))
  const last = await daemon.scrapedUntil(scrape => {
    const { received, inFlight } = scrape.events('limit_app')
    return received >= 30 && inFlight === 0
  })
  const all = last.events('limit_app').discarded
  t.equal(last.sum(KEYS), all, 'by key')
  const totals = await daemon.stop(t)
  t.equal(discards(totals, 'limit_app'), all)
  const [passed, held] = [read(folder, 'passed.log'), read(folder, 'held-back.log')]
  t.equal(sum(passed), all, 'summaries with what passed')
  t.equal(sum(held), all, 'summaries with what was discarded')
  t.ok(passed.some(({ throttle }) => throttle?.bucket === '__other__'))
  const annotated = held.filter(({ message }) => message === undefined)
  t.equal(annotated.length, all)
  for (const { app, throttle } of annotated)
    t.match(throttle, { component: 'limit_app', bucket: app, limit: Number, count: Number })
  t.ok(read(folder, 'few.log').length > 3, 'another throttle reads what was discarded')
})

t.test('a throttle in shadow beside the live one shows what another limit would do, and changes nothing', async t => {
  const folder = testFolder(t, { 'in.log': lines(...times(6, 'a'), ...times(2, 'b')) })
  const config = `${SOURCE.replace('{ type: file,', '{ type: file, follow: false,')}processors:
  limit_app: { type: throttle, inputs: [app], limit: 4, window: 1 Hours, key_field: .app }
  try_less: { type: throttle, inputs: [app], limit: 1, window: 1 Hours, key_field: .app, mode: shadow, summary: { to: discarded }, per_key_metrics: {} }
destinations:
  out: { type: file, inputs: [limit_app], path: out.log }
  would: { type: file, inputs: [try_less.discarded], path: would.log }
`
  const daemon = await startDaemon(t, folder, config)
  t.notMatch(daemon.stderr, /nobody reads/)
  const totals = await daemon.ended(t)
  t.match(totals, { received: 8, passed: 6, discarded: { limit_app: { throttled_backlog: 2 } }, undelivered: 0 })
  t.equal(totals.discarded.try_less, undefined)
  t.match(read(folder, 'would.log'), [
    { message: 'would be throttled', throttle: { mode: 'shadow', bucket: 'a', discarded_events: 5 } },
    { message: 'would be throttled', throttle: { mode: 'shadow', bucket: 'b', discarded_events: 1 } },
  ])
})

t.test('marked lines go out as JSON, all others byte for byte', async t => {
  const folder = testFolder(t, { 'in.log': '{"app": "a"}\n{"app": "a" }\n{"app" : "b"}\n' })
  const config = `${SOURCE.replace('{ type: file,', '{ type: file, follow: false,')}processors:
  limit_app: { type: throttle, inputs: [app], limit: 1, window: 1 Hours, key_field: .app, over_limit: mark }
destinations: { out: { type: file, inputs: [limit_app], path: out.log, encoding: raw } }
`
  const daemon = await startDaemon(t, folder, config)
  t.match(await daemon.ended(t), { received: 3, passed: 3, discarded: {} })
  t.equal(
    readFileSync(join(folder, 'out.log'), 'utf8'),
    '{"app": "a"}\n{"app": "a" ,"throttle":{"component":"limit_app","bucket":"a","limit":1,"window_ms":3600000,"count":1}}\n{"app" : "b"}\n',
  )
})

/** Keys that break what is careless with them. */
const ODD_KEYS = [
  'a\nb',
  'a\r\nb',
  '\u0000\u001b[31mred',
  '"quoted" \\ \'key\'',
  '=,{}"}\n# HELP x',
  '\u2028\u202e\u0085',
  'k'.repeat(10_240),
  `${'k'.repeat(10_240)}2`,
  '😀'.repeat(2500),
  '\ud800',
  '__other__',
  '___other__',
  '__default__',
  '',
  null,
  0,
  true,
  { a: 1 },
  [1, 2],
]

t.test('keys of any kind break neither metrics, nor annotated events, nor summaries', async t => {
  const folder = testFolder(t, { 'in.log': '' })
  const evidence = 'annotate: true, summary: { every: 200ms, to: both }, per_key_metrics: { top: 1000 }'
  const config = `${SOURCE.replace('decode: json }', 'decode: json }, text: { type: file, include: [in.log], decode: text }')}processors:
  limit_app: { type: throttle, inputs: [app], limit: 1, window: 1 Hours, key_field: .app, ${evidence} }
  several: { type: throttle, inputs: [app], limit: 1, window: 1 Hours, key_field: [.app, .zone], ${evidence} }
  lines: { type: throttle, inputs: [text], limit: 1, window: 1 Hours, key_field: .message, ${evidence} }
destinations:
  passed: { type: file, inputs: [limit_app, several, lines], path: passed.log }
  held_back: { type: file, inputs: [limit_app.discarded, several.discarded, lines.discarded], path: held-back.log }
`
  const daemon = await startDaemon(t, folder, config)
  const all = ODD_KEYS.map(app => `${JSON.stringify({ app, throttle: 'mine' })}\n`)
  appendFileSync(join(folder, 'in.log'), [...all, ...all, 'no JSON\n', 'no JSON\n', ...all].join(''))
  const events = 3 * all.length + 2
  const ids = ['limit_app', 'several', 'lines']
  const scrape = await daemon.scrapedUntil(scrape => ids.every(id => scrape.events(id).received === events))
  const labels = new Map(ids.map(id => [id, [] as string[]]))
  for (const line of scrape.text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [, name, own = ''] = /^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\[\\n"])*",?)*)\})? \S+$/.exec(line) ?? []
    if (name === undefined) t.fail(`not a line: ${JSON.stringify(line)}`)
    const [, id, key] = /^component_id="(\w+)",key="(.*)"$/s.exec(own) ?? []
    if (name === KEYS) labels.get(id!)!.push(key!)
  }
  for (const [id, keys] of labels) {
    t.equal(new Set(keys).size, keys.length, `no two series of ${id} are the same`)
    t.ok(
      keys.every(key => key !== '' && Buffer.byteLength(key) < 300),
      'each has a length that is bounded',
    )
    t.equal(scrape.sum(KEYS, { component_id: id }), scrape.events(id).discarded)
  }
  const promtool = needs(t, 'promtool')
  if (promtool) t.equal(spawnSync(promtool, ['check', 'metrics'], { input: scrape.text }).status, 0)
  const totals = await daemon.stop(t)
  const [passed, held] = [read(folder, 'passed.log', true), read(folder, 'held-back.log')]
  const lost = ids.reduce((sum, id) => sum + discards(totals, id), 0)
  t.equal(sum(passed), lost)
  t.equal(sum(held), lost)
  const annotated = held.filter(({ throttle }) => throttle?.limit === 1)
  t.equal(annotated.length, lost, 'every discarded event is annotated, whatever it had there')
})
