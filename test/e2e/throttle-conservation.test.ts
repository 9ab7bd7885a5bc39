import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

/** Every event is accounted for with each option of the throttle, in the middle of a run, across reloads and a stop. */

const EVERYTHING =
  'annotate: true, summary: { every: 200ms, to: both, max_per_interval: 3 }, per_key_metrics: { top: 2 }'
const SECOND = 'limit: 3, window: 1 Seconds, key_field: .app'

const THROTTLES: Record<string, string> = {
  plain: SECOND,
  aligned: `${SECOND}, window_mode: aligned`,
  sliding: `${SECOND}, window_mode: sliding`,
  gcra: `${SECOND}, window_mode: gcra, burst: 2`,
  bytes: 'limit_bytes: 200, window: 1 Seconds, key_field: .app',
  costs: `${SECOND}, cost: .n`,
  several: `${SECOND}, also: [{ limit: 20, window: 1 Hours }]`,
  quota: 'quota: { limit: 20, per: day, time_zone: Europe/Berlin }, key_field: .app',
  event_time: `${SECOND}, time_field: .at, allowed_lateness: 1s, on_late: discard`,
  auto_time: `${SECOND}, time_field: auto`,
  rules: `${SECOND}, limits: [{ key: 'a*', limit: 10 }, { when: "if (.n equal '1')", limit: unlimited }]`,
  rules_in_a_file: `${SECOND}, limits_file: limits.yaml`,
  keys: `${SECOND}, key_field: [.app, .n]`.replace('key_field: .app, ', ''),
  few_keys: `${SECOND}, max_keys: 2, on_max_keys: discard`,
  shared_bucket: `${SECOND}, max_keys: 2, on_max_keys: default_bucket`,
  open: `${SECOND}, max_keys: 2, exclude: "if (.app equal 'b')"`,
  shadow: `${SECOND}, mode: shadow`,
  mark: `${SECOND}, over_limit: mark`,
  one_in: `${SECOND}, over_limit: { pass_one_in: 3 }`,
  wait: `${SECOND}, over_limit: { wait: 300ms }`,
  pace: `${SECOND}, on_backlog: pace, max_delay: 500ms`,
  backlog: `${SECOND}, on_backlog: pass`,
}
const IDS = Object.keys(THROTTLES)
const KEYS = 'sluice_throttle_key_discarded_events_total'

/** `round`: makes half of the throttles others, so that a reload replaces them. */
const configOf = (round: number) => `sources: { app: { type: file, include: [in.log], decode: json } }
processors:
${IDS.map((id, n) => {
  const other = (n + round) % 2 ? '' : `, max_keys: ${9000 + round}`
  const options = THROTTLES[id]!
  return `  ${id}: { type: throttle, inputs: [app], ${options}${options.includes('max_keys') ? '' : other}, ${EVERYTHING} }\n`
}).join('')}destinations:
${IDS.map(id => `  ${id}_passed: { type: file, inputs: [${id}], path: ${id}.passed.log }\n  ${id}_discarded: { type: file, inputs: [${id}.discarded], path: ${id}.discarded.log }\n`).join('')}`

const APPS = ['a', 'a', 'a', 'a', 'a2', 'b', 'c', '', 'd']

/** Discards of a throttle; in shadow those that would be. */
function discards(scrape: Scrape, id: string): number {
  const wouldBe = scrape.sum('sluice_throttle_events_total', { component_id: id, decision: 'would_discard' })
  return scrape.events(id).discarded + wouldBe
}

t.test('with each option every event, discard and summary is accounted for', async t => {
  const folder = testFolder(t, { 'in.log': '', 'limits.yaml': '[{ key: a, limit: 5 }]' })
  const daemon = await startDaemon(t, folder, configOf(0))
  let written = 0
  const write = (events: number) => {
    const lines = Array.from({ length: events }, () => {
      const at = Date.now() - (written % 7 === 0 ? 5000 : 0)
      return JSON.stringify({
        app: APPS[written % APPS.length],
        n: written++ % 4,
        at,
        time: new Date(at).toISOString(),
      })
    })
    appendFileSync(join(folder, 'in.log'), `${lines.join('\n')}\n`)
  }
  const accountsFor = (scrape: Scrape, when: string) => {
    scrape.conserves(t, when)
    for (const id of IDS) {
      const wanted = discards(scrape, id)
      t.equal(scrape.sum(KEYS, { component_id: id }), wanted, `${when}: ${id}, by key`)
    }
  }
  const head = readFileSync(daemon.configPath, 'utf8').slice(0, -configOf(0).length)
  for (let round = 1; round <= 3; round++) {
    write(200)
    accountsFor(await daemon.scrape(), `in round ${round}`)
    // What waited at a reload is read again, and then a throttle receives it twice.
    await daemon.scrapedUntil(scrape => scrape.events('plain').received >= written)
    write(100)
    writeFileSync(daemon.configPath, head + configOf(round))
    const before = daemon.stderr.split('configuration reloaded').length
    daemon.child.kill('SIGHUP')
    accountsFor(await daemon.scrape(), `in reload ${round}`)
    await daemon.until(() => daemon.stderr.split('configuration reloaded').length > before)
    accountsFor(await daemon.scrape(), `after reload ${round}`)
  }
  // Whatever waits has passed or is discarded by then.
  const last = await daemon.scrapedUntil(scrape =>
    IDS.every(id => scrape.events(id).received >= written && scrape.events(id).inFlight === 0),
  )
  accountsFor(last, 'at the end')
  const totals = await daemon.stop(t)
  t.equal(totals.received, written)
  t.equal(totals.undelivered, 0)
  for (const id of IDS) {
    const wanted = discards(last, id)
    for (const output of ['passed', 'discarded']) {
      const path = join(folder, `${id}.${output}.log`)
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []
      const told = lines.reduce((sum, line) => sum + (JSON.parse(line).throttle?.discarded_events ?? 0), 0)
      t.equal(told, wanted, `${id}: what summaries say in what was ${output}`)
    }
  }
  const without = IDS.filter(id => discards(last, id) === 0)
  t.same(without, ['mark'], 'the others have discarded some')
})
