import { randomBytes } from 'node:crypto'
import t from 'tap'
import { kafka } from '../../../../src/components/kafka/destination.js'
import { type EncodedRecords, NO_PRODUCER, recordBatch, stamp } from '../../../../src/components/kafka/record-batch.js'
import { KafkaRecordLines } from '../../../../src/components/kafka/record-lines.js'
import { RecordEncoder } from '../../../../src/components/kafka/records.js'
import { theKernel } from '../../../../src/lib/kernel/kernel.js'
import { loadKafka } from '../../../../src/net/kafka/client.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { json, make, upTo } from '../../../support/destination.js'
import { rounds } from '../../../support/long-test.js'
import { pooledLines } from '../../../support/pooled-batch.js'
import { Seeded } from '../../../support/seeded.js'

/** Records that the kernel writes, held to those that JavaScript writes one by one. */

const ROUNDS = rounds(120, 12)
const TIMES = [
  ...['2026-01-02T03:04:05.123456789Z', '2026-01-02T03:04:05.1Z', '2026-01-02T03:04:04Z', '2026-01-20T00:00:00Z'],
  ...['1999-01-01T00:00:00Z', '1600-01-01T00:00:00Z', '9999-12-31T23:59:59Z', 'soon'],
]
const TEXTS = ['', 'a', 'some text', 'é漢😀', '"', '\t', 'x'.repeat(15), 'y'.repeat(48), 'z'.repeat(8200)]

function lineOf(random: Seeded, isJson: boolean, text = random.pick(TEXTS) + random.pick(TEXTS)): string {
  if (!isJson || random.chance(0.02)) return text
  const own = random.chance(0.9) ? { timestamp: random.pick(random.chance(0.9) ? TIMES.slice(0, 4) : TIMES) } : {}
  return JSON.stringify({ ...own, message: text })
}

for (const decode of ['text', 'json'])
  for (const encoding of ['raw', 'json'])
    t.test(`${ROUNDS} requests of ${decode} lines as ${encoding}`, async t => {
      const origin = { ...originOf(decode), wanted: json.wanted }
      const random = new Seeded(20_261_201)
      const client = await loadKafka()
      const encoder = async (more: object) => {
        const options = { brokers: ['127.0.0.1:9092'], topic: 'logs', encoding, ...more }
        const { context } = await make(options, kafka)
        return new RecordEncoder(kafka.options.parse(options), context)
      }
      for (const headers of [{}, { host: 'a', none: '', other: 'é'.repeat(40) }]) {
        const written = await encoder({ headers })
        // With a field for the key, even if it is always missing, JavaScript writes the records.
        const expected = await encoder({ headers, key_field: '.none' })
        const wrong: number[] = []
        for (let round = 0; round < ROUNDS; round++) {
          const count = 1 + random.below(random.chance(0.05) ? 9000 : 60)
          const short = Array.from({ length: count }, () => lineOf(random, decode === 'json'))
            .join('\n')
            .slice(0, 500_000)
          const batch = random.chance(0.7) ? pooledLines(short, origin) : batchesOf(`${short}\n`, origin)[0]!
          for (let i = 0; i < batch.length; i++)
            if (random.chance(0.01)) batch.modify(i, { message: random.pick(TEXTS), timestamp: random.pick(TIMES) })
          const bytes = async (records: EncodedRecords, indices: readonly number[]) => {
            const made = await recordBatch(records, indices, 'none', client)
            stamp(made, NO_PRODUCER, -1, client)
            return made
          }
          const both = () => [batch.snapshot(), batch.snapshot(0, Math.min(3, batch.length))]
          const [found, by] = [written.encode(both()), expected.encode(both())]
          const all = upTo(found.times.length)
          if (!(await bytes(found, all)).equals(await bytes(by, all))) wrong.push(round)
          const some = all.filter(() => random.chance(0.5))
          const alone = some.filter(i => i < batch.length)
          const selected = alone.length > 0 && written.encode([batch.snapshot().select(alone)])
          if (selected && !(await bytes(found, alone)).equals(await bytes(selected, upTo(alone.length))))
            wrong.push(round)
          written.release(found)
          expected.release(by)
        }
        t.same(wrong, [])
      }
    })

t.test('the checksum is CRC-32C', async t => {
  const { crc32c } = await loadKafka()
  const lines = theKernel()!.part(KafkaRecordLines)
  t.equal(lines.sumOf(Buffer.from('123456789')), 0xe3069283)
  for (const size of [0, 1, 15, 16, 17, 4000, 524_287, 524_288, 524_289, 1_200_003]) {
    const bytes = randomBytes(size)
    t.equal(lines.sumOf(bytes), crc32c(bytes), `${size} bytes`)
  }
})
