import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { until } from '../support/until.js'

/** What a throttle does while a source catches up, with the real daemon. */

/** No test takes so long: what is over the limit waits until a reload or the next start brings a shorter window. */
const LONG = '30 Minutes'
const SHORT = '1 Seconds'

const configOf = (throttle: string, window = LONG) => `
shutdown_timeout: 1 Hours
sources:
  app: { type: file, include: [app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], window: ${window}, ${throttle} }
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`

const lines = (from: number, to: number, more = {}) =>
  Array.from({ length: to - from }, (_, i) => `${JSON.stringify({ n: from + i, ...more })}\n`).join('')

function textsIn(folder: string, name = 'out.ndjson'): string[] {
  const path = join(folder, name)
  if (!existsSync(path)) return []
  const whole = readFileSync(path, 'utf8')
  return whole
    .slice(0, whole.lastIndexOf('\n') + 1)
    .split('\n')
    .filter(Boolean)
}

const numbersIn = (folder: string, name?: string): number[] => textsIn(folder, name).map(line => JSON.parse(line).n)

/** A file that was read to its end before, and went on while the daemon did not run. */
async function missed(t: Test, config: string, from: number, to: number, more = {}): Promise<string> {
  const folder = testFolder(t, { 'app.log': lines(0, from, more) })
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.events('out').sent === from)
  await daemon.stop(t)
  appendFileSync(join(folder, 'app.log'), lines(from, to, more))
  return folder
}

const DISCARDS = 'sluice_component_discarded_events_total'
const all = (to: number) => Array.from({ length: to }, (_, n) => n)

/** Waits until so many events are decided, and those that passed are written. */
async function settled(daemon: Daemon, events: number) {
  return daemon.scrapedUntil(scrape => {
    const { sent, discarded } = scrape.events('limit_app')
    return sent + discarded >= events && scrape.events('out').sent === sent
  })
}

/** Lets the daemon read its configuration again, with this window. */
async function reload(daemon: Daemon, window: string): Promise<void> {
  const reloads = () => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length
  const before = reloads()
  writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').replace(LONG, window))
  daemon.child.kill('SIGHUP')
  await daemon.until(() => reloads() > before)
}

t.test(
  'what a source missed passes up to the sum of its windows, and what exceeds it has a reason of its own',
  async t => {
    const config = configOf('limit: 20')
    const folder = await missed(t, config, 5, 105)
    const daemon = await startDaemon(t, folder, config)
    const scrape = await settled(daemon, 100)
    // The window in which the daemon stopped, and one more.
    t.equal(scrape.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled_backlog' }), 60)
    t.ok(daemon.logs().some(({ code, msg }) => code === 'SLUICE_THROTTLED_BACKLOG' && /on average/.test(`${msg}`)))
    const status = await command(['status', '--config', daemon.configPath])
    t.match(status.stdout, /limit_app has discarded 60 events since the daemon started: throttled_backlog/)
    t.match(status.stdout, /on_backlog: pace/)
    // What comes now is live.
    appendFileSync(join(folder, 'app.log'), lines(105, 165))
    const later = await settled(daemon, 160)
    t.equal(later.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled_backlog' }), 60)
    t.equal(later.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled' }), 60)
    const { discarded } = await daemon.stop(t)
    t.equal(discarded.limit_app?.throttled_backlog, 60)
  },
)

t.test('with as_live, and at a first start, the running window decides', async t => {
  const asLive = configOf('limit: 20, on_backlog: as_live')
  const folder = await missed(t, asLive, 5, 105)
  const daemon = await startDaemon(t, folder, asLive)
  const scrape = await settled(daemon, 100)
  t.equal(scrape.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled_backlog' }), 80)
  await daemon.stop(t)
  const first = await startDaemon(t, testFolder(t, { 'app.log': lines(0, 100) }), configOf('limit: 20'))
  t.equal((await settled(first, 100)).sum(DISCARDS, { reason: 'throttled_backlog' }), 80)
  // It had never read all lines before the last ones, and then it had.
  await first.stop(t)
})

t.test('on_backlog: pass and pace lose nothing of it', async t => {
  for (const how of ['pass', 'pace']) {
    const config = configOf(`limit: 40, on_backlog: ${how}`)
    const folder = await missed(t, config, 5, 105)
    const daemon = await startDaemon(t, folder, config)
    if (how === 'pace') {
      await daemon.scrapedUntil(
        scrape => scrape.events('out').sent === 40 && scrape.events('limit_app').inFlight === 60,
      )
      await reload(daemon, SHORT)
    }
    const scrape = await settled(daemon, 100)
    t.equal(scrape.sum(DISCARDS), 0, how)
    if (how === 'pass') t.equal(scrape.sum('sluice_throttle_events_total', { decision: 'backlog' }), 100)
    await daemon.stop(t)
    t.same(numbersIn(folder), all(105), how)
  }
})

for (const [how, option] of [
  ['stopped', ', on_backlog: pace'],
  ['stopped', ''],
  ['killed', ''],
  ['paused', ''],
])
  t.test(`an app within its limit loses nothing when the daemon was ${how} for seconds${option}`, async t => {
    const config = configOf(`limit: 200, key_field: .app${option}`, SHORT)
    const folder = testFolder(t, { 'app.log': '' })
    const rates = { slow: 50, steady: 120 }
    const counts: Record<string, number> = {}
    // After a kill, some lines come twice.
    const delivered = () => new Set(textsIn(folder)).size
    let written = 0
    let isDown = false
    let elapsedMs = 0
    let last = performance.now()
    const write = () => {
      // A writer that was late must not catch up: that would be more than the limit.
      const now = performance.now()
      const passedMs = Math.min(now - last, 50)
      last = now
      // A slow daemon must not find many lines at once either: they count when it reads them.
      if (!isDown && written - delivered() > 30) return
      elapsedMs += passedMs
      const text = Object.entries(rates).map(([app, rate]) => {
        const due = Math.floor((elapsedMs * rate) / 1000)
        const from = counts[app] ?? 0
        counts[app] = due
        written += due - from
        return lines(from, due, { app })
      })
      appendFileSync(join(folder, 'app.log'), text.join(''))
    }
    // Not before the daemon runs: what a first read finds is no backlog, and may be more than the limit after a slow start.
    const first = await startDaemon(t, folder, config)
    const writer = setInterval(write, 10)
    t.teardown(() => clearInterval(writer))
    let daemon = first
    const show = () => `${delivered()} of ${written} lines, ${daemon.stderr}`
    const growsBy = (lines: number) => {
      const before = written
      return until(`${lines} more lines`, () => written >= before + lines, { show })
    }
    await growsBy(200)
    // Without a saved time, the next start is a first one.
    const positions = join(folder, 'state/checkpoints/app.json')
    const isTimeSaved = () => existsSync(positions) && /"caught_up":\d/.test(readFileSync(positions, 'utf8'))
    await until('a saved time', isTimeSaved, { show })
    if (how === 'stopped') await first.stop(t)
    else {
      first.child.kill(how === 'killed' ? 'SIGKILL' : 'SIGSTOP')
      if (how === 'killed') await first.exit
    }
    isDown = true
    await growsBy(400)
    isDown = false
    if (how === 'paused') first.child.kill('SIGCONT')
    if (how !== 'paused') daemon = await startDaemon(t, folder, config)
    await growsBy(400)
    clearInterval(writer)
    await until('all lines', () => delivered() >= written, { show })
    const { discarded } = await daemon.stop(t)
    t.same(discarded, {})
    if (how !== 'killed') t.equal(textsIn(folder).length, written)
  })

t.test('a source that has nothing to catch up with goes on while another one is paced', async t => {
  const config = `
sources:
  app: { type: file, include: [app.log], decode: json }
  other: { type: file, include: [other.log], decode: json }
processors:
  limit_app:
    type: throttle
    inputs: [app, other]
    limit: 10
    window: ${LONG}
    key_field: .app
    on_backlog: pace
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`
  const folder = await missed(t, config, 5, 45, { app: 'a' })
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.events('limit_app').inFlight === 30)
  appendFileSync(join(folder, 'app.log'), lines(50, 55, { app: 'b' }))
  appendFileSync(join(folder, 'other.log'), lines(1000, 1005, { app: 'c' }))
  const during = await daemon.scrapedUntil(scrape => scrape.events('out').sent === 20)
  t.equal(during.events('limit_app').inFlight, 30, 'others are still waiting')
  during.conserves(t)
  await reload(daemon, SHORT)
  const scrape = await settled(daemon, 50)
  t.equal(scrape.sum(DISCARDS), 0)
  await daemon.stop(t)
  const left = numbersIn(folder)
  t.ok(left.indexOf(1004) < left.indexOf(44), 'another source is not held up')
  t.ok(left.indexOf(54) < left.indexOf(44), 'nor is another key')
  const ofA = left.filter(n => n < 45)
  t.same(ofA, all(45), 'in order')
})

t.test('nothing is lost when the daemon is stopped, killed or reloaded while it paces', async t => {
  for (const how of ['SIGTERM', 'SIGKILL', 'SIGHUP'] as const) {
    const config = (window: string) => configOf('limit: 20, on_backlog: pace', window)
    const folder = await missed(t, config(LONG), 5, 65)
    const daemon = await startDaemon(t, folder, config(LONG))
    await daemon.scrapedUntil(scrape => scrape.events('out').sent === 20 && scrape.events('limit_app').inFlight === 40)
    let after = daemon
    if (how === 'SIGHUP') {
      await reload(daemon, LONG)
      await reload(daemon, SHORT)
    } else {
      if (how === 'SIGTERM') {
        // If the daemon waited for room, it would not end: shutdown_timeout is an hour.
        t.equal((await daemon.stop(t)).undelivered, 40, 'what waits is left for the next start')
      } else {
        daemon.child.kill(how)
        await daemon.exit
      }
      after = await startDaemon(t, folder, config(SHORT))
    }
    // After a kill, what passed is read again with what waited.
    const scrape = await settled(after, how === 'SIGTERM' ? 40 : 60)
    t.equal(scrape.sum(DISCARDS), 0, how)
    await after.stop(t)
    t.same(
      [...new Set(numbersIn(folder))].sort((a, b) => a - b),
      all(65),
      how,
    )
  }
})

t.test('time_field: auto counts what was missed when it was written', async t => {
  const config = configOf('limit: 20, time_field: auto', SHORT)
  const folder = testFolder(t, { 'app.log': lines(0, 1, { time: Date.now() - 60_000 }) })
  const first = await startDaemon(t, folder, config)
  await first.scrapedUntil(scrape => scrape.events('out').sent === 1)
  await first.stop(t)
  // Ten lines a second while the daemon does not run.
  const began = Date.now() - 10_000
  for (let n = 1; n <= 100; n++) appendFileSync(join(folder, 'app.log'), lines(n, n + 1, { time: began + n * 100 }))
  const daemon = await startDaemon(t, folder, config)
  const scrape = await settled(daemon, 100)
  t.equal(scrape.sum(DISCARDS), 0)
  t.equal(scrape.sum('sluice_throttle_untimed_events_total'), 0)
  await daemon.stop(t)
  t.same(numbersIn(folder), all(101))
})

t.test('status, top and explain tell how many events wait, since when, for which bucket, and why', async t => {
  const config = configOf('limit: 5, key_field: .app, on_backlog: pace')
  const folder = await missed(t, config, 3, 13, { app: 'shop' })
  appendFileSync(join(folder, 'app.log'), lines(13, 20, { app: 'cart' }))
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_component_waiting_events') === 7)
  const run = async (...args: string[]) => {
    const { stdout } = await command([...args, '--config', daemon.configPath])
    return stdout.replaceAll(/\n +/g, ' ')
  }
  const wait =
    /limit_app: 7 events wait for room \(on_backlog: pace, for 1h 0m at most\): 5 of shop for \d+s, 2 of cart for \d+s/
  t.match(await run('status'), wait)
  t.match((await command(['status', '--config', daemon.configPath])).stdout, /at most\):\n {2}5 of shop for /)
  t.match(await run('top', '--count', '1', '--interval', '100ms'), wait)
  const { waiting } = JSON.parse(await run('status', '--json'))
  t.match(waiting, [
    {
      id: 'limit_app',
      events: 7,
      buckets: [
        { key: 'shop', events: 5 },
        { key: 'cart', events: 2 },
      ],
    },
  ])
  const live = await run('explain', '--live', '{"app":"shop"}')
  t.match(
    live,
    /now: 5 of its events wait for room, the first of them since 20.*\(on_backlog: pace, for 1h 0m at most\)/,
  )
  t.match(live, /on_backlog: while its source catches up, events over the limit wait for room, for at most 1h 0m/)
  t.notMatch(await run('explain', '--live', '{"app":"other"}'), /now: \d+ of its events wait/)
  await daemon.stop(t)
})
