import t from 'tap'
import { ALONE, dataViewOf, hashBytes, NONE, TO_FIND } from '../../../../src/components/throttle/buckets/key-table.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { PLAIN } from '../../../../src/core/event/plain-strings.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { theKernel } from '../../../../src/lib/kernel/kernel.js'
import { originOf } from '../../../support/batches.js'
import { pooledLines } from '../../../support/pooled-batch.js'

const LINES = 5000
const { strings } = theKernel()!

/** A batch of lines of JSON, the slot of whose name k is 1. `before`: further lines. */
function batchOf(values: readonly string[], before = ''): EventBatch {
  const wanted = new WantedNames()
  for (const name of ['other', 'k']) wanted.slot(name)
  const lines = values.map(value => `{"k":${value}}`).join('\n')
  const batch = pooledLines(before + lines, { ...originOf('json'), wanted })
  batch.scan()
  return batch
}

function columns() {
  const column = () => new Int32Array(LINES)
  return { starts: column(), ends: column(), hashes: column(), ids: column() }
}

function hash(batch: EventBatch, owner: number, skipped?: Uint8Array) {
  const found = columns()
  const left = strings.hash(batch, 2, { seed: 7, longest: 20, owner }, skipped, found, PLAIN)
  return { ...found, left }
}

t.test('values are hashed as in JavaScript', async t => {
  const values = Array.from({ length: LINES }, (_, i) => 'key-é-0123456789'.slice(0, i % 15) + i)
  const batch = batchOf(values.map(value => JSON.stringify(value)))
  const { starts, ends, hashes, ids, left } = hash(batch, strings.owner())
  t.equal(left, LINES)
  const view = dataViewOf(batch.chunk)
  for (const [i, value] of values.entries()) {
    if (batch.chunk.toString('utf8', starts[i], ends[i]) !== value) t.fail(`${value} is found at ${starts[i]}`)
    if (hashes[i] !== hashBytes(view, starts[i]!, ends[i]!, 7)) t.fail(`${value} has another hash`)
    if (ids[i] !== TO_FIND) t.fail(`${value} has the number ${ids[i]}`)
  }
  batch.ack.settle('delivered')
})

t.test(
  'values that are empty, too long, twice there, or neither plain strings nor integers, are left alone',
  async t => {
    const texts = ['""', '"\\u0061"', `"${'x'.repeat(21)}"`, '"a","k":"b"', '7,"k":7', '"a', '{"k":"a"}', '[7]']
    const others = ['null', 'true', '-0', '-', '1.5', '1e3', '0.0', '1234567890123456', '-1234567890123456', '01']
    const batch = batchOf([...texts, ...others, '"b"'])
    const { ids, left } = hash(batch, strings.owner())
    t.same([...ids.subarray(0, batch.length)], [...texts, ...others].map(() => ALONE).concat(TO_FIND))
    t.equal(left, batch.length)
    batch.ack.settle('delivered')
  },
)

t.test('a missing value is left alone, whatever its chunk begins with', async t => {
  for (const line of ['{"j":7}', '"k"', '7']) {
    const batch = batchOf(['7'], `${line}\n{}\n`)
    t.same([...hash(batch, strings.owner()).ids.subarray(0, batch.length)], [ALONE, ALONE, TO_FIND])
    batch.ack.settle('delivered')
  }
})

t.test('values of lines that are skipped are not looked at', async t => {
  const batch = batchOf(Array.from({ length: LINES }, (_, i) => `"${i}"`))
  const { ids, left } = hash(
    batch,
    strings.owner(),
    Uint8Array.from({ length: LINES }, (_, i) => (i % 1000 === 7 ? 1 : 0)),
  )
  t.same(
    [...ids].flatMap((id, i) => (id === NONE ? [i] : [])),
    [7, 1007, 2007, 3007, 4007],
  )
  t.equal(left, LINES - 5)
  batch.ack.settle('delivered')
})

t.test('integers are hashed as their texts', async t => {
  const values = ['7', '"7"', '0', '"0"', '-1', '"-1"', '123456789012345', '"123456789012345"', '-999999999999999']
  const batch = batchOf(values)
  const { starts, ends, hashes, ids } = hash(batch, strings.owner())
  for (const [i, value] of values.entries()) {
    const text = value.replaceAll('"', '')
    t.equal(batch.chunk.toString('utf8', starts[i], ends[i]), text)
    t.equal(hashes[i], hashBytes(dataViewOf(Buffer.from(text)), 0, text.length, 7))
    t.equal(ids[i], TO_FIND)
  }
  batch.ack.settle('delivered')
})

t.test('an integer is known by its text, whatever follows it', async t => {
  const owner = strings.owner()
  for (let digits = 1; digits <= 15; digits++) {
    const value = '9'.repeat(digits)
    const batch = batchOf([value, `${value},"j":1`, `"${value}"`, `${value} `])
    const { starts, ends, hashes } = hash(batch, owner)
    strings.learn(owner, batch.chunk, starts[0]!, ends[0]!, hashes[0]!, digits)
    t.same([...hash(batch, owner).ids.subarray(0, 4)], new Array(4).fill(digits))
    batch.ack.settle('delivered')
  }
})

t.test('a value of the longest that are wanted is found, and one of the longest that are known is known', async t => {
  const owner = strings.owner()
  const batch = batchOf(['a', 'b', 'c', 'd'].map((letter, n) => `"${letter.repeat(n < 2 ? 20 : 14 + n)}"`))
  const first = hash(batch, owner)
  t.same([...first.ids.subarray(0, 4)], [TO_FIND, TO_FIND, TO_FIND, TO_FIND])
  for (let i = 0; i < 4; i++)
    strings.learn(owner, batch.chunk, first.starts[i]!, first.ends[i]!, first.hashes[i]!, 40 + i)
  t.same([...hash(batch, owner).ids.subarray(0, 4)], [TO_FIND, TO_FIND, 42, TO_FIND])
  batch.ack.settle('delivered')
})

t.test('values with the same hash have numbers of their own', async t => {
  const owner = strings.owner()
  const batch = batchOf(['"k-2cx9"', '"k-3y4e"', '"k-2cx9"'])
  const { starts, ends, hashes, ids } = hash(batch, owner)
  t.equal(hashes[0], hashes[1])
  t.same([...ids.subarray(0, 3)], [TO_FIND, TO_FIND, TO_FIND])
  strings.learn(owner, batch.chunk, starts[0]!, ends[0]!, hashes[0]!, 1)
  t.same([...hash(batch, owner).ids.subarray(0, 3)], [1, TO_FIND, 1])
  strings.learn(owner, batch.chunk, starts[1]!, ends[1]!, hashes[1]!, 2)
  t.same([...hash(batch, owner).ids.subarray(0, 3)], [1, 2, 1])
  batch.ack.settle('delivered')
})

t.test('lines with more slots than there is room for are left to others', async t => {
  const batch = batchOf(['"a"'])
  const stride = 2 * 65_537
  const { chunk, length, starts, ends, flags } = batch
  const lines = { chunk, length, starts, ends, flags, slots: new Int32Array(stride), stride }
  t.equal(strings.hash(lines, 0, { seed: 7, longest: 20, owner: 1 }, undefined, columns(), PLAIN), undefined)
  const text = { text: Buffer.from('a'), same: true, isString: true }
  t.equal(strings.narrow(lines, 0, text, Uint8Array.of(1), PLAIN), undefined)
  batch.ack.settle('delivered')
})

t.test('numbers of values are known to their owner, until there are too many', async t => {
  const owner = strings.owner()
  const stranger = strings.owner()
  let known = 0
  for (let round = 0; round < 8; round++) {
    const first = round * 1500
    const batch = batchOf(Array.from({ length: LINES }, (_, i) => `"service-${first + i}"`))
    const { ids, starts, ends, hashes } = hash(batch, owner)
    for (let i = 0; i < LINES; i++) {
      if (ids[i] === TO_FIND) strings.learn(owner, batch.chunk, starts[i]!, ends[i]!, hashes[i]!, first + i)
      else if (ids[i] === first + i) known++
      else t.fail(`service-${first + i} has the number ${ids[i]}`)
    }
    t.equal(hash(batch, stranger).left, LINES)
    batch.ack.settle('delivered')
  }
  t.ok(known > 3000, `${known} known values`)
})
