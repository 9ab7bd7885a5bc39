import t from 'tap'
import { loki } from '../../../../src/components/loki/destination.js'
import { PushRequest } from '../../../../src/components/loki/push-request.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { json, make } from '../../../support/destination.js'
import { rounds } from '../../../support/long-test.js'
import { pooledLines } from '../../../support/pooled-batch.js'
import { Seeded } from '../../../support/seeded.js'

/** Requests whose entries the kernel writes, held to those that JavaScript writes one by one. */

const ROUNDS = rounds(120, 12)
const TIMES = [
  ...['2026-01-02T03:04:05.123456789Z', '2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05Z', '1999-01-01T00:00:00Z'],
  ...['2106-02-07T06:28:15Z', '2106-02-07T06:28:16Z', '2300-01-01T00:00:00Z', '1600-01-01T00:00:00Z', 'soon'],
]
const TEXTS = [
  '',
  'a',
  'some text',
  'é漢😀',
  '"',
  '\\',
  '\t',
  '\u0001\u001f',
  '\u007f',
  'x'.repeat(15),
  'y'.repeat(300),
]

function textOf(random: Seeded): string {
  const text = Array.from({ length: random.below(6) }, () => random.pick(TEXTS)).join('')
  return random.chance(0.01) ? text.repeat(2000) : text
}

function lineOf(random: Seeded, isJson: boolean): string {
  if (!isJson || random.chance(0.05)) return textOf(random)
  const own = random.chance(0.9) ? { timestamp: random.pick(TIMES) } : {}
  return JSON.stringify({ app: random.pick(['cart', 'cart', 'cart', 'shop']), ...own, message: textOf(random) })
}

/** A request in JSON, put together from texts. */
function inJson(push: PushRequest, batch: EventBatch): Buffer {
  const streams = new Map<string, string[]>()
  for (let i = 0; i < batch.length; i++) {
    const labels = push.labelsOf(batch, i)
    const values = streams.get(labels) ?? []
    streams.set(labels, values)
    values.push(`["${push.nanosOf(batch, i)}",${JSON.stringify(push.lineOf(batch, i))}]`)
  }
  const all = Array.from(streams, ([labels, values]) => `{"stream":${labels},"values":[${values.join(',')}]}`)
  return Buffer.from(`{"streams":[${all.join(',')}]}`)
}

for (const decode of ['text', 'json'])
  for (const encoding of ['raw', 'json'])
    t.test(`${ROUNDS} requests of ${decode} lines as ${encoding}`, async t => {
      const origin = { ...originOf(decode), wanted: json.wanted }
      const random = new Seeded(20_261_130)
      const push = async (more: object) => {
        const options = { url: 'http://127.0.0.1', labels: { app: '${.app:-none}' }, encoding, ...more }
        const { context } = await make(options, loki)
        return new PushRequest(loki.options.parse(options), context)
      }
      for (const compression of ['none', 'snappy']) {
        const written = await push({ compression })
        // With metadata, even if it is always empty, JavaScript writes the entries in protobuf.
        const expected = await push({ compression, structured_metadata: { none: '${.none}' } })
        const wrong: number[] = []
        for (let round = 0; round < ROUNDS; round++) {
          const count = 1 + random.below(random.chance(0.05) ? 6000 : 60)
          const text = Array.from({ length: count }, () => lineOf(random, decode === 'json')).join('\n')
          const short = text.slice(0, 500_000)
          const batch = random.chance(0.7) ? pooledLines(short, origin) : batchesOf(`${short}\n`, origin)[0]!
          batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: '0123456789abcdef', at: random.below(1e9) })
          for (let i = 0; i < batch.length; i++)
            if (random.chance(0.03)) batch.modify(i, { app: 'changed', message: textOf(random) })
          const bytes = (request: PushRequest) => Buffer.concat(request.encode([batch.snapshot()]).parts)
          const isEqual =
            compression === 'snappy'
              ? bytes(written).equals(bytes(expected))
              : [written, expected].every(request => bytes(request).equals(inJson(request, batch)))
          if (!isEqual) wrong.push(round)
        }
        t.same(wrong, [], compression)
      }
    })
