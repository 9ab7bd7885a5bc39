import t from 'tap'
import { compileBatchTest, compileCondition } from '../../../../src/core/condition/condition.js'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import type { FieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import type { Origin } from '../../../../src/core/event/origin.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { batchOf, originOf } from '../../../support/batches.js'
import { JsonLines } from '../../../support/json-lines.js'
import { rounds } from '../../../support/long-test.js'
import { Seeded } from '../../../support/seeded.js'

const PATHS = ['.a', '.a', '.b', '.list', '.raw', '.a.b', '.list[0]', 'length(.a)', 'lower(.b)', '.message']
const TEXTS = ['x', '', '7', '1e+21', 'true', 'web-07', 'Infinity', '-1', 'é', 'x'.repeat(1100), '\\"', '\\\\']
const OPERATORS = ['equal', 'not_equal', 'equal', 'not_equal', 'starts_with', 'contains', 'greater', 'less_or_equal']
const VALUES = ['"x"', '""', '"web-07"', '"\\u0077eb-07"', '7', '-1', '"7"', '1e21', '1e999', '1.0', 'true', '"true"']
const OTHERS = [
  'null',
  '{}',
  '{"b":"x"}',
  '[]',
  '["x"]',
  '"é"',
  '"\\u00e9"',
  '"-1"',
  '"Infinity"',
  `"${'x'.repeat(1100)}"`,
]

function conditionOf(random: Seeded, depth: number): string {
  const kind = depth === 0 ? 0 : random.below(4)
  if (kind === 1) return `NOT (${conditionOf(random, depth - 1)})`
  if (kind > 1) {
    const terms = Array.from({ length: 2 + random.below(2) }, () => `(${conditionOf(random, depth - 1)})`)
    return terms.join(kind === 2 ? ' AND ' : ' OR ')
  }
  const path = random.pick(PATHS)
  if (random.chance(0.1)) return `${path} exists`
  if (random.chance(0.1)) return `${path} ${random.pick(OPERATORS)} ${random.pick(PATHS)}`
  if (random.chance(0.1)) return `${path} in ('x', '7')`
  return `${path} ${random.pick(OPERATORS)} '${random.pick(TEXTS)}'`
}

function lineOf(random: Seeded, source: JsonLines): string {
  if (random.chance(0.2)) return source.line().toString('latin1').replaceAll('\n', ' ')
  const members = ['a', 'b', 'list', 'raw'].map(name => `"${name}":${random.pick([...VALUES, ...OTHERS])}`)
  return `{${members.filter(() => random.chance(0.9)).join(',')}}`
}

/** A batch in a chunk of the pool, as a source reads it. */
function readBatch(text: string, origin: Origin): EventBatch {
  const splitter = new LineSplitter(1 << 20)
  const bytes = Buffer.from(text)
  bytes.copy(splitter.reserve(CHUNK_BYTES))
  const batch = new EventBatch(splitter.commit(bytes.length)!, origin, 0, new Ack(() => {}))
  splitter.release()
  return batch
}

const ROUNDS = rounds(1500, 500)

t.test('a test of a whole batch finds what the condition finds in each of its events', async t => {
  const random = new Seeded(20_261_122)
  const source = new JsonLines(random)
  const wrong: string[] = []
  const seen = [0, 0]
  for (let round = 0; round < ROUNDS && wrong.length < 5; round++) {
    const condition = `if (${conditionOf(random, random.below(4))})`
    const origin = originOf(random.chance(0.9) ? 'json' : 'text')
    const field = (path: FieldPath) => new FieldReader(path, origin.wanted)
    const one = compileCondition(parseCondition(condition), field)
    const all = compileBatchTest(parseCondition(condition), field)
    const lines = Array.from({ length: 1 + random.below(40) }, () => lineOf(random, source))
    const text = `${lines.join('\n')}\n`
    const batches = random.chance(0.8)
      ? [readBatch(text, origin), readBatch(text, origin)]
      : [batchOf(lines, { wanted: origin.wanted }), batchOf(lines, { wanted: origin.wanted })]
    for (let i = 0; i < lines.length; i++) {
      if (random.chance(0.05)) for (const batch of batches) batch.modify(i, { a: 'x', b: 7 })
    }
    const [whole, single] = batches as [EventBatch, EventBatch]
    const found = new Uint8Array(lines.length + 1).fill(9)
    all(whole, found)
    for (let i = 0; i < lines.length; i++) {
      const expected = one(single, i) ? 1 : 0
      seen[expected]!++
      if (found[i] !== expected) wrong.push(`${condition} on ${lines[i]}: ${found[i]}`)
    }
    if (found[lines.length] !== 9) wrong.push(`${condition} wrote behind the last event`)
    for (const batch of batches) batch.ack.settle('delivered')
  }
  t.same(wrong, [])
  t.ok(seen[0]! > 3.3 * ROUNDS && seen[1]! > 3.3 * ROUNDS, `${seen[1]} hold, ${seen[0]} do not`)
})
