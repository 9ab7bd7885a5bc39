import t from 'tap'
import { nextTurn } from '../../../../src/lib/time.js'
import { Gone, Refusal } from '../../../../src/net/http/server/refusal.js'
import { Budget, type Turn } from '../../../../src/page/server/watch/budget.js'
import { ManualTime } from '../../../support/manual-time.js'

/** A clock on which only work and pauses take time. `idle` passes the pauses until `isOver`. */
function setUp() {
  const state = { now: 0, busyMs: 0 }
  const pauses: { at: number; end(): void }[] = []
  const after = (ms: number, end: () => void) => {
    pauses.push({ at: state.now + ms, end })
    return () => {}
  }
  const work = (ms: number) => {
    state.now += ms
    state.busyMs += ms
  }
  const idle = async (isOver: () => boolean) => {
    while (!isOver()) {
      await nextTurn()
      pauses.sort((a, b) => a.at - b.at)
      const next = pauses.shift()
      if (!next) continue
      state.now = Math.max(state.now, next.at)
      next.end()
    }
  }
  return { state, work, idle, budget: new Budget({ now: () => state.now, wall: () => state.now, after }) }
}

/** Work in portions, and work that has none. */
const KINDS: Readonly<Record<string, (work: (ms: number) => void, turn: Turn) => Promise<void>>> = {
  async 'in portions'(work, turn) {
    for (let portion = 0; portion < 20; portion++) {
      work(1)
      await turn()
    }
  },
  async 'at once'(work) {
    work(20)
  },
}

for (const [kind, task] of Object.entries(KINDS))
  t.test(`many answers leave three quarters of the time to other work: ${kind}`, async t => {
    const { state, work, idle, budget } = setUp()
    let left = 40
    const client = async () => {
      while (left-- > 0) await budget.answer(false, turn => task(work, turn))
      clients--
    }
    let clients = 4
    for (let i = 0; i < 4; i++) void client()
    await idle(() => clients === 0)
    t.ok(state.now > 3 * state.busyMs, `${state.busyMs} of ${state.now} ms`)
    t.equal(state.busyMs, 800)
  })

t.test('a short answer is not put off', async t => {
  const budget = new Budget(new ManualTime())
  t.equal(await budget.answer(false, async turn => turn()), undefined)
})

t.test('answers under way are bounded, and half of them are for clients with the token', async t => {
  const budget = new Budget(new ManualTime())
  const never = () => new Promise<never>(() => {})
  const refused = new Refusal(503, 'too_many', 'too many requests; try again in a second', {
    'retry-after': '1',
  })
  for (let i = 0; i < 8; i++) void budget.answer(false, never)
  await t.rejects(budget.answer(false, never), refused)
  for (let i = 0; i < 8; i++) void budget.answer(true, never)
  await t.rejects(budget.answer(true, never), refused)
})

t.test('equal questions at a time are answered once, apart from those with the token', async t => {
  const time = new ManualTime()
  const budget = new Budget(time)
  let answers = 0
  const ask = (question: string, hasToken = false) => budget.shared(question, hasToken, async () => ++answers)
  t.same(await Promise.all([ask('a'), ask('a'), ask('b'), ask('a', true)]), [1, 1, 2, 3])
  t.equal(await ask('a'), 1)
  await time.advance(1000)
  t.equal(await ask('a'), 4)
  const fails = () => budget.shared('c', false, () => Promise.reject(new Error('once')))
  await t.rejects(fails(), { message: 'once' })
  t.equal(await ask('c'), 5, 'a failure is not kept')
})

t.test('work for a client that has gone ends', async t => {
  const { work, idle, budget } = setUp()
  let isGone = false
  const answer = budget.answer(
    false,
    async turn => {
      for (;;) {
        work(10)
        isGone = true
        await turn()
      }
    },
    () => isGone,
  )
  let ended: unknown
  answer.catch(error => (ended = error))
  await idle(() => ended !== undefined)
  t.ok(ended instanceof Gone)
})
