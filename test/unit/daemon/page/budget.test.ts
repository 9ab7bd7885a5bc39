import t from 'tap'
import { Budget } from '../../../../src/daemon/page/watch/budget.js'
import { systemClock } from '../../../../src/lib/time.js'

t.test('many answers at once leave three quarters of the time to other work', async t => {
  const budget = new Budget(systemClock)
  const began = performance.now()
  let busyMs = 0
  const answer = async () => {
    const turn = budget.answer()
    for (let portion = 0; portion < 20; portion++) {
      const before = performance.now()
      while (performance.now() - before < 1);
      busyMs += performance.now() - before
      await turn()
    }
  }
  await Promise.all(Array.from({ length: 10 }, answer))
  const took = performance.now() - began
  t.ok(busyMs >= 200)
  t.ok(took > 3 * busyMs, `${busyMs} of ${took} ms`)
})

t.test('a short answer is not put off', t => {
  t.equal(new Budget({ now: () => 0, wall: () => 0 }).answer()(), undefined)
  t.end()
})
