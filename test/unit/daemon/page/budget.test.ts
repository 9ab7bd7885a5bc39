import t from 'tap'
import { Budget } from '../../../../src/daemon/page/watch/budget.js'
import { nextTurn } from '../../../../src/lib/time.js'

t.test('many answers at once leave three quarters of the time to other work', async t => {
  let now = 0
  const pauses: { at: number; end(): void }[] = []
  const after = (ms: number, end: () => void) => {
    pauses.push({ at: now + ms, end })
    return () => {}
  }
  const budget = new Budget({ now: () => now, wall: () => now, after })
  let busyMs = 0
  const answer = async () => {
    const turn = budget.answer()
    for (let portion = 0; portion < 20; portion++) {
      now++
      busyMs++
      await turn()
    }
    running--
  }
  let running = 10
  for (let i = 0; i < 10; i++) void answer()
  while (running > 0) {
    await nextTurn()
    pauses.sort((a, b) => a.at - b.at)
    const next = pauses.shift()
    if (!next) continue
    now = Math.max(now, next.at)
    next.end()
  }
  t.ok(now > 3 * busyMs, `${busyMs} of ${now} ms`)
})

t.test('a short answer is not put off', t => {
  t.equal(new Budget({ now: () => 0, wall: () => 0, after: () => () => {} }).answer()(), undefined)
  t.end()
})
