import t from 'tap'
import { Deadlines } from '../../../../src/engine/flow/delivery/deadlines.js'
import { nextTurn } from '../../../../src/lib/time.js'
import { until } from '../../../support/until.js'

t.test('a signal serves the next attempt, unless it was aborted or may not be used again', async t => {
  const deadlines = new Deadlines(60_000, true)
  const first = deadlines.begin()
  const { signal } = first.controller
  deadlines.end(first)
  const second = deadlines.begin()
  t.equal(second.controller.signal, signal)
  const beside = deadlines.begin()
  t.not(beside.controller.signal, signal, 'two at a time have two')
  t.equal(deadlines.size, 2)
  deadlines.end(second)
  const third = deadlines.begin()
  t.equal(third.controller.signal, signal)
  third.controller.abort()
  deadlines.end(third)
  const fourth = deadlines.begin()
  t.notOk(fourth.controller.signal.aborted)
  deadlines.end(fourth)
  deadlines.end(beside)
  t.equal(deadlines.size, 0)

  const others = new Deadlines(60_000, false)
  const one = others.begin()
  others.end(one)
  const next = others.begin()
  t.not(next.controller.signal, one.controller.signal)
  others.end(next)
})

t.test('an attempt that takes too long is aborted, one that ended in its turn has no timer', async t => {
  const deadlines = new Deadlines(20, true)
  const short = deadlines.begin()
  deadlines.end(short)
  await nextTurn()
  t.equal(short.cancel, undefined)
  const long = deadlines.begin()
  await until(() => long.controller.signal.aborted)
  t.match(long.controller.signal.reason, { message: 'no answer within 20ms', reason: 'timeout', failure: 'retry' })
  deadlines.end(long)
})

t.test('all are aborted at the end, and no timer is left', async t => {
  const reason = new Error('over')
  const deadlines = new Deadlines(60_000, true)
  const old = deadlines.begin()
  await nextTurn()
  const late = deadlines.begin()
  deadlines.abort(reason)
  for (const { controller } of [old, late]) t.equal(controller.signal.reason, reason)
  await nextTurn()
  t.equal(late.cancel, undefined, 'none is set after it')
  deadlines.end(old)
  deadlines.end(late)
})

t.test('a timer of another clock is set at once', async t => {
  const set: number[] = []
  let cancelled = 0
  const deadlines = new Deadlines(5000, true, ms => {
    set.push(ms)
    return () => void cancelled++
  })
  const running = deadlines.begin()
  t.same(set, [5000])
  deadlines.end(running)
  t.equal(cancelled, 1)
})
