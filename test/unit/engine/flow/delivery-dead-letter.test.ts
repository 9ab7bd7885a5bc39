import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import { DeadLetterFile } from '../../../../src/engine/run/dead-letter/queue.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { parsedLines } from '../../../support/parsed-lines.js'
import { valuesOf } from '../../../support/values-of.js'

const log = pino({ level: 'silent' })
const refused = new DeliveryError('422 from there: no', {
  failure: 'reject',
  reason: 'status_422',
  status: 422,
  requestId: 'r-1',
})
const json = originOf('json', '/var/log/app.log')
const text = originOf('text', '/var/log/app.log')

function recordsOf(path: string): Record<string, unknown>[] {
  return parsedLines<Record<string, unknown>>(readFileSync(path, 'utf8'))
}

t.test('a record has all it takes to send the event again', async t => {
  const dataDir = testFolder(t)
  const letters = new DeadLetterFile({ dataDir, destination: 'up/../stream', log, clock: new ManualTime() })
  const objects = batchesOf('{"a":1.50,"big":12345678901234567890}\nnot json\n{"b":2}\r\n', json)
  objects[0]!.modify(2, { b: 3 })
  const lines = batchesOf(Buffer.from('plain "text"\nbad \xff\n', 'latin1'), text)
  await letters.write([...objects, ...lines], refused)
  t.equal(letters.path, join(dataDir, 'dead-letter', 'up%2F..%2Fstream.ndjson'), 'an id cannot lead elsewhere')
  t.equal(statSync(letters.path).mode & 0o777, 0o600)
  t.match(readFileSync(letters.path, 'utf8'), '{"a":1.50,"big":12345678901234567890}', 'as it was, digit by digit')
  const records = recordsOf(letters.path)
  t.match(records[0], {
    time: '2023-11-14T22:13:20.000Z',
    destination: 'up/../stream',
    status: 422,
    reason: 'status_422',
    request_id: 'r-1',
    error: '422 from there: no',
    event: { a: 1.5 },
  })
  t.same(valuesOf(records, 'line'), [undefined, 'message', undefined, 'message', 'raw'])
  t.same(records[2]!.event, { b: 3 })
  t.match(records[3]!.event, { message: 'plain "text"', file: '/var/log/app.log', host: 'h' })
  const { raw } = records[4]!.event as { raw: string }
  t.equal(Buffer.from(raw, 'base64').toString('latin1'), 'bad \xff')
  await letters.write(batchesOf('{"c":4}\n', json), new DeliveryError('gone', { failure: 'reject', reason: 'x' }))
  t.same(recordsOf(letters.path).at(-1), {
    time: '2023-11-14T22:13:20.000Z',
    destination: 'up/../stream',
    reason: 'x',
    error: 'gone',
    event: { c: 4 },
  })
})

t.test('what a crash left of a record is cut off; a moved file is made anew', async t => {
  const dataDir = testFolder(t)
  const letters = new DeadLetterFile({ dataDir, destination: 'd', log, clock: new ManualTime() })
  const event = (n: number) => batchesOf(`{"n":${n}}\n`, json)
  const found = () => recordsOf(letters.path).map(({ event }) => (event as { n: number }).n)
  await letters.write(event(1), refused)
  const whole = statSync(letters.path).size
  appendFileSync(letters.path, `{"time":"${'x'.repeat(200_000)}`)
  await letters.write(event(2), refused)
  t.same(found(), [1, 2])
  t.equal(statSync(letters.path).size, whole * 2)
  renameSync(letters.path, `${letters.path}.old`)
  appendFileSync(letters.path, '{"torn')
  await letters.write(event(3), refused)
  t.same(found(), [3], 'also when nothing else is there')
  await Promise.all([4, 5, 6, 7].map(n => letters.write(event(n), refused)))
  t.same(found(), [3, 4, 5, 6, 7], 'one after the other')
})

t.test('a failed write rejects, and is whole the next time', async t => {
  const dataDir = testFolder(t)
  const letters = new DeadLetterFile({ dataDir, destination: 'd', log, clock: new ManualTime() })
  mkdirSync(letters.path, { recursive: true })
  await t.rejects(letters.write(batchesOf('{"n":1}\n', json), refused), { code: 'EISDIR' })
  rmdirSync(letters.path)
  t.notOk(existsSync(letters.path))
  await letters.write(batchesOf('{"n":1}\n', json), refused)
  t.equal(recordsOf(letters.path).length, 1)
})
