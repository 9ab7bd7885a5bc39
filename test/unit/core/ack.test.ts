import t from 'tap'
import { Ack, type AckStatus, Share } from '../../../src/core/event/ack.js'

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
    for (let more = 1; more < statuses.length; more++) ack.fork()
    for (const [i, status] of statuses.entries()) {
      t.same(seen, [], `nothing told before holder ${i} of ${statuses.join(', ')}`)
      t.equal(ack.isHeldBy(1), i === statuses.length - 1)
      ack.settle(status)
    }
    t.same(seen, [told], statuses.join(', '))
  }
})

t.test('the source reads again from the first event that any holder gave back', async t => {
  const cases: readonly (readonly [settled: readonly [AckStatus, before?: number][], told: number, why: string])[] = [
    [[['errored', 300]], 300, 'one holder'],
    [
      [
        ['errored', 300],
        ['errored', 100],
      ],
      100,
      'the later one begins earlier',
    ],
    [
      [
        ['errored', 100],
        ['errored', 300],
      ],
      100,
      'the earlier one begins earlier',
    ],
    [
      [
        ['errored', 300],
        ['errored', 100],
        ['errored', 200],
      ],
      100,
      'three holders',
    ],
    [[['errored', 300], ['errored']], 0, 'of one it is unknown'],
    [[['errored'], ['errored', 300]], 0, 'of one it is unknown'],
    [
      [
        ['errored', 300],
        ['errored', Number.NaN],
      ],
      0,
      'of one it is no number',
    ],
    [[['delivered'], ['errored', 300], ['rejected']], 300, 'the others gave nothing back'],
    [
      [
        ['delivered', 300],
        ['rejected', 200],
      ],
      0,
      'nobody gave anything back',
    ],
  ]
  for (const [settled, told, why] of cases) {
    let before: number | undefined
    const ack = new Ack((_, bytes) => (before = bytes))
    for (let more = 1; more < settled.length; more++) ack.fork()
    for (const [status, bytes] of settled) ack.settle(status, bytes)
    t.equal(before, told, why)
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
  t.notOk(ack.isHeldBy(1))
  t.same(seen, ['delivered'], 'told once all the same')
})

t.test('a share counts once, however often it is settled', async t => {
  const seen: AckStatus[] = []
  const closed: Share[] = []
  const ack = new Ack(status => seen.push(status))
  const share = new Share(ack, share => closed.push(share))
  share.settle('delivered')
  share.settle('errored')
  t.same(closed, [share])
  t.same(seen, [], 'the other holder has not settled')
  ack.settle('delivered')
  t.same(seen, ['delivered'])
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
