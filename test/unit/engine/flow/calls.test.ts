import { once } from 'node:events'
import t from 'tap'
import { z } from 'zod'
import { defineProcessor, type Processor } from '../../../../src/core/component.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import type { OnError } from '../../../../src/core/processor.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { stageOf } from '../../../support/stage.js'

function stageWith(processor: Processor, onError: OnError = 'pass') {
  const time = new ManualTime()
  const definition = defineProcessor({
    type: 'slow',
    summary: '',
    options: z.strictObject({}),
    examples: [{ title: '', yaml: '' }],
    plan: () => ({ deadline: 1000 }),
    create: () => processor,
  })
  const made = stageOf(definition, {}, { clock: time, onError })
  const left: string[] = []
  const settled: string[] = []
  made.stage.on('data', (batch: EventBatch) => {
    left.push(...linesOf(batch))
    batch.ack.settle('delivered')
  })
  const write = (...events: object[]) => {
    const batch = batchOf(events, { wanted: made.wanted, onSettled: status => settled.push(status) })
    made.counters.arrived(batch.length, batch.bytes)
    made.stage.write(batch)
  }
  return { ...made, time, left, settled, write }
}

t.test('after the deadline events fail as they arrived, and what the call still does is ignored', async t => {
  let go = () => {}
  const process: Processor['process'] = async (batch, to, scope) => {
    if (batch.fields(0).n !== 1) return
    batch.modify(0, { n: 'changed' })
    await new Promise<void>(resolve => (go = resolve))
    batch.modify(0, { n: 'late' })
    to.fill(0)
    t.throws(() => scope.replace(0, []), /called after process\(\) had ended/)
  }
  const { stage, time, left, settled, write, counters } = stageWith({ process })
  write({ n: 1 }, { n: 2 })
  write({ n: 3 })
  await time.advance(999)
  t.same(left, [], 'those behind it wait too')
  await time.advance(1)
  const failed = (n: number) =>
    JSON.stringify({ n, processing_error: { component: 'p', message: 'it was not processed within 1s' } })
  t.same(left, [failed(1), failed(2), '{"n":3}'])
  t.same(settled, ['delivered', 'delivered'])
  go()
  await settle()
  t.same(left.length, 3)
  stage.end()
  await once(stage, 'end')
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  t.equal(time.timers, 0)
})

t.test('a call that ends in time is as it would be without a deadline, also one that fails', async t => {
  const process: Processor['process'] = async batch => {
    if (batch.fields(0).n === 2) throw new Error('two')
  }
  const { stage, left, write, time } = stageWith({ process }, 'discard')
  write({ n: 1 })
  write({ n: 2 })
  await settle()
  t.same(left, ['{"n":1}'])
  t.equal(time.timers, 0)
  stage.destroy()
})

t.test('a processor with many calls that never end is not asked any more, and nothing waits', async t => {
  let asked = 0
  let go = () => {}
  const process: Processor['process'] = () => {
    asked++
    return new Promise<void>(resolve => {
      const before = go
      go = () => {
        before()
        resolve()
      }
    })
  }
  const { stage, time, counters, write } = stageWith({ process }, 'discard')
  for (let n = 0; n < 20; n++) {
    t.equal(stage.calls.outage === undefined, n < 16)
    write({ n })
    await time.advance(1000)
  }
  const since = new Date(1_700_000_016_000).toISOString()
  t.match(stage.calls.outage, { isStuck: true, reason: '16 calls have not ended', since })
  t.equal(asked, 16)
  t.equal(counters.discards.get('processing_failed')?.events, 20)
  go()
  await settle()
  write({ n: 20 })
  await settle()
  t.equal(asked, 17, 'once they have ended, it is')
  t.equal(stage.calls.outage, undefined)
  stage.destroy()
})

t.test('beside a call that did not end, the other events of a batch that failed are not tried', async t => {
  let calls = 0
  const process: Processor['process'] = batch => {
    calls++
    if (batch.length > 1) throw new Error('whole')
    return new Promise<void>(() => {})
  }
  const { stage, time, left, write } = stageWith({ process })
  write({ n: 1 }, { n: 2 })
  await time.advance(1000)
  t.equal(calls, 2)
  t.match(left, [/"n":1.*not processed within/, /"n":2.*not processed within/])
  stage.destroy()
})
