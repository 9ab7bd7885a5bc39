import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { filter } from '../../../../src/components/processors/filter.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { stageOf } from '../../../support/stage.js'

const filterOf = (condition: string) => stageOf(filter, { condition })

const LINES = ['{"level":"error"}', '{"level":"info"}', 'no json at all', '{"level":"error","n":2}', '{}']

t.test('keeps what matches, in order, and counts the rest', async t => {
  const { stage, wanted, counters } = filterOf("if (.level equal 'error')")
  const settled: AckStatus[] = []
  const onSettled = (status: AckStatus) => settled.push(status)
  const batches = [LINES, ['{}', '{"level":1}'], ['{"level":"error"}']].map(lines =>
    batchOf(lines, { wanted, onSettled }),
  )
  const kept: string[] = []
  await pipeline(Readable.from(batches), stage, collectLines(kept))
  t.same(kept, [LINES[0], LINES[3], LINES[0]])
  t.same(settled, ['delivered', 'delivered', 'delivered'], 'an emptied batch is settled too')
  t.same(counters.discards.get('filtered'), { events: 5, bytes: 17 + 15 + 3 + 3 + 12 })
  t.same(counters.passed, { events: 3, bytes: 18 + 24 + 18 })
})

t.test('what it discards comes out at its own output, where somebody reads that', async t => {
  const { stage, wanted, counters } = filterOf("if (NOT .level equal 'error')")
  const settled: AckStatus[] = []
  const batches = Array.from({ length: 20 }, () =>
    batchOf(LINES, { wanted, onSettled: status => settled.push(status) }),
  )
  const kept: string[] = []
  const discarded: string[] = []
  const output = stage.outputs.get('discarded')!
  output.connected = true
  await Promise.all([
    pipeline(Readable.from(batches), stage, collectLines(kept)),
    pipeline(output, collectLines(discarded)),
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
  t.equal(counters.discards.get('filtered')?.events, 2 * batches.length)
})

t.test('options', async t => {
  t.notOk(filter.options.safeParse({}).success, 'a condition is needed')
  t.notOk(filter.options.safeParse({ condition: '.a' }).success)
  t.notOk(filter.options.safeParse({ condition: 'if (.a exists)', keep: true }).success)
  for (const { title, yaml, input = [], output } of filter.examples) {
    const { stage, wanted } = filterOf(yaml.replace(/^condition: /, '').trim())
    const kept: string[] = []
    await pipeline(Readable.from([batchOf(input, { wanted })]), stage, collectLines(kept))
    t.same(kept, output, title)
  }
})
