import t from 'tap'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { type RequestPool, RequestSlots } from '../../../../src/engine/flow/delivery/request-slots.js'

t.test('a destination without a request waits for room in the pool, as often as there is none', async t => {
  let room = false
  const waiting: (() => void)[] = []
  const requests: RequestPool = {
    hasRoom: () => room,
    begin: () => {},
    end: () => {},
    wait: again => waiting.push(again),
  }
  let woken = 0
  const metrics = new ComponentCounters('out', 'destination', 'fake')
  const slots = new RequestSlots(1, { requests, metrics }, () => woken++)
  for (let round = 1; round <= 3; round++) {
    t.notOk(slots.freeOrWait())
    t.notOk(slots.freeOrWait())
    t.equal(waiting.length, 1, 'it waits once')
    waiting.shift()!()
    t.equal(woken, round)
  }
  room = true
  t.ok(slots.freeOrWait())
  const end = slots.begin(1)
  t.notOk(slots.freeOrWait(), 'its only slot is taken')
  t.equal(waiting.length, 0, 'the end of its request wakes it')
  end()
  t.ok(slots.idle)
})
