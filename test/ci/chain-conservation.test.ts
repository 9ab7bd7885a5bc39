import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { until } from '../support/until.js'

/** Eleven processors in a row, and two beside them: every event is accounted for, also across reloads and a kill. */

const HOSTS = 8
/** `round`: makes some of the processors others, so that a reload replaces them and not the rest. */
const chainConfig = (round: number) => `sources: { app: { type: file, include: [in.log], decode: json } }
processors:
  parsed: { type: parse, inputs: [app], codec: logfmt, on_error: discard }
  redacted: { type: redact, inputs: [parsed], presets: [email, ipv4] }
  edited: { type: edit, inputs: [redacted], steps: [{ set: { .round: ${round} } }, { remove: [.message] }] }
  enriched: { type: enrich, inputs: [edited], table: owners.csv, key_field: .host, target: .owner }
  exploded: { type: explode, inputs: [enriched], field: .items, target: .item }
  flat: { type: flatten, inputs: [exploded], separator: _ }
  routed: { type: route, inputs: [flat], match: all, routes: { debug: "if (.level equal 'debug')", even: "if (.even equal 'yes')" } }
  unique: { type: dedupe, inputs: [routed.even, routed.else], fields: [.id, .item_k], window: 1 Hours, max_keys: ${9000 + round} }
  sampled: { type: sample, inputs: [unique], ratio: 0.5, key_field: .host }
  limited: { type: throttle, inputs: [sampled], limit: 40, window: 1 Hours, key_field: .host, max_keys: ${9000 + (round >> 1)} }
  scripted: { type: script, inputs: [limited], code: 'event => event.id % 13 === 0 ? null : { ...event, seen: true }' }
  merged: { type: reduce, inputs: [scripted], key_field: .id, timeout: 200ms, merge: { .item_k: array, .item_name: unique } }
  counted: { type: aggregate, inputs: [scripted], every: 200ms, key_field: .owner_team, counters: { events: {} } }
destinations:
  merged_out: { type: file, inputs: [merged], path: merged.log }
  counted_out: { type: file, inputs: [counted], path: counted.log }
  limited_out: { type: file, inputs: [limited.discarded], path: limited.log }
  debug_out: { type: file, inputs: [routed.debug], path: debug.log }
`

interface Out {
  readonly id: number
  readonly item_k: number | number[]
}

t.test('a chain of processors loses nothing that it did not discard', async t => {
  const owners = Array.from({ length: HOSTS }, (_, n) => `web-${n},team-${n % 3}\n`).join('')
  const folder = testFolder(t, { 'in.log': '', 'owners.csv': `host,team\n${owners}` })
  let written = 0
  const write = (lines: number) => {
    const text = Array.from({ length: lines }, () => {
      const id = written++
      const level = id % 5 === 0 ? 'debug' : 'info'
      const message = id % 11 === 0 ? 'not "logfmt' : `user=u${id}@example.com client=10.0.0.${id % 250}`
      const items = [0, 1, 2].map(k => ({ k, name: `item ${k}` }))
      const even = id % 2 === 0 ? 'yes' : 'no'
      return `${JSON.stringify({ id, level, even, host: `web-${id % HOSTS}`, message, items })}\n`
    })
    appendFileSync(join(folder, 'in.log'), text.join(''))
  }
  const read = (name: string): Out[] => {
    const path = join(folder, `${name}.log`)
    if (!existsSync(path)) return []
    // A kill can leave a part of a line, and what follows begins a line of its own.
    const lines = readFileSync(path, 'utf8').split('\n')
    return lines.flatMap(line => (line.endsWith('}') && line.startsWith('{') ? [JSON.parse(line) as Out] : []))
  }
  const seen = (...names: string[]) => {
    const events = names.flatMap(read)
    return new Set(events.flatMap(({ id, item_k: items }) => [items].flat().map(k => `${id}.${k}`)))
  }
  /** What is nowhere, and was not discarded by what its processor does. Of a host the sampler keeps all or nothing. */
  const missing = () => {
    const debug = seen('debug')
    const rest = seen('merged', 'limited')
    const hosts = new Set([...rest].map(event => Number.parseInt(event, 10) % HOSTS))
    const lost: string[] = []
    for (let id = 0; id < written; id++) {
      const [isDebug, isEven] = [id % 5 === 0, id % 2 === 0]
      for (const event of id % 11 === 0 ? [] : [0, 1, 2].map(k => `${id}.${k}`)) {
        if (isDebug && !debug.has(event)) lost.push(`debug ${event}`)
        const goesOn = (isEven || !isDebug) && hosts.has(id % HOSTS) && id % 13 !== 0
        if (goesOn && !rest.has(event)) lost.push(event)
      }
    }
    return lost
  }

  let daemon = await startDaemon(t, folder, chainConfig(0))
  const head = readFileSync(daemon.configPath, 'utf8').slice(0, -chainConfig(0).length)
  const received = (scrape: Scrape) => scrape.events('parsed').received
  const reload = async (round: number) => {
    const reloads = () => daemon.stderr.split('configuration reloaded').length
    const before = reloads()
    writeFileSync(daemon.configPath, head + chainConfig(round))
    daemon.child.kill('SIGHUP')
    ;(await daemon.scrape()).conserves(t, `in reload ${round}`)
    await daemon.until(() => reloads() > before)
    ;(await daemon.scrape()).conserves(t, `after reload ${round}`)
  }
  for (let round = 1; round <= 3; round++) {
    write(400)
    ;(await daemon.scrapedUntil(scrape => received(scrape) > 0)).conserves(t, `in round ${round}`)
    write(300)
    await reload(round)
  }
  write(500)
  ;(await daemon.scrape()).conserves(t, 'before the kill')
  daemon.child.kill('SIGKILL')
  await daemon.exit
  write(100)
  daemon = await startDaemon(t, folder, chainConfig(3))
  write(400)
  ;(await daemon.scrape()).conserves(t, 'after the kill')
  await reload(4)
  write(100)
  await until('all events', () => missing().length === 0, { show: missing })
  const totals = await daemon.stop(t)
  t.same(missing(), [], 'everything is somewhere')
  t.equal(totals.undelivered, 0)
  const reasons = ['limited', 'parsed', 'sampled', 'scripted', 'unique']
  t.same(
    Object.keys(totals.discarded).filter(id => !reasons.includes(id)),
    [],
  )
  for (const name of ['merged', 'limited', 'debug']) t.ok(seen(name).size > 0, name)
  t.ok(read('counted').length > 0, 'counted')
  t.notMatch(readFileSync(join(folder, 'merged.log'), 'utf8'), /@example|10\.0\.0/)
})
