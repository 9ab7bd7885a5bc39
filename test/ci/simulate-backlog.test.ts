import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { callSimulate } from '../support/simulate.js'

/** The same file and the same configuration, in `sluice run` at its first start and in `sluice simulate`. */

const START = Date.UTC(2026, 10, 20, 10)
const HOUR_MS = 3_600_000

const configOf = (throttle: string, before = '') => `
sources: { app: { type: file, include: [app.log], decode: json, follow: false } }
processors:${before}
  limit_app: { type: throttle, inputs: [${before === '' ? 'app' : 'first'}], key_field: .app, ${throttle} }
destinations: { out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw } }
`

/** Lines of two apps over three hours: bursts that are over the limits of the tests, and some late ones. */
const LINES = Array.from({ length: 180 }, (_, n) => {
  const burst = Math.floor(n / 30)
  const late = n % 45 === 44 ? 1.5 * HOUR_MS : 0
  const time = new Date(START + (burst * HOUR_MS) / 2 + (n % 30) * 20 - late).toISOString()
  return `${JSON.stringify({ time, app: n % 3 === 0 ? 'cart' : 'shop', n })}\n`
})

/** The numbers of the lines that passed: at a first start, and simulated; and what the simulation says. */
async function both(t: Test, throttle: string, before?: string) {
  const folder = testFolder(t, { 'app.log': LINES.join('') })
  const log = join(folder, 'app.log')
  const daemon = await startDaemon(t, folder, configOf(throttle, before).replace('app.log', log))
  const { discarded, undelivered } = await daemon.ended(t)
  t.equal(undelivered, 0)
  const out = join(folder, 'out.ndjson')
  const ran = existsSync(out) ? readFileSync(out, 'utf8').split('\n').filter(Boolean) : []
  const args = [daemon.configPath, '--component', 'limit_app', '--time', '.time']
  const simulated = await callSimulate([...args, '--decisions', log])
  t.equal(simulated.code, 0, simulated.stderr)
  const decisions = simulated.stdout.split('\n').filter(Boolean)
  const passed = decisions.map(line => JSON.parse(line)).filter(({ decision }) => decision !== 'discard')
  const inOrder = (all: number[]) => all.sort((a, b) => a - b)
  return {
    ran: inOrder(ran.map(line => JSON.parse(line).n)),
    simulated: inOrder(passed.map(({ n }) => n)),
    summary: simulated.stderr.replaceAll(/\n +/g, ' '),
    discarded: discarded.limit_app ?? {},
    changed: (...more: string[]) => callSimulate([...args, ...more, log]),
    configPath: daemon.configPath,
  }
}

const passes = (count: number) => (numbers: readonly number[]) => numbers.length === count
const some = (numbers: readonly number[]) => numbers.length > 20 && numbers.length < LINES.length

t.test('where backlog is kept and in the time of the events, both decide alike', async t => {
  for (const [throttle, isExpected] of [
    ['limit: 60, window: 500ms, on_backlog: pace', passes(180)],
    // What waits an hour for room does so in vain.
    ['limit: 10, window: 1h, on_backlog: pace, max_delay: 1m', passes(20)],
    ['limit: 10, window: 1h, on_backlog: pace, max_delay: 1m, over_limit: { pass_one_in: 4 }', passes(20 + 27 + 12)],
    ['limit: 60, window: 500ms, on_backlog: pace, over_limit: { wait: 1ms }', passes(180)],
    ['limit: 10, window: 1h, on_backlog: pass', passes(180)],
    ['limit: 10, window: 1h, time_field: .time', some],
    ['limit: 10, window: 1h, time_field: auto, window_mode: aligned, on_late: discard', some],
    ['limit_bytes: 1KB, window: 1h, time_field: .time', some],
  ] as const) {
    const { ran, simulated } = await both(t, throttle)
    t.same(ran, simulated, throttle)
    t.ok(isExpected(ran), `${throttle}: ${ran.length}`)
  }
})

t.test('with --backlog, all events are read at once after the last one', async t => {
  const folder = testFolder(t, { 'app.log': LINES.join('') })
  const log = join(folder, 'app.log')
  const passedWith = async (throttle: string, ...more: string[]) => {
    writeFileSync(join(folder, 'sluice.yaml'), configOf(throttle))
    const args = [join(folder, 'sluice.yaml'), '--component', 'limit_app', '--time', '.time', '--json', ...more]
    const { stdout, code, stderr } = await callSimulate([...args, '--backlog', log])
    t.equal(code, 0, stderr)
    const [{ by_key }] = JSON.parse(stdout).results
    return Object.fromEntries(by_key.map(({ key, passed }: { key: string; passed: number }) => [key, passed]))
  }
  // The lines are of four hours.
  t.same(await passedWith('limit: 10, window: 1h'), { shop: 50, cart: 50 })
  t.same(await passedWith('limit: 10, window: 1h, max_credit: 90m'), { shop: 30, cart: 30 })
  t.same(await passedWith('limit: 10, window: 1h, on_backlog: as_live'), { shop: 10, cart: 10 })
  t.same(await passedWith('limit: 10, window: 1h, on_backlog: pass'), { shop: 120, cart: 60 })
  t.same(await passedWith('limit: 10, window: 1h', '--limit', '5'), { shop: 25, cart: 25 })
  const refused = await callSimulate([join(folder, 'sluice.yaml'), '--backlog', '--budget', '1MB per day', log])
  t.match(refused, { code: 2, stderr: /--backlog is for given limits/ })
})

t.test('what is before the throttle gets backlog, too', async t => {
  const throttle = 'limit: 60, window: 500ms, on_backlog: pace'
  for (const [before, count] of [
    ['first: { type: dedupe, inputs: [app], fields: [.app], window: 1h }', 2],
    ['first: { type: throttle, inputs: [app], limit: 70, window: 1h }', 70],
    ['first: { type: throttle, inputs: [app], limit: 70, window: 1h, on_backlog: pass }', 180],
    ['first: { type: throttle, inputs: [app], limit: 120, window: 200ms, on_backlog: pace }', 180],
  ] as const) {
    const { ran, simulated } = await both(t, throttle, `\n  ${before}`)
    t.same(ran, simulated, before)
    t.equal(ran.length, count, before)
  }
})

t.test('as_live: simulate says how many events the daemon discards, and how many in their own time', async t => {
  for (const option of ['', ', on_backlog: as_live, over_limit: { wait: 1s }']) {
    const { ran, simulated, summary, discarded, configPath } = await both(t, `limit: 10, window: 1h${option}`)
    t.same(discarded, { throttled_backlog: 160 }, 'it is backlog, although nothing was read before')
    t.equal(ran.length, 20)
    t.ok(some(simulated), `${simulated.length}`)
    const live = LINES.length - simulated.length
    const text = `if they count as live events, 160 are discarded; if they count in event time, ${live} are discarded`
    t.ok(summary.includes(text), summary)
    const validated = async () => (await command(['validate', configPath])).stderr
    t.notMatch(await validated(), /first start/, 'it has started')
    rmSync(join(dirname(configPath), 'state'), { recursive: true })
    t.match(
      await validated(),
      /limit_app.*lines of app that were written before (a|the first) start arrive all at once, .* a first start would read/,
    )
  }
})

t.test('pace: simulate says what is discarded live, and another limit is tried on live events', async t => {
  const { summary, changed } = await both(t, 'limit: 60, window: 400ms, on_backlog: pace')
  t.match(
    summary,
    /^on_backlog pace: all events are backlog here; events that find room within 1h 0m are shown as passed$/m,
  )
  t.match(summary, /^waited +60 events passed later, the last one 401ms after the start$/m)
  t.notMatch(summary, /^backlog/m, 'the same are discarded live: none')
  const { stdout } = await changed('--limit', '10')
  t.match(stdout, /^discarded +\d\d\d? /m)
  t.match(stdout.replaceAll(/\n +/g, ' '), /nothing is backlog here, all events count as live/)
  const strict = await both(t, 'limit: 10, window: 1h, on_backlog: pass')
  t.match(
    strict.summary,
    /^backlog +as backlog, 0 events are discarded; as live events in event time, 120 would be discarded$/m,
  )
})

t.test('backlog is read as fast as what waits has room, so nothing waits too long', async t => {
  const lines = Array.from({ length: 100_000 }, (_, n) => `{"time":${START},"n":${n}}\n`)
  const folder = testFolder(t, { 'app.log': lines.join('') })
  const config = join(folder, 'sluice.yaml')
  const of = (most: string) =>
    `sources: { app: { type: file, include: [app.log], decode: json } }
processors: { it: { type: throttle, inputs: [app], limit: 5000, window: 1s, on_backlog: pace, max_delay: ${most} } }
destinations: { out: { type: blackhole, inputs: [it] } }
`
  const passed = async (most: string) => {
    writeFileSync(config, of(most))
    const { stdout, stderr } = await callSimulate([config, '--json', join(folder, 'app.log')])
    return JSON.parse(stdout || stderr).results[0].passed
  }
  // 10,000 events wait at most.
  t.equal(await passed('3s'), 100_000)
  t.ok((await passed('1500ms')) < 90_000)
})
