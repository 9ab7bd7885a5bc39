import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decided, lines, member } from '../support/cluster-member.js'
import { testFolder } from '../support/folder.js'
import { startRedis } from '../support/redis-server.js'

/** Leases outlive a reload, or are given back; and events wait for a limit that daemons share. */

t.setTimeout(150_000)

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
    const settings = { below, redis: `{ url: "${redis.url}", timeout: 10s }` }
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
  const settings = { below, limit: 5, redis: `{ url: "${redis.url}", timeout: 10s }`, more, window: '' }
  const daemons = await Promise.all(['one', 'other'].map(name => member(t, { ...settings, name })))
  const began = performance.now()
  for (const daemon of daemons) daemon.child.stdin!.end(lines(12))
  const passed = await Promise.all(daemons.map(async daemon => (await daemon.ended(t)).passed))
  t.same(passed, [12, 12])
  // 24 events need five windows, of which the last may have just begun.
  t.ok(performance.now() - began > 1900, 'they were let through at the rate of the limit')
})
