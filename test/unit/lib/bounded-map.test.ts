import t from 'tap'
import { BoundedMap, QueueMap } from '../../../src/lib/bounded-map.js'

t.test('a new entry replaces the oldest one', async t => {
  const map = new BoundedMap<string, number>(3)
  for (const [n, key] of ['a', 'b', 'c', 'a', 'd'].entries()) map.set(key, n)
  t.same([...map], Object.entries({ b: 1, c: 2, d: 4 }))
  map.delete('c')
  for (const key of ['c', 'e', 'f']) map.set(key, 0)
  t.same([...map.keys()], ['c', 'e', 'f'], 'what came again is a new entry')
  map.clear()
  for (const key of 'klmn') map.set(key, 0)
  t.same([...map.keys()], ['l', 'm', 'n'])
})

t.test('the oldest entry is taken, also from one that was empty', async t => {
  const map = new QueueMap<string, number>()
  t.equal(map.shift(), undefined)
  map.set('a', 1).set('b', 2)
  t.same([map.shift(), map.shift(), map.shift()], [['a', 1], ['b', 2], undefined])
  map.set('c', 3)
  t.same(map.shift(), ['c', 3])
})

t.test('an entry is replaced as fast in a large map as in a small one', async t => {
  const cpuOf = (most: number) => {
    const map = new BoundedMap<number, number>(most)
    for (let n = 0; n < most; n++) map.set(n, n)
    const begun = process.cpuUsage()
    for (let n = 0; n < 50_000; n++) map.set(most + n, n)
    return process.cpuUsage(begun).user / 1000
  }
  // Garbage may be collected in any one of them.
  const least = (most: number) => Math.min(...[1, 2, 3].map(() => cpuOf(most)))
  const [small, large] = [least(10), least(20_000)]
  t.ok(large < 10 * small + 20, `${large} ms of CPU, ${small} in a small one`)
})
