import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../support/folder.js'
import { parsedLines } from '../support/parsed-lines.js'
import { Seeded } from '../support/seeded.js'
import { callSimulate } from '../support/simulate.js'

const START = Date.UTC(2026, 10, 22, 10)

/** Requests of some clients, as objects and as nginx writes them. */
function requests(count: number) {
  const random = new Seeded(5)
  return Array.from({ length: count }, (_, n) => {
    const second = START + Math.floor(n / 20) * 1000
    const client = `10.0.0.${random.below(8)}`
    const status = random.pick([200, 200, 200, 404, 500])
    const time = `22/Nov/2026:10:${new Date(second).toISOString().slice(14, 19)} +0000`
    return {
      object: { client, status, timestamp: new Date(second).toISOString() },
      line: `${client} - - [${time}] "GET /${n} HTTP/1.1" ${status} ${random.below(5000)} "-" "curl/8"`,
    }
  })
}

const config = (processors: string, source = 'type: stdin') => `sources: { in: { ${source} } }
processors:
  ${processors.trim().replace(/\n */g, '\n  ')}
destinations: { out: { type: blackhole, inputs: [it] } }
`
const JSON_LINES = 'type: stdin, decode: json'
const IT = 'it: { type: throttle, inputs: [last], limit: 2, window: 1s, key_field: .client }'

t.test('an access log is parsed before it is throttled: the same is decided as about the parsed events', async t => {
  const all = requests(2000)
  const dir = testFolder(t, {
    'text.yaml': config(`last: { type: parse, inputs: [in], codec: nginx }\n${IT}`),
    'json.yaml': config(IT.replace('last', 'in'), JSON_LINES),
    'access.log': all.map(({ line }) => `${line}\n`).join(''),
    'access.ndjson': all.map(({ object }) => `${JSON.stringify(object)}\n`).join(''),
  })
  const path = (name: string) => join(dir, name)
  const decisions = async (name: string, input: string) => {
    const { code, stdout, stderr } = await callSimulate([path(name), '--decisions', path(input)])
    t.equal(code, 0, stderr)
    return stdout
  }
  const text = await decisions('text.yaml', 'access.log')
  t.equal(text, await decisions('json.yaml', 'access.ndjson'))
  t.match(text, /"decision":"discard","bucket":"10\.0\.0\.\d"/)
})

t.test('processors before the throttle run as in a daemon, one after the other, in the time of the events', async t => {
  const at = (second: number) => new Date(START + second * 1000).toISOString()
  const line = (second: number, app: string, items: unknown = [1]) =>
    `{"timestamp":"${at(second)}","app":"${app}","items":${JSON.stringify(items)},"ip":"10.1.2.3","a":{"b":1}}\n`
  const dir = testFolder(t, {
    'owners.csv': 'app,owner\nshop,anna\nweb,bert\n',
    'sluice.yaml': config(
      `parsed: { type: parse, inputs: [in], codec: json }
      once: { type: dedupe, inputs: [parsed], fields: [.app, .items], window: 10s }
      each: { type: explode, inputs: [once], field: .items, target: .item }
      flat: { type: flatten, inputs: [each] }
      owned: { type: enrich, inputs: [flat], table: DIR/owners.csv, key_field: .app, column: app, target: .owner }
      edited: { type: edit, inputs: [owned], steps: [{ set: { .client: '\${.owner.owner}-\${.item}' } }] }
      hidden: { type: redact, inputs: [edited], fields: [.ip], presets: [ipv4] }
      ways: { type: route, inputs: [hidden], routes: { shop: "if (.app equal 'shop')" } }
      early: { type: throttle, inputs: [ways.shop], limit: 3, window: 1h }
      last: { type: sample, inputs: [early, ways.else], one_in: 1 }
      ${IT}`,
    ),
  })
  const file = join(dir, 'sluice.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('DIR', dir))
  const input = [
    line(0, 'shop', [1, 2]),
    line(1, 'shop', [1, 2]), // A duplicate.
    line(2, 'web'),
    line(11, 'shop', [1, 2]), // The window of the first one is over. The second item is beyond the limit of `early`.
    'no JSON\n',
  ]
  const { code, stdout, stderr } = await callSimulate([file, '--component=it', '--decisions'], input.join(''))
  t.equal(code, 0, stderr)
  const buckets = parsedLines<{ n: number; decision: string; bucket: string }>(stdout)
  t.same(
    buckets.map(({ n, decision, bucket }) => [n, decision, bucket]),
    [
      [0, 'pass', 'anna-1'],
      [0, 'pass', 'anna-2'],
      [2, 'pass', 'bert-1'],
      [3, 'pass', 'anna-1'],
      [4, 'pass', '-'],
    ],
  )
  t.match(stderr, /1 event discarded before it, not counted above: 1 by once/)
  t.match(stderr, /failed +1 event that parsed could not process/)
  t.match(stderr, /parsed \(parse\), once \(dedupe\)/)
})

t.test('a throttle before the throttle decides each event at its own time, whatever else is before it', async t => {
  const at = (second: number) => new Date(START + second * 1000).toISOString()
  const line = (client: string, second: number) => `{"timestamp":"${at(second)}","client":"${client}"}\n`
  const early = (from: string) =>
    `last: { type: throttle, inputs: [${from}], limit: 1, window: 10s, key_field: .client }`
  const dir = testFolder(t, {
    'alone.yaml': config(`${early('in')}\n${IT}`, JSON_LINES),
    'behind.yaml': config(
      `same: { type: edit, inputs: [in], steps: [{ set: { .new: 1 } }] }\n${early('same')}\n${IT}`,
      JSON_LINES,
    ),
    // The clock of one client is a day ahead.
    'input.ndjson': [line('fast', 86_400), ...Array.from({ length: 60 }, (_, second) => line('a', second))].join(''),
  })
  const decisions = async (name: string) => {
    const args = [join(dir, name), '--component=it', '--decisions', join(dir, 'input.ndjson')]
    const { code, stdout, stderr } = await callSimulate(args)
    t.equal(code, 0, stderr)
    return stdout
  }
  const alone = await decisions('alone.yaml')
  t.equal(await decisions('behind.yaml'), alone)
  t.equal(alone.trimEnd().split('\n').length, 7)
})
