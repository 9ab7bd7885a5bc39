import t from 'tap'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { PLAIN } from '../../../src/core/event/plain-strings.js'
import { theKernel } from '../../../src/kernel/kernel.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { ALONE, hashBytes, NONE, TO_FIND, viewOf } from '../../../src/throttle/key-table.js'
import { originOf } from '../../support/batches.js'
import { pooledLines } from '../../support/pooled-batch.js'

const LINES = 5000
const { strings } = theKernel()!

/** A batch of lines of JSON, the slot of whose name k is 1. */
function batchOf(values: readonly string[]): EventBatch {
  const wanted = new WantedNames()
  for (const name of ['other', 'k']) wanted.slot(name)
  const batch = pooledLines(values.map(value => `{"k":${value}}`).join('\n'), { ...originOf('json'), wanted })
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
  const view = viewOf(batch.chunk)
  for (const [i, value] of values.entries()) {
    if (batch.chunk.toString('utf8', starts[i], ends[i]) !== value) t.fail(`${value} is found at ${starts[i]}`)
    if (hashes[i] !== hashBytes(view, starts[i]!, ends[i]!, 7)) t.fail(`${value} has another hash`)
    if (ids[i] !== TO_FIND) t.fail(`${value} has the number ${ids[i]}`)
  }
  batch.ack.settle('delivered')
})

t.test('values that are missing, empty, too long, or no plain strings, are left alone', async t => {
  const values = ['""', 'null', '7', '"\\u0061"', '{"k":"a"}', `"${'x'.repeat(21)}"`, '"a","k":"b"', '"a', '"b"', '"c"']
  const batch = batchOf(values)
  const { ids, left } = hash(batch, strings.owner(), Uint8Array.from([1, ...new Array(8).fill(0), 1]))
  t.same([...ids.subarray(0, values.length)], [NONE, ...new Array(7).fill(ALONE), TO_FIND, NONE])
  t.equal(left, 8)
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
