import t from 'tap'
import { LowWaterMark } from '../../../../src/engine/flow/low-water-mark.js'
import { Seeded } from '../../../support/seeded.js'

t.test('the mark is where everything before it is settled, in whatever order that happens', async t => {
  for (let seed = 1; seed <= 50; seed++) {
    const random = new Seeded(seed)
    const marks: number[] = []
    const tracked: LowWaterMark<number> = new LowWaterMark(0, () => marks.push(tracked.mark))
    const open = Array.from({ length: 20 }, (_, i) => ({ position: 10 * (i + 1), settle: tracked.add(10 * (i + 1)) }))
    while (open.length > 0) {
      open.splice(random.below(open.length), 1)[0]!.settle()
      const expected = open.length > 0 ? open[0]!.position - 10 : 200
      if (tracked.mark !== expected) t.equal(tracked.mark, expected, `seed ${seed}`)
    }
    t.notOk(tracked.unsettled)
    t.equal(marks.at(-1), 200)
    t.equal(new Set(marks).size, marks.length, 'it tells each mark once')
  }
})

t.test('the mark goes up to what a position reached that is settled in part, and no further', async t => {
  const marks: number[] = []
  const tracked: LowWaterMark<number> = new LowWaterMark(0, () => marks.push(tracked.mark))
  const [first, second, third] = [10, 20, 30].map(position => tracked.add(position)) as [
    () => void,
    (reached: number) => void,
    () => void,
  ]
  third()
  second(13)
  t.equal(tracked.mark, 0, 'the first is open')
  first()
  t.equal(tracked.mark, 13)
  t.ok(tracked.unsettled, 'the rest of the second is never settled, so the third does not count')
  t.same(marks, [13])
  const alone = new LowWaterMark(0)
  alone.add(10)(0)
  t.equal(alone.mark, 0, 'nothing of it was settled')
  const tail = new LowWaterMark(0)
  tail.add(10)(4)
  t.equal(tail.mark, 4)
})

t.test('what is settled behind the mark', async t => {
  const tracked = new LowWaterMark(0)
  const settles = Array.from({ length: 8 }, (_, i) => tracked.add(i + 1))
  for (const i of [1, 2, 4, 7]) settles[i]!()
  t.same(tracked.ahead(), [
    [1, 3],
    [4, 5],
    [7, 8],
  ])
  t.equal(tracked.mark, 0)
})
