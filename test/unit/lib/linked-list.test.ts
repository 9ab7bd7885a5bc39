import t from 'tap'
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
