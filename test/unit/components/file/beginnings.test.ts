import t from 'tap'
import { Beginnings, KnownBeginnings } from '../../../../src/components/file/beginnings.js'
import { fingerprint } from '../../../../src/components/file/identity.js'

const first = Buffer.from('abcdefghij'.repeat(40))
const head = (bytes: number) => fingerprint(first, 0, bytes)

t.test('files are found by their beginnings, whatever the lengths', async t => {
  const beginnings = new Beginnings<string>()
  beginnings.add(head(100), 'a')
  beginnings.add(head(100), 'b')
  beginnings.add(head(7), 'short')
  beginnings.add(head(300), 'long')
  beginnings.add(fingerprint(Buffer.from('x'.repeat(100)), 0, 100), 'other')
  t.same([...beginnings.of(first.subarray(0, 200))], ['short', 'a', 'b'])
  t.same([...beginnings.of(first)], ['short', 'a', 'b', 'long'])
  t.same([...beginnings.with(head(100))], ['a', 'b'])
  for (const file of ['a', 'b', 'nothing']) beginnings.delete(head(100), file)
  t.same([...beginnings.of(first)], ['short', 'long'])
})

t.test('a file is also found by the marks in its first bytes, until it is forgotten', async t => {
  const known = new KnownBeginnings<string>()
  known.setHead('app', head(300))
  known.add('app', head(200), [
    { offset: 50, tail: head(50) },
    { offset: 90, tail: head(90) },
  ])
  known.addMark('app', { offset: 150, tail: head(150) })
  const found = (bytes: number) => [...known.like(first.subarray(0, bytes))]
  t.same([50, 90, 91, 150, 200, 250].map(found), [[], ['app'], [], ['app'], ['app'], ['app']], '50 bytes show nothing')
  known.setHead('app', head(300))
  t.same([200, 250, 300].map(found), [[], [], ['app']])
  known.delete('app')
  t.same([90, 150, 300].map(found), [[], [], []])
})
