import t from 'tap'
import { DiscardHistory } from '../../../../src/components/throttle/discard-history.js'

const MINUTE = 60_000

t.test('the discards of an hour are those of its sixty minutes, by bucket', async t => {
  const history = new DiscardHistory()
  history.add('a', 5, 0)
  history.add('a', 2, 30 * MINUTE)
  history.add(null, 1, 30 * MINUTE)
  t.equal(history.lastHour('a', 59.9 * MINUTE), 7)
  t.equal(history.lastHour('a', 60 * MINUTE), 2)
  t.equal(history.lastHour(null, 60 * MINUTE), 1)
  history.add('a', 1, 61 * MINUTE)
  t.equal(history.lastHour('a', 89.9 * MINUTE), 3)
  t.equal(history.lastHour('a', 90 * MINUTE), 1)
  t.equal(history.lastHour('a', 1000 * MINUTE), 0)
  t.equal(history.lastHour('b', 0), 0)
})

t.test(
  'of many buckets those with most discards are kept, and that others were forgotten is said for an hour',
  async t => {
    const history = new DiscardHistory()
    for (let n = 0; n < 512; n++) history.add(`k${n}`, n + 1, 0)
    t.ok(history.isExact(0))
    history.add('new', 1, MINUTE)
    t.equal(history.lastHour('k511', MINUTE), 512)
    t.equal(history.lastHour('k255', MINUTE), 0)
    t.equal(history.lastHour('k256', MINUTE), 257)
    t.notOk(history.isExact(MINUTE))
    t.ok(history.isExact(62 * MINUTE))
  },
)
