import t from 'tap'
import { BulkRequest } from '../../../../src/components/elasticsearch/bulk-request.js'
import { elasticsearch } from '../../../../src/components/elasticsearch/destination.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { EventTime } from '../../../../src/core/event/event-time.js'
import { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { json, make } from '../../../support/destination.js'
import { rounds } from '../../../support/long-test.js'
import { pooledLines } from '../../../support/pooled-batch.js'
import { Seeded } from '../../../support/seeded.js'

/** Bulk requests, most of which the kernel writes, held to lines that are put together from texts. */

const ROUNDS = rounds(150, 15)
const TIMES = [
  ...['2026-01-02T03:04:05.123456789Z', '2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.1234567891Z', 'soon'],
  ...['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.Z', '2026-01-02T03:04:05,5Z', '2026-01-03T00:00:00+02:00'],
  ...['2026-01-02 03:04:05.7Z', '2026-01-02T03:04:06.123Z', '2026-13-02T03:04:05Z', '1767323045.25', 1_767_323_045],
]
const SPACES = ['', '', '', ' ', '\t ']

function lineOf(random: Seeded): string {
  if (random.chance(0.05)) return random.pick(['{}', ' { } ', 'no json', '', '\ufeff{"a":1}'])
  const members = [`"app":"${random.pick(['cart', 'cart', 'shop', 'é'])}"`]
  if (random.chance(0.9)) members.push(`"timestamp":${JSON.stringify(random.pick(TIMES))}`)
  if (random.chance(0.05)) members.push('"@timestamp":"2026-05-06T07:08:09.5Z"')
  members.push(`"text":"${'x'.repeat(random.below(random.chance(0.01) ? 20_000 : 60))}"`)
  return `${random.pick(SPACES)}{${random.pick(SPACES)}${members.join(',')}${random.pick(SPACES)}}`
}

/** A batch of JSON lines, of which some are changed. */
function batchOf(random: Seeded): EventBatch {
  const count = 1 + random.below(random.chance(0.05) ? 6000 : 60)
  const text = Array.from({ length: count }, () => lineOf(random))
    .join('\n')
    .slice(0, 500_000)
  const origin = { ...originOf('json'), wanted: json.wanted }
  const batch = random.chance(0.7) ? pooledLines(text, origin) : batchesOf(`${text}\n`, origin)[0]!
  const at = random.chance(0.5) ? random.below(1e9) : 2 ** 40 + random.below(1e9)
  batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: '0123456789abcdef', at })
  for (let i = 0; i < batch.length; i++) if (random.chance(0.03)) batch.modify(i, { app: 'changed', timestamp: 1 })
  return batch
}

for (const [index, nameOf] of [
  ['logs', () => 'logs'],
  ['logs-${.app:-none}', (_time: string, app: unknown) => `logs-${app ?? 'none'}`],
  ['logs-%Y.%m.%d', (time: string) => `logs-${time.slice(0, 10).replaceAll('-', '.')}`],
] as const)
  t.test(`${ROUNDS} requests to ${index}`, async t => {
    const options = { url: 'http://127.0.0.1', index }
    const { context } = await make(options, elasticsearch)
    const bulk = new BulkRequest(elasticsearch.options.parse(options), context)
    const random = new Seeded(20_261_201)
    const wrong: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const batch = batchOf(random)
      const written = Buffer.concat(bulk.encode([batch.snapshot()]).parts).toString()
      let expected = ''
      for (let i = 0; i < batch.length; i++) {
        // A reader that knows no earlier time.
        const time = new EventTime(context.field(parseFieldPath('.timestamp')))
        const { '@timestamp': own, app } = batch.fields(i)
        const iso = String(own ?? time.isoOf(batch, i))
        const asRead = batch.line(i).toString().replace('\ufeff', '')
        const isAsRead = !batch.texts?.has(i) && batch.isObject(i)
        const json = isAsRead
          ? asRead
          : batch.texts?.has(i)
            ? batch.texts.text(i).toString()
            : JSON.stringify(batch.fields(i))
        const members = json.replace(/^\s*\{\s*/, '')
        const comma = members.startsWith('}') ? '' : ','
        const document = own === undefined ? `{"@timestamp":"${iso}"${comma}${members}` : json
        expected += `{"create":{"_index":"${nameOf(iso, app)}","_id":"${eventId(batch, i)}"}}\n${document}\n`
      }
      if (written !== expected) wrong.push(round)
      if (written !== expected && wrong.length === 1) {
        const at = Array.from(written).findIndex((c, n) => c !== expected[n])
        t.equal(written.slice(at - 100, at + 80), expected.slice(at - 100, at + 80))
      }
    }
    t.same(wrong, [])
  })
