import t from 'tap'
import { BoundedMap, QueueMap } from '../../../src/lib/bounded-map.js'
import { type Linked, LinkedList } from '../../../src/lib/linked-list.js'

interface Item extends Linked<Item> {
  readonly name: string
}

const names = (list: LinkedList<Item>) => [...list].map(({ name }) => name).join('')

t.test('things come and go in any order, the rest stays in the order it came', async t => {
  const list = new LinkedList<Item>()
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name): Item => ({ name })) as [Item, Item, Item, Item]
  for (const item of [a, b, c, d]) list.add(item)
  t.equal(names(list), 'abcd')
  t.equal(list.first, a)
  t.ok(list.delete(b), 'from the middle')
  t.equal(names(list), 'acd')
  t.ok(list.delete(d), 'the last')
  t.ok(list.delete(a), 'the first')
  t.equal(names(list), 'c')
  list.add(a)
  t.equal(names(list), 'ca', 'what left may come again')
  t.equal(list.size, 2)
  list.clear()
  t.equal(names(list), '')
  t.equal(list.size, 0)
  t.equal(list.first, undefined)
})

t.test('what has left leads nowhere, and is nobody else’s', async t => {
  const list = new LinkedList<Item>()
  const other = new LinkedList<Item>()
  const items = ['a', 'b', 'c'].map((name): Item => ({ name }))
  for (const item of items) list.add(item)
  const [, middle] = items
  t.notOk(other.delete(middle!), 'it is in another list')
  t.ok(list.has(middle!))
  list.delete(middle!)
  t.notOk(list.has(middle!))
  t.notOk(list.delete(middle!), 'twice')
  t.same(middle, { name: 'b', previous: undefined, next: undefined, list: undefined })
})

t.test('what is given may be deleted meanwhile', async t => {
  const list = new LinkedList<Item>()
  for (const name of ['a', 'b', 'c']) list.add({ name })
  const seen: string[] = []
  for (const item of list) {
    seen.push(item.name)
    list.delete(item)
  }
  t.same(seen, ['a', 'b', 'c'])
  t.equal(list.size, 0)
})

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
