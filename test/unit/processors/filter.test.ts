import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pino } from 'pino'
import t from 'tap'
import type { AckStatus } from '../../../src/core/ack.js'
import type { EventBatch } from '../../../src/core/batch.js'
import type { ComponentContext, Processor } from '../../../src/core/component.js'
import { FieldReader } from '../../../src/core/field-reader.js'
import { WantedNames } from '../../../src/lib/json-scan.js'
import { filter } from '../../../src/processors/filter.js'
import { batchOf, linesOf } from '../../support/batches.js'

/** A filter by itself, and what it counted. */
function filterOf(condition: string) {
  const wanted = new WantedNames()
  const counted: [string, ...unknown[]][] = []
  const metrics = {
    took: (...args: unknown[]) => counted.push(['took', ...args]),
    sent: (...args: unknown[]) => counted.push(['sent', ...args]),
    discarded: (...args: unknown[]) => counted.push(['discarded', ...args]),
    failed: (...args: unknown[]) => counted.push(['failed', ...args]),
  }
  const context = {
    id: 'f',
    log: pino({ level: 'silent' }),
    clock: { now: () => 0, wall: () => 0 },
    metrics: metrics as unknown as ComponentContext['metrics'],
    field: path => new FieldReader(path, wanted),
  } satisfies ComponentContext
  const processor = filter.create(filter.options.parse({ condition }), context) as Processor
  return { processor, wanted, counted }
}

function collector(into: string[]): Writable {
  return new Writable({
    objectMode: true,
    write(batch: EventBatch, _encoding, done) {
      into.push(...linesOf(batch))
      batch.ack.settle('delivered')
      done()
    },
  })
}

const LINES = ['{"level":"error"}', '{"level":"info"}', 'no json at all', '{"level":"error","n":2}', '{}']

t.test('keeps what matches, in order, and counts the rest', async t => {
  const { processor, wanted, counted } = filterOf("if (.level equal 'error')")
  const settled: AckStatus[] = []
  const onSettled = (status: AckStatus) => settled.push(status)
  const batches = [LINES, ['{}', '{"level":1}'], ['{"level":"error"}']].map(lines =>
    batchOf(lines, { wanted, onSettled }),
  )
  const kept: string[] = []
  await pipeline(Readable.from(batches), processor, collector(kept))
  t.same(kept, [LINES[0], LINES[3], LINES[0]])
  t.same(settled, ['delivered', 'delivered', 'delivered'], 'an emptied batch is settled too')
  t.same(
    counted.filter(([name]) => name === 'discarded'),
    [
      ['discarded', 'filtered', 3, 17 + 15 + 3],
      ['discarded', 'filtered', 2, 3 + 12],
    ],
  )
  t.same(
    counted.filter(([name]) => name === 'sent'),
    [
      ['sent', 2, 18 + 24],
      ['sent', 1, 18],
    ],
  )
})

t.test('what it discards comes out at its own output, where somebody reads that', async t => {
  const { processor, wanted, counted } = filterOf("if (NOT .level equal 'error')")
  const settled: AckStatus[] = []
  const batches = Array.from({ length: 20 }, () =>
    batchOf(LINES, { wanted, onSettled: status => settled.push(status) }),
  )
  const kept: string[] = []
  const discarded: string[] = []
  const outlet = (processor.outlets as { discarded: Readable & { connected: boolean } }).discarded
  outlet.connected = true
  await Promise.all([
    pipeline(Readable.from(batches), processor, collector(kept)),
    pipeline(outlet, collector(discarded)),
  ])
  t.same(
    kept,
    batches.flatMap(() => [LINES[1], LINES[2], LINES[4]]),
  )
  t.same(
    discarded,
    batches.flatMap(() => [LINES[0], LINES[3]]),
  )
  t.same(
    settled,
    batches.map(() => 'delivered'),
  )
  t.equal(counted.filter(([name, , events]) => name === 'discarded' && events === 2).length, batches.length)
})

t.test('options', async t => {
  t.notOk(filter.options.safeParse({}).success, 'a condition is needed')
  t.notOk(filter.options.safeParse({ condition: '.a exists' }).success)
  t.notOk(filter.options.safeParse({ condition: 'if (.a exists)', keep: true }).success)
  for (const { title, yaml, input = [], output } of filter.examples) {
    const { processor, wanted } = filterOf(yaml.replace(/^condition: /, '').trim())
    const kept: string[] = []
    await pipeline(Readable.from([batchOf(input, { wanted })]), processor, collector(kept))
    t.same(kept, output, title)
  }
})
