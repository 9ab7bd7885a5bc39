import t from 'tap'
import { Ack, type AckStatus } from '../../../src/core/event/ack.js'

t.test('the worst status of all holders, told once, when the last has settled', async t => {
  const cases: readonly (readonly [statuses: readonly AckStatus[], told: AckStatus])[] = [
    [['delivered'], 'delivered'],
    [['rejected'], 'rejected'],
    [['errored'], 'errored'],
    [['delivered', 'delivered', 'delivered'], 'delivered'],
    [['delivered', 'rejected', 'delivered'], 'rejected'],
    [['rejected', 'errored', 'delivered'], 'errored'],
    [['errored', 'delivered', 'rejected'], 'errored'],
    [['delivered', 'errored'], 'errored'],
    [['rejected', 'delivered'], 'rejected'],
  ]
  for (const [statuses, told] of cases) {
    const seen: AckStatus[] = []
    const ack = new Ack(status => seen.push(status))
    if (statuses.length > 1) ack.fork(statuses.length - 1)
    for (const [i, status] of statuses.entries()) {
      t.same(seen, [], `nothing told before holder ${i} of ${statuses.join(', ')}`)
      t.equal(ack.sole, i === statuses.length - 1)
      ack.settle(status)
    }
    t.same(seen, [told], statuses.join(', '))
  }
})

t.test('who settles twice, or forks what is settled, is told', async t => {
  const seen: AckStatus[] = []
  const ack = new Ack(status => seen.push(status))
  ack.fork()
  ack.settle('delivered')
  ack.settle('delivered')
  t.throws(() => ack.settle('errored'), { message: 'a batch was settled twice' })
  t.throws(() => ack.fork(), { message: 'a settled batch was forked' })
  t.notOk(ack.sole)
  t.same(seen, ['delivered'], 'told once all the same')
})

t.test('memory that is let go of early', async t => {
  const shrunk: number[] = []
  const ack = new Ack(
    () => {},
    bytes => shrunk.push(bytes),
  )
  ack.shrink(300)
  ack.shrink(200)
  t.same(shrunk, [300, 200])
  t.doesNotThrow(() => new Ack(() => {}).shrink(1))
})
