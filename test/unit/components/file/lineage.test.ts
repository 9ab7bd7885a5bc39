import t from 'tap'
import { Lineage } from '../../../../src/components/file/lineage.js'

/** The order of the files that had one name. */

class File {
  readonly age: number
  readonly isBegun: boolean
  constructor(age: number, isBegun = false) {
    this.age = age
    this.isBegun = isBegun
  }
  isNewerThan(other: File): boolean {
    return this.age > other.age
  }
}

const ages = (lineage: Lineage<File>, last: File) => [...lineage.before(last), last].map(({ age }) => age)

t.test('a file that took the name comes last, one that had it unseen by its age', async t => {
  const lineage = new Lineage<File>()
  const [old, now] = [new File(1), new File(4)]
  lineage.append(old)
  lineage.append(now)
  lineage.insert(new File(3), now)
  lineage.insert(new File(2), now)
  t.same(ages(lineage, now), [1, 2, 3, 4])
  t.same(lineage.before(old), [])
})

t.test('the file that has the name is the newest, whatever its times say', async t => {
  const lineage = new Lineage<File>()
  const now = new File(0)
  lineage.append(now)
  lineage.insert(new File(9), now)
  t.same(ages(lineage, now), [9, 0])
})

t.test('nothing comes before a file that was begun', async t => {
  const lineage = new Lineage<File>()
  const [begun, now] = [new File(5, true), new File(9)]
  lineage.append(begun)
  lineage.append(now)
  const found = new File(1)
  lineage.insert(found, now)
  t.same(ages(lineage, now), [5, 1, 9])
  lineage.remove(begun)
  lineage.remove(found)
  t.same(lineage.before(now), [])
  lineage.remove(now)
  t.equal(lineage.isEmpty, true)
})
