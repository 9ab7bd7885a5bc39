import t from 'tap'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { throttle } from '../../../src/processors/throttle.js'
import { batchOf, linesOf } from '../../support/batches.js'
import { ManualTime, settle } from '../../support/manual-time.js'
import { loadedStageOf } from '../../support/stage.js'

/** A throttle by itself, in a time that stands still. */
async function throttleOf(options: object) {
  const clock = new ManualTime()
  const { stage, counters, wanted } = await loadedStageOf(throttle, { limit: 1, window: '1s', ...options }, { clock })
  /** The lines that are left of a batch. */
  const through = async (isBacklog: boolean, ...lines: object[]) => {
    const batch = batchOf(lines, { wanted, isBacklog })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
    const left = stage.read() as EventBatch | null
    left?.ack.settle('delivered')
    return left ? linesOf(left) : []
  }
  const decisions = () =>
    Object.fromEntries(
      (counters.series.get('sluice_throttle_events_total') ?? []).flatMap(({ read }) =>
        [...read()].flatMap(({ labels, value }) => (value > 0 ? [[labels.decision, value]] : [])),
      ),
    )
  const discards = () => Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events]))
  return { clock, counters, through, decisions, discards }
}

const event = (n: number, more = {}) => ({ n, ...more })

t.test('discarded backlog has a reason of its own on the clock', async t => {
  const { through, decisions, discards, counters } = await throttleOf({ exclude: 'if (.n equal 9)' })
  t.same(await through(true, event(1), event(2), event(9), event(3)), ['{"n":1}', '{"n":9}'])
  t.same(await through(false, event(4)), [], 'both count in the same window')
  t.same(discards(), { throttled_backlog: 2, throttled: 1 })
  t.same(decisions(), { passed: 1, excluded: 1, discarded: 3 })
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('in event time backlog is as any other', async t => {
  const { through, discards } = await throttleOf({ time_field: '.t', on_backlog: 'pass' })
  t.same(await through(true, event(1, { t: 1000 }), event(2, { t: 1500 }), event(3, { t: 2000 })), [
    '{"n":1,"t":1000}',
    '{"n":3,"t":2000}',
  ])
  t.same(discards(), { throttled: 1 })
})

t.test('on_backlog: pass lets it through without counting it', async t => {
  const { through, decisions, discards } = await throttleOf({ on_backlog: 'pass' })
  t.equal((await through(true, event(1), event(2), event(3))).length, 3)
  t.same(await through(false, event(4), event(5)), ['{"n":4}'])
  t.same(decisions(), { backlog: 3, passed: 1, discarded: 1 })
  t.same(discards(), { throttled: 1 })
})
