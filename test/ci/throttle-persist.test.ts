import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

/** Buckets that survive the daemon, with the real daemon. */

/** Throttles side by side, each with a file of what it passes. */
const configOf = (throttles: Readonly<Record<string, string>>) => {
  const processors = Object.entries(throttles).map(
    ([id, options]) =>
      `  ${id}: { type: throttle, inputs: [app], key_field: .app, persist: true, on_backlog: as_live, ${options} }\n`,
  )
  const files = Object.keys(throttles).map(
    id => `  out_${id}: { type: file, inputs: [${id}], path: ${id}.ndjson, encoding: raw }\n`,
  )
  return `sources:
  app: { type: file, include: [app.log], decode: json }
processors:
${processors.join('')}destinations:
${files.join('')}`
}

/** Their limit is 5. The hours of aligned windows and quotas end while a test runs once in a thousand runs. */
const MODES = {
  fixed: 'limit: 5, window: 1 Hours',
  aligned: 'limit: 5, window: 30 Days, window_mode: aligned',
  sliding: 'limit: 5, window: 1 Hours, window_mode: sliding',
  gcra: 'limit: 5, window: 1 Hours, window_mode: gcra',
  quota: 'quota: { limit: 5, per: month, time_zone: UTC }',
  several: 'limit: 9, window: 1 Days, window_mode: sliding, also: [{ limit_bytes: 280, window: 1 Hours }]',
  costs: 'limit: 10, window: 1 Hours, cost: .cost',
  rules: 'limit: 1, window: 1 Hours, limits: [{ when: "if (.app exists)", limit: 5 }]',
  event_time: 'limit: 5, window: 1 Hours, time_field: .timestamp',
  event_aligned: 'limit: 5, window: 30 Days, window_mode: aligned, time_field: .timestamp',
}

const lines = (app: string, events: number) =>
  Array.from(
    { length: events },
    (_, n) => `${JSON.stringify({ app, n, cost: 2, timestamp: 1_700_000_000_000 + n })}\n`,
  ).join('')

function passed(folder: string, id: string, app?: string): number {
  const path = join(folder, `${id}.ndjson`)
  if (!existsSync(path)) return 0
  const whole = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return whole.filter(line => app === undefined || line.includes(`"app":"${app}"`)).length
}

function passedByApp(folder: string, id: string): Map<string, number> {
  const counts = new Map<string, number>()
  const path = join(folder, `${id}.ndjson`)
  const whole = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
  for (const line of whole) {
    const [, app = ''] = /"app":"(\w+)"/.exec(line) ?? []
    counts.set(app, (counts.get(app) ?? 0) + 1)
  }
  return counts
}

/** Waits until so many events have come to each throttle, and are delivered. */
async function settled(daemon: Daemon, ids: readonly string[], received: number): Promise<void> {
  await daemon.scrapedUntil(scrape =>
    ids.every(id => {
      const { received: came, inFlight } = scrape.events(id)
      return came >= received && inFlight === 0 && scrape.events(`out_${id}`).inFlight === 0
    }),
  )
}

const isSaved = (daemon: Daemon) =>
  daemon.scrapedUntil(
    scrape => scrape.sum('sluice_throttle_state_bytes') > 0 && scrape.sum('sluice_throttle_state_age_seconds') === 0,
  )

t.test('every kind of window is as it was after a kill, after a stop, and after a reload', async t => {
  const ids = Object.keys(MODES)
  const folder = testFolder(t, { 'app.log': lines('a', 3) })
  const log = join(folder, 'app.log')
  let daemon = await startDaemon(t, folder, configOf(MODES))
  await settled(daemon, ids, 3)
  await isSaved(daemon)
  daemon.child.kill('SIGKILL')
  await daemon.exit
  appendFileSync(log, lines('a', 9) + lines('b', 2))
  daemon = await startDaemon(t, folder, configOf(MODES))
  await settled(daemon, ids, 11)
  for (const id of ids) t.equal(passed(folder, id, 'a'), 5, `${id}, after a kill`)
  const more = configOf({ ...MODES, fixed: 'limit: 6, window: 1 Hours' })
  writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').split('sources:')[0] + more)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.logs().some(({ msg }) => /reloaded/.test(String(msg))))
  appendFileSync(log, lines('a', 9))
  await settled(daemon, ids, 20)
  await daemon.stop(t)
  for (const id of ids) t.equal(passed(folder, id, 'a'), id === 'fixed' ? 6 : 5, `${id}, after a reload`)
  appendFileSync(log, lines('b', 9))
  daemon = await startDaemon(t, folder, more)
  await settled(daemon, ids, 9)
  await daemon.stop(t)
  for (const id of ids) t.equal(passed(folder, id, 'b'), id === 'fixed' ? 6 : 5, `${id}, after a stop`)
})

t.test('however often it is killed, no bucket passes more than its limit and what it passed just before', async t => {
  const KEYS = 300
  const LIMIT = 60
  // `npm run fuzz kills` does so thirty times; these take a moment.
  const KILLS = Number(process.env.SLUICE_KILLS ?? 4)
  const folder = testFolder(t, { 'app.log': '' })
  const config = configOf({ one: `limit: ${LIMIT}, window: 1 Days` })
  const apps = Array.from({ length: KEYS }, (_, n) => `k${n}`)
  const feeder = setInterval(() => {
    // A third is soon at its limit, the others hardly ever.
    const some = apps.filter((_, n) => Math.random() < (n % 3 === 0 ? 0.9 : 0.1))
    appendFileSync(join(folder, 'app.log'), some.map(app => lines(app, 2)).join(''))
  }, 50)
  t.teardown(() => clearInterval(feeder))
  const allowed = new Map(apps.map(app => [app, LIMIT]))
  for (let kill = 0; kill <= KILLS; kill++) {
    const history = [{ at: Date.now(), counts: passedByApp(folder, 'one') }]
    const daemon = await startDaemon(t, folder, config)
    // In the last one, those that are at their limit have been for longer than what is allowed.
    const until = Date.now() + (kill === KILLS - 1 ? 5000 : 200 + Math.random() * 3500)
    // At the end it has to be seen that no more pass.
    const isOver = async () =>
      kill < KILLS ? Date.now() > until : (await daemon.scrape()).sum('sluice_component_discarded_events_total') > 0
    while (!(await isOver())) {
      const counts = passedByApp(folder, 'one')
      history.push({ at: Date.now(), counts })
      await new Promise(resolve => setTimeout(resolve, 50))
    }
    // Of the buckets as they were saved last: they have all that had passed by then.
    const savedAt = Date.now() - 1000 * (await daemon.scrape()).sum('sluice_throttle_state_age_seconds')
    daemon.child.kill('SIGKILL')
    await daemon.exit
    if (kill === KILLS) break
    const { counts: before } = history.findLast(({ at }) => at < savedAt) ?? history[0]!
    for (const [app, count] of passedByApp(folder, 'one'))
      allowed.set(app, allowed.get(app)! + count - (before.get(app) ?? 0))
  }
  const total = passedByApp(folder, 'one')
  const beyond = [...total].filter(([app, count]) => count > allowed.get(app)!)
  t.same(beyond, [], 'each passes what it may')
  t.ok(
    [...total.values()].some(count => count >= LIMIT),
    'some are at their limit',
  )
  const most = [...allowed.values()].reduce((all, one) => all + one)
  t.ok(most < KEYS * LIMIT * 4, `${most} are allowed, which says something`)
  t.comment(`${[...total.values()].reduce((all, one) => all + one)} passed, ${most} are allowed`)
})

t.test('buckets of a throttle that is gone are reported, kept, and deleted on request', async t => {
  const folder = testFolder(t, { 'app.log': lines('a', 3) })
  const before = await startDaemon(t, folder, configOf({ one: MODES.fixed }))
  await settled(before, ['one'], 3)
  await before.stop(t)
  const buckets = join(folder, 'state', 'throttle', 'one')
  t.ok(existsSync(buckets))
  const next = await startDaemon(t, folder, configOf({ two: MODES.fixed }))
  const orphan = next.logs().find(({ code }) => code === 'SLUICE_ORPHANED')
  t.match(orphan, { kind: 'buckets', component: 'one', path: buckets, advice: /persist: true/ })
  const validated = await command(['validate', '--config', next.configPath])
  t.equal(validated.code, 0)
  t.match(validated.stdout + validated.stderr, /persist: true/)
  await next.stop(t)
  t.ok(existsSync(buckets))
  const last = await startDaemon(t, folder, `discard_orphans: [one]\n${configOf({ two: MODES.fixed })}`)
  await last.until(() => !existsSync(buckets))
  await last.stop(t)
})

t.test('a throttle with another name takes over the buckets of the old one, at a start and at a reload', async t => {
  const folder = testFolder(t, { 'app.log': lines('a', 3) })
  const named = (id: string, from = '') =>
    configOf({ [id]: `limit: 5, window: 1 Hours${from && `, renamed_from: ${from}`}` }).replace(/out_\w+/, 'out')
  const come = (daemon: Daemon, id: string, events: number) =>
    daemon.scrapedUntil(scrape => scrape.events(id).received === events && scrape.events('out').inFlight === 0)
  const more = () => appendFileSync(join(folder, 'app.log'), lines('a', 1))
  let daemon = await startDaemon(t, folder, named('first'))
  await come(daemon, 'first', 3)
  await daemon.stop(t)
  daemon = await startDaemon(t, folder, named('second', 'first'))
  await daemon.until(() => daemon.stderr.includes('took over the buckets of the renamed component'))
  more()
  await come(daemon, 'second', 1)
  const next = named('third', 'second')
  writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').split('sources:')[0] + next)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.logs().some(({ msg }) => /configuration reloaded/.test(String(msg))))
  more()
  more()
  await come(daemon, 'third', 2)
  await isSaved(daemon)
  daemon.child.kill('SIGKILL')
  await daemon.exit
  daemon = await startDaemon(t, folder, next)
  more()
  await daemon.scrapedUntil(scrape => scrape.events('third').received >= 1)
  await daemon.stop(t)
  t.same([passed(folder, 'first'), passed(folder, 'second'), passed(folder, 'third')], [3, 1, 1])
})

t.test('persist is refused with a cluster, and a test of a configuration keeps nothing', async t => {
  const folder = testFolder(t)
  const path = join(folder, 'sluice.yaml')
  writeFileSync(
    path,
    configOf({ one: 'limit: 1, window: 1 Hours, scope: cluster, redis: { url: "redis://127.0.0.1:1" }' }),
  )
  const refused = await command(['validate', '--config', path])
  t.equal(refused.code, 78)
  t.match(refused.stderr + refused.stdout, /processors\.one\.persist: .*has no effect with scope: cluster/)
  const text = `${configOf({ one: 'limit: 1, window: 1 Hours' })}tests:
  - name: one of two passes
    steps:
      - { into: app, events: [{ app: a, n: 1 }, { app: a, n: 2 }] }
    expect: { out_one: [{ app: a, n: 1 }] }
`
  writeFileSync(path, text)
  const tested = await command(['test', '--config', path])
  t.equal(tested.code, 0, tested.stdout + tested.stderr)
  t.notOk(existsSync(join(folder, 'state')))
})
