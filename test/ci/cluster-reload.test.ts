import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { decided, lines, member } from '../support/cluster-member.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startRedis } from '../support/redis-server.js'

/** Leases outlive a reload, or are given back; and events wait for a limit that daemons share. */

for (const [what, change] of [
  [
    'another component: leases are handed over',
    (config: string) =>
      config.replace(
        'destinations: {',
        'destinations: { rest: { type: file, inputs: [limited.discarded], path: ./rest.log },',
      ),
  ],
  [
    'another option of the throttle: leases are given back',
    (config: string) => config.replace('limit: 100', 'limit: 100\n    max_keys: 5000'),
  ],
] as const) {
  t.test(`a reload with ${what}`, async t => {
    const below = testFolder(t)
    const redis = await startRedis(t, below)
    if (!redis) return
    const settings = { below, redis: `{ url: "${redis.url}", timeout: 60s }` }
    const daemon = await member(t, { ...settings, name: 'one' })
    for (let n = 1; n <= 10; n++) {
      daemon.child.stdin!.write(lines(5))
      await decided(daemon, 5 * n)
    }
    const config = join(below, 'one', 'sluice.yaml')
    writeFileSync(config, change(readFileSync(config, 'utf8')))
    daemon.child.kill('SIGHUP')
    await daemon.until(() => daemon.stderr.includes('configuration reloaded'))
    const other = await member(t, { ...settings, name: 'other' })
    const passed: number[] = []
    for (const one of [daemon, other]) {
      one.child.stdin!.end(lines(60))
      passed.push((await one.ended(t)).passed!)
    }
    t.equal(passed[0]! + passed[1]!, 100, `${passed} of a limit of 100`)
    t.notMatch(daemon.stderr, /SLUICE_THROTTLE_BACKEND/)
  })
}

t.test('events wait for room in the limit that daemons share, and none is lost', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const more = 'window: 500 Milliseconds\n    over_limit: { wait: 60 Seconds }'
  const settings = { below, limit: 5, redis: `{ url: "${redis.url}", timeout: 60s }`, more, window: '' }
  const daemons = await Promise.all(['one', 'other'].map(name => member(t, { ...settings, name })))
  const began = performance.now()
  for (const daemon of daemons) daemon.child.stdin!.end(lines(12))
  const passed = await Promise.all(daemons.map(async daemon => (await daemon.ended(t)).passed))
  t.same(passed, [12, 12])
  // 24 events need five windows, of which the last may have just begun.
  t.ok(performance.now() - began > 1900, 'they were let through at the rate of the limit')
})

t.test('who waits asks again when the server says that there is room', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const more = 'over_limit: { wait: 60 Seconds }\n    accuracy: exact'
  const settings = {
    below,
    limit: 2,
    redis: `{ url: "${redis.url}", timeout: 60s }`,
    more,
    window: 'window: 1 Seconds',
  }
  const daemon = await member(t, settings)
  daemon.child.stdin!.write(lines(6))
  const scrape = await daemon.scrapedUntil(
    counts => counts.sum('sluice_throttle_events_total', { decision: 'passed' }) === 6,
  )
  const asked = scrape.sum('sluice_throttle_backend_requests_total')
  t.ok(asked <= 6, `a probe, three windows, and ${asked - 4} more`)
  await daemon.stop(t)
})

t.test('what is live waits for backlog that passed at once, also in a long window that daemons share', async t => {
  const redis = await startRedis(t, testFolder(t))
  if (!redis) return
  const config = `
sources: { app: { type: file, include: [app.log], decode: json } }
processors:
  limited:
    type: throttle
    inputs: [app]
    limit: 20
    window: 1 Hours
    on_backlog: pace
    scope: cluster
    redis: { url: "${redis.url}", timeout: 60s }
destinations: { out: { type: file, inputs: [limited], path: out.log } }
`
  const folder = testFolder(t, { 'app.log': lines(1) })
  const log = join(folder, 'app.log')
  const sent = (daemon: Daemon, events: number) => daemon.scrapedUntil(scrape => scrape.events('out').sent === events)
  const first = await startDaemon(t, folder, config)
  await sent(first, 1)
  await first.stop(t)
  appendFileSync(log, lines(18))
  const daemon = await startDaemon(t, folder, config)
  await sent(daemon, 18)
  // Longer after it than nothing waits.
  await setTimeout(1500)
  appendFileSync(log, lines(10))
  // The limit of 20, less the line of the first run.
  const waiting = await daemon.scrapedUntil(
    scrape => scrape.events('out').sent === 19 && scrape.sum('sluice_component_waiting_events') === 9,
  )
  t.equal(waiting.events('limited').discarded, 0)
  t.match(await daemon.stop(t), { undelivered: 9, discarded: {} })
})
