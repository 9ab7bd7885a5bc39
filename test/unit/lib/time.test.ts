import t from 'tap'
import { aborted, after, deadline, every, sleep } from '../../../src/lib/time.js'

/** Longer than a timer of the platform can wait. */
const LONG = 2 ** 40

t.test('a long time is not no time', async t => {
  const fired: string[] = []
  const stop = new AbortController()
  const { signal, clear } = deadline(LONG)
  const cancels = [after(LONG, () => fired.push('after')), every(LONG, () => fired.push('every')), clear]
  const slept = sleep(LONG, stop.signal).then(() => fired.push('sleep'))
  // Timers that are too long for the platform would ring after a millisecond, and before this one.
  await sleep(2)
  t.same(fired, [])
  t.notOk(signal.aborted)
  for (const cancel of cancels) cancel()
  stop.abort()
  await slept
  t.same(fired, ['sleep'], 'an abort ends the wait')
})

t.test('signals', async t => {
  const parent = new AbortController()
  const { signal, clear } = deadline(1000, parent.signal)
  parent.abort(new Error('over'))
  t.match(signal.reason, { message: 'over' })
  clear()
  const late = deadline(1000, parent.signal)
  t.ok(late.signal.aborted, 'aborted already')
  late.clear()
  await sleep(1000, parent.signal)
  const short = deadline(1)
  await aborted(short.signal)
  t.match(short.signal.reason, { message: 'no answer within 1 ms' })
})
