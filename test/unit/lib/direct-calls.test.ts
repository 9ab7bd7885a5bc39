import t from 'tap'
import { DirectCalls } from '../../../src/lib/files/direct-calls.js'

let now = 0
const clock = { now: () => now, wall: () => now }

/** Makes a call that takes so long; returns whether it was made directly. */
function call(calls: DirectCalls, ms: number): boolean {
  const began = calls.begin()
  if (began === undefined) return false
  now += ms
  calls.end(began)
  return true
}

/** How many calls are made in another thread until the next direct one. */
function apart(calls: DirectCalls): number {
  let count = 0
  while (!call(calls, 0)) count++
  return count
}

t.test('fast calls are made directly; after a slow one, others are made in a thread', async t => {
  const calls = new DirectCalls(clock, 4)
  for (let i = 0; i < 1000; i++) t.ok(call(calls, 4))
  call(calls, 4.1)
  t.equal(apart(calls), 64)
  t.ok(call(calls, 1))
})

t.test('twice as many after each slow call that follows soon, up to a bound', async t => {
  const calls = new DirectCalls(clock, 4)
  const counts: number[] = []
  for (let i = 0; i < 7; i++) {
    call(calls, 100)
    counts.push(apart(calls))
  }
  t.same(counts, [64, 128, 256, 512, 1024, 1024, 1024])
  for (let i = 0; i < 63; i++) call(calls, 1)
  call(calls, 100)
  t.equal(apart(calls), 64, 'as few as at first after enough fast ones')
})
