import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

/** What a throttle does while a source catches up, with the real daemon. */
t.setTimeout(180_000)

const configOf = (throttle: string) => `
sources:
  app: { type: file, include: [app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], window: 1 Seconds, ${throttle} }
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`

const lines = (from: number, to: number, more = {}) =>
  Array.from({ length: to - from }, (_, i) => `${JSON.stringify({ n: from + i, ...more })}\n`).join('')

function numbersIn(folder: string, name = 'out.ndjson'): number[] {
  const path = join(folder, name)
  if (!existsSync(path)) return []
  const whole = readFileSync(path, 'utf8')
  return whole
    .slice(0, whole.lastIndexOf('\n') + 1)
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line).n)
}

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

async function settled(daemon: Daemon, received: number) {
  return daemon.scrapedUntil(scrape => {
    const { received: came, inFlight } = scrape.events('limit_app')
    return came >= received && inFlight === 0 && scrape.events('out').inFlight === 0
  })
}

t.test('what a source missed is discarded with a reason of its own, by default', async t => {
  const config = configOf('limit: 20')
  const folder = await missed(t, config, 5, 105)
  const daemon = await startDaemon(t, folder, config)
  const scrape = await settled(daemon, 100)
  t.equal(scrape.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled_backlog' }), 80)
  t.ok(daemon.logs().some(({ code }) => code === 'SLUICE_THROTTLED_BACKLOG'))
  const status = sluice(['status', '--config', daemon.configPath], { cwd: folder })
  await status.exit
  t.match(status.stdout, /limit_app has discarded 80 events since the daemon started: throttled_backlog/)
  t.match(status.stdout, /on_backlog or time_field/)
  // What comes now is live.
  appendFileSync(join(folder, 'app.log'), lines(105, 165))
  const later = await settled(daemon, 160)
  t.equal(later.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled_backlog' }), 80)
  t.ok(later.sum(DISCARDS, { component_id: 'limit_app', reason: 'throttled' }) >= 40)
  const { discarded } = await daemon.stop(t)
  t.equal(discarded.limit_app?.throttled_backlog, 80)
})

t.test('on_backlog: pass and pace lose nothing of it', async t => {
  for (const how of ['pass', 'pace']) {
    const config = configOf(`limit: 40, on_backlog: ${how}`)
    const folder = await missed(t, config, 5, 105)
    const daemon = await startDaemon(t, folder, config)
    const began = Date.now()
    const scrape = await settled(daemon, 100)
    t.equal(scrape.sum(DISCARDS), 0, how)
    if (how === 'pace') t.ok(Date.now() - began > 1000, 'it is paced')
    else t.equal(scrape.sum('sluice_throttle_events_total', { decision: 'backlog' }), 100)
    await daemon.stop(t)
    t.same(numbersIn(folder), all(105), how)
  }
})

const BUSY = { timeout: 100_000 }

t.test('an app that stays within its limit loses nothing when the daemon was down for a second', BUSY, async t => {
  const config = configOf('limit: 200, key_field: .app, on_backlog: pace')
  const folder = testFolder(t, { 'app.log': '' })
  const rates = { slow: 50, steady: 120 }
  let last = performance.now()
  let elapsedMs = 0
  let written = 0
  const write = () => {
    const before = written
    // A writer that was late must not catch up: that would be more than the limit.
    const now = performance.now()
    elapsedMs += Math.min(now - last, 50)
    last = now
    const text = Object.entries(rates).map(([app, rate]) => {
      const due = Math.floor((elapsedMs * rate) / 1000)
      const from = counts[app] ?? 0
      counts[app] = due
      written += due - from
      return lines(from, due, { app })
    })
    if (written > before) appendFileSync(join(folder, 'app.log'), text.join(''))
  }
  const counts: Record<string, number> = {}
  // Not before the daemon runs: what a first read finds is no backlog, and may be more than the limit after a slow start.
  const first = await startDaemon(t, folder, config)
  last = performance.now()
  const writer = setInterval(write, 10)
  t.teardown(() => clearInterval(writer))
  await first.scrapedUntil(scrape => scrape.events('out').sent > 100)
  await first.stop(t)
  const before = written
  while (written < before + 130) await setTimeout(20)
  const daemon = await startDaemon(t, folder, config)
  const known = written
  await daemon.until(() => written > known + 400)
  clearInterval(writer)
  await daemon.until(() => numbersIn(folder).length >= written)
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('limit_app').inFlight === 0)
  t.equal(scrape.sum(DISCARDS), 0)
  await daemon.stop(t)
  t.same(new Set(numbersIn(folder)).size, Math.max(...Object.values(counts)))
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
    window: 1 Seconds
    key_field: .app
    on_backlog: pace
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`
  const folder = await missed(t, config, 5, 45, { app: 'a' })
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.events('limit_app').inFlight > 0)
  appendFileSync(join(folder, 'app.log'), lines(50, 55, { app: 'b' }))
  appendFileSync(join(folder, 'other.log'), lines(1000, 1005, { app: 'c' }))
  const during = await daemon.scrapedUntil(scrape => scrape.events('out').sent >= 20)
  t.ok(during.events('limit_app').inFlight > 0, 'others are still waiting')
  during.conserves(t)
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
    const config = configOf('limit: 20, on_backlog: pace')
    const folder = await missed(t, config, 5, 65)
    const daemon = await startDaemon(t, folder, config)
    await daemon.scrapedUntil(scrape => scrape.events('out').sent >= 20 && scrape.events('limit_app').inFlight > 0)
    let after = daemon
    if (how === 'SIGHUP') {
      daemon.child.kill(how)
      await daemon.until(() => daemon.logs().some(({ msg }) => /reloaded|configuration is unchanged/.test(String(msg))))
      daemon.child.kill(how)
    } else {
      if (how === 'SIGTERM') {
        const began = Date.now()
        const { undelivered } = await daemon.stop(t)
        t.ok(undelivered > 0, 'what waits is left for the next start')
        t.ok(Date.now() - began < 5000, 'it does not wait for room')
      } else {
        daemon.child.kill(how)
        await daemon.exit
      }
      after = await startDaemon(t, folder, config)
    }
    await after.until(() => new Set(numbersIn(folder)).size === 65, 60_000)
    const scrape = await after.scrapedUntil(scrape => scrape.events('limit_app').inFlight === 0)
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
  const config = configOf('limit: 20, time_field: auto')
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
  const config = configOf('limit: 5, key_field: .app, on_backlog: pace').replace('1 Seconds', '1 Hours')
  const folder = await missed(t, config, 3, 13, { app: 'shop' })
  appendFileSync(join(folder, 'app.log'), lines(13, 20, { app: 'cart' }))
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_component_waiting_events') === 7)
  const run = async (...args: string[]) => {
    const command = sluice([...args, '--config', daemon.configPath], { cwd: folder })
    await command.exit
    return command.stdout.replaceAll(/\n +/g, ' ')
  }
  const wait =
    /limit_app: 7 events wait for room \(on_backlog: pace, for 1h 0m at most\): 5 of shop for \d+s, 2 of cart for \d+s/
  t.match(await run('status'), wait)
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
  t.match(live, /on_backlog: while its source catches up, those over the limit wait for room, for 1h 0m at most/)
  t.notMatch(await run('explain', '--live', '{"app":"other"}'), /now: \d+ of its events wait/)
  await daemon.stop(t)
})
