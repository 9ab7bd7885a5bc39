import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { type Daemon, type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startProxy } from '../support/proxy.js'
import { startRedis } from '../support/redis-server.js'

/** Four real daemons share limits by a real Redis that is stopped, killed, slow and restarted empty. */

const MEMBERS = 4
const LIMIT = 400
const SHARE = LIMIT / MEMBERS
const PORTION = 50
const PORTIONS = 8
/** Limits that let through the same events. */
const KINDS = {
  events: `limit: ${LIMIT}`,
  bytes: `limit_bytes: ${LIMIT * '{"n":2}\n'.length}`,
  costs: `limit: ${2 * LIMIT}, cost: .n`,
  several: `limit: ${2 * LIMIT}, also: [{ limit: ${LIMIT}, window: 2 Hours }]`,
} as const
const KIND_NAMES = Object.keys(KINDS) as (keyof typeof KINDS)[]
const TROUBLES = ['none', 'stopped', 'slow', 'killed', 'restarted'] as const
type Trouble = (typeof TROUBLES)[number]
/** A server that is as slow as the machine is in no trouble. */
const TIMEOUTS: Record<Trouble, string> = { none: '10s', stopped: '2s', slow: '2s', killed: '10s', restarted: '10s' }

/** Throttles and a file for each trouble, since a limit is used up once. */
function configuration(folder: string, port: number): string {
  const redis = (trouble: Trouble) => `redis: { url: "redis://${HOST}:${port}", timeout: ${TIMEOUTS[trouble]} }`
  const throttle = (trouble: Trouble) =>
    KIND_NAMES.map(
      kind => `
  ${trouble}_${kind}: { type: throttle, inputs: [in_${trouble}], window: 1 Hours, scope: cluster, ${KINDS[kind]}, expected_members: ${MEMBERS}, ${redis(trouble)} }`,
    ).join('')
  const source = (trouble: Trouble) => `
  in_${trouble}: { type: file, include: [${join(folder, `${trouble}.log`)}], decode: json }`
  return `
sources:${TROUBLES.map(source).join('')}
processors:${TROUBLES.map(throttle).join('')}
destinations: { out: { type: file, inputs: [${TROUBLES.flatMap(trouble => KIND_NAMES.map(kind => `${trouble}_${kind}`)).join(', ')}], path: ${join(folder, 'out.txt')} } }
`
}

t.test('four daemons keep within the bound while Redis is in trouble', async t => {
  const below = testFolder(t)
  const port = await ownPort()
  let redis = await startRedis(t, below, [], port)
  if (!redis) return
  const proxy = await startProxy(t, port)
  const folders = Array.from({ length: MEMBERS }, (_, n) => join(below, `member-${n}`))
  for (const folder of folders) {
    mkdirSync(folder)
    for (const trouble of TROUBLES) writeFileSync(join(folder, `${trouble}.log`), '')
  }
  const daemons = await Promise.all(folders.map(folder => startDaemon(t, folder, configuration(folder, proxy.port))))
  const ofAll = (scrape: Scrape, trouble: Trouble, name: string, least: number) =>
    KIND_NAMES.every(kind => scrape.sum(name, { component_id: `${trouble}_${kind}` }) >= least)
  const isUp = (daemon: Daemon, trouble: Trouble) =>
    daemon.scrapedUntil(scrape => ofAll(scrape, trouble, 'sluice_throttle_backend_up', 1))
  const decisions = (daemon: Daemon, trouble: Trouble, events: number) =>
    daemon.scrapedUntil(scrape => ofAll(scrape, trouble, 'sluice_throttle_events_total', events))
  const lines = '{"n":2}\n'.repeat(PORTION)

  const begin: Record<Trouble, () => unknown> = {
    none: () => {},
    stopped: () => redis!.child.kill('SIGSTOP'),
    slow: () => {
      proxy.delayMs = 5000
    },
    killed: () => redis!.kill(),
    restarted: async () => {
      await redis!.kill()
      redis = await startRedis(t, below, [], port)
    },
  }
  const end: Record<Trouble, () => unknown> = {
    none: () => {},
    stopped: () => redis!.child.kill('SIGCONT'),
    slow: () => {
      proxy.delayMs = 0
    },
    killed: async () => {
      redis = await startRedis(t, below, [], port)
    },
    restarted: () => {},
  }
  for (const trouble of TROUBLES) {
    for (const daemon of daemons) await isUp(daemon, trouble)
    const began = performance.now()
    for (let portion = 1; portion <= PORTIONS; portion++) {
      if (portion === 2) await begin[trouble]()
      if (portion === PORTIONS) await end[trouble]()
      for (const folder of folders) appendFileSync(join(folder, `${trouble}.log`), lines)
      for (const daemon of daemons) await decisions(daemon, trouble, portion * PORTION)
    }
    const took = performance.now() - began
    const scrapes = await Promise.all(daemons.map(daemon => daemon.scrape()))
    for (const kind of KIND_NAMES) {
      const component_id = `${trouble}_${kind}`
      const of = (name: string, labels = {}) => scrapes.map(scrape => scrape.sum(name, { component_id, ...labels }))
      const passed = of('sluice_throttle_events_total', { decision: 'passed' }).reduce((sum, count) => sum + count, 0)
      const alone = of('sluice_throttle_alone_events_total').filter(events => events > 0).length
      const losses = trouble === 'killed' || trouble === 'restarted' ? 1 : 0
      const bound = LIMIT * (1 + losses) + SHARE * alone
      const [over, under] = [Math.max(0, passed - LIMIT), Math.max(0, LIMIT - passed)]
      const possible = `overshoot ${over} of ${bound - LIMIT} possible, undershoot ${under}`
      t.comment(`${trouble}, ${kind}: ${possible}, ${Math.round(took)} ms`)
      t.ok(passed <= bound, `${component_id}: ${passed} passed, at most ${bound} may`)
      t.ok(under <= (LIMIT / 10) * MEMBERS, `${component_id}: no more is missing than leases hold`)
      if (trouble === 'none') t.equal(alone, 0)
      if (trouble === 'stopped' || trouble === 'slow' || trouble === 'killed') t.equal(alone, MEMBERS, component_id)
    }
  }
  for (const daemon of daemons) await daemon.stop(t)
})
