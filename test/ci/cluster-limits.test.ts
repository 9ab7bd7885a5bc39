import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { seeded } from '../support/seeded.js'

/** Every kind of limit, shared by daemons with a real Redis. */

const random = seeded(7)
const EVENTS = 900
const lines = Array.from({ length: EVENTS }, (_, n) => {
  const pick = (...of: unknown[]) => of[Math.floor(random() * of.length)]!
  const pad = 'x'.repeat(Math.floor(random() * 120))
  return `${JSON.stringify({ n, app: pick('a', 'b', 'batch-1', 'batch-2'), level: pick('info', 'error'), cost: pick(0, 1, 2.5, 40, 'no'), pad })}\n`
})

const RULES = `- { key: 'batch-*', limit: 20, window: 2 Hours }
- { when: "if (.level equal 'error')", limit: 40, limit_bytes: 3 KiB }
`

/** A time zone in which it is about noon, so no month begins during the test. */
const NOON = new Date().getUTCHours() < 12 ? 'Etc/GMT-6' : 'Etc/GMT+6'

const KINDS: Readonly<Record<string, string>> = {
  'a limit of bytes': 'limit_bytes: 6 KiB, window: 1 Hours',
  // Aligned windows count from the epoch. None of this length begins during the test.
  'events and bytes': 'limit: 60, limit_bytes: 6 KiB, window: 20000 Days, window_mode: aligned',
  'a cost': 'limit: 500, cost: .cost, window: 1 Hours',
  'several limits':
    'limit: 90, window: 1 Hours, also: [{ limit: 80, window: 2 Hours }, { limit_bytes: 7 KiB, window: 9h }]',
  'a quota of bytes': `quota: { limit_bytes: 6 KiB, per: month, time_zone: ${NOON} }`,
  'a quota and a limit': `limit: 70, window: 1 Hours, quota: { limit: 60, per: month, time_zone: ${NOON} }`,
  rules: `limit: 30, window: 1 Hours, limits: [${RULES.replaceAll('- ', '').trim().split('\n').join(', ')}]`,
  'a file of rules': 'limit: 30, window: 1 Hours, limits_file: FOLDER/rules.yaml',
}

const KIND_NAMES = Object.keys(KINDS)

/** Starts a daemon with throttles, by name, of what it reads from standard input. */
async function start(t: Test, below: string, name: string, throttles: Readonly<Record<string, string>>) {
  const folder = join(below, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  const entries = Object.entries(throttles)
  const throttle = ([id, options]: [string, string]) =>
    `  ${id}: { type: throttle, inputs: [in], key_field: .app, ${options.replace('FOLDER', folder)} }\n`
  const out = (id: string) => join(folder, `${id}.log`)
  const config = `
sources: { in: { type: stdin, decode: json } }
processors:
${entries.map(throttle).join('')}
destinations:
${entries.map(([id]) => `  out_${id}: { type: file, inputs: [${id}], path: ${out(id)} }\n`).join('')}
`
  const daemon = await startDaemon(t, folder, config)
  return {
    daemon,
    /** What passes of some lines, by throttle. */
    async passed(input: readonly string[]): Promise<string[][]> {
      daemon.child.stdin!.end(input.join(''))
      await daemon.ended(t)
      return entries.map(([id]) =>
        readFileSync(out(id), 'utf8')
          .split(/(?<=\n)/)
          .filter(Boolean),
      )
    },
  }
}

const shared = (redis: RedisServer, group: string, accuracy: string) =>
  `scope: cluster, group: ${group}, accuracy: ${accuracy}, expected_members: 3, redis: { url: "${redis.url}", timeout: 60s }`

/** Three daemons that get a third of the lines each; what passes, by throttle. */
async function three(t: Test, below: string, name: string, throttles: Readonly<Record<string, string>>) {
  const members = await Promise.all([0, 1, 2].map(m => start(t, below, `${name}-${m}`, throttles)))
  const third = EVENTS / 3
  const passed = await Promise.all(members.map((one, m) => one.passed(lines.slice(m * third, (m + 1) * third))))
  return Object.keys(throttles).map((_, n) => passed.flatMap(lists => lists[n]!))
}

t.test('limits of every kind let through what they let through in one daemon', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const throttles = (of: (options: string, n: number) => string) =>
    Object.fromEntries(Object.values(KINDS).map((options, n) => [`limit_${n}`, of(options, n)]))
  const alone = await start(
    t,
    below,
    'local',
    throttles(options => options),
  )
  const expected = await alone.passed(lines)
  const exact = await start(
    t,
    below,
    'exact',
    throttles((options, n) => `${options}, ${shared(redis, `exact-${n}`, 'exact')}`),
  )
  const got = await exact.passed(lines)
  const leased = await three(
    t,
    below,
    'leased',
    throttles((options, n) => `${options}, ${shared(redis, `leased-${n}`, 'leased')}`),
  )
  for (const [n, kind] of KIND_NAMES.entries()) {
    t.ok(expected[n]!.length > 50 && expected[n]!.length < EVENTS * 0.8, `${kind}: ${expected[n]!.length} events pass`)
    t.same(got[n], expected[n], `${kind}, exact: as in one daemon`)
    const [total, most] = [leased[n]!.join('').length, expected[n]!.join('').length]
    t.ok(total > most * 0.8 && total < most * 1.2, `${kind}, leased: ${total} bytes by three daemons, ${most} by one`)
  }
})

t.test('three daemons keep within limits of bytes and of events together', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const limits = 'limit: 200, window: 1 Hours, also: [{ limit_bytes: 15000, window: 2 Hours }]'
  const accuracies = ['exact', 'leased']
  const throttles = Object.fromEntries(accuracies.map(name => [name, `${limits}, ${shared(redis, name, name)}`]))
  const passed = await three(t, below, 'member', throttles)
  for (const [n, accuracy] of accuracies.entries()) {
    for (const app of ['a', 'b', 'batch-1', 'batch-2']) {
      const own = passed[n]!.filter(line => JSON.parse(line).app === app)
      const bytes = own.join('').length
      t.ok(own.length <= 200 && bytes <= 15_000, `${accuracy}, ${app}: ${own.length} events, ${bytes} bytes`)
      t.ok(own.length > 150 || bytes > 13_000, `${accuracy}, ${app}: most of it was used`)
    }
  }
})

t.test('an event that claims any cost does not keep a daemon from the server', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const throttle = (group: string, more: string) =>
    `window: 1 Hours, cost: .cost, on_backend_failure: discard, scope: cluster, group: ${group}, redis: { url: "${redis.url}", timeout: 60s }, ${more}`
  const { passed } = await start(t, below, 'costs', {
    smooth: throttle('smooth', 'limit: 10, window_mode: gcra'),
    fixed: throttle('fixed', 'limit: 10, accuracy: exact'),
  })
  const input = ['1e15', '1e300', '1e308', '1'].map((cost, n) => `{"app":"${n}","cost":${cost}}\n`)
  t.same(await passed(input), [input, input.slice(3)])
})

t.test('a changed limits file applies at once, and its buckets stay', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below)
  if (!redis) return
  const options = `limit: 3, window: 1 Hours, limits_file: FOLDER/rules.yaml, ${shared(redis, 'file', 'leased')}`
  const { daemon, passed } = await start(t, below, 'file', { limited: options })
  const batch = (count: number) => '{"app":"batch-1"}\n'.repeat(count)
  const events = (count: number) => daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_events_total') >= count)
  daemon.child.stdin!.write(batch(10))
  t.equal((await events(10)).sum('sluice_throttle_events_total', { decision: 'passed' }), 10)
  writeFileSync(join(below, 'file', 'rules.yaml'), "- { key: 'batch-*', limit: 15, window: 2 Hours }\n")
  await daemon.until(() => daemon.stderr.includes('limits file read again'))
  const [all] = await passed([batch(10)])
  t.equal(all!.length, 15, 'ten were counted before')
})
