import t from 'tap'
import { compileCondition } from '../../../../src/core/condition/condition.js'
import { explainCondition } from '../../../../src/core/condition/explain.js'
import { type Condition, parseCondition } from '../../../../src/core/condition/parse.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { type FieldPath, parseFieldPath, valueAt } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'

/** What the language means, said about plain values. */
type Value = unknown
const textOf = (value: Value) => (['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined)
const numberIn = (value: Value) =>
  typeof value !== 'boolean' && /^[+-]?\d+(\.\d+)?$/.test(textOf(value) ?? '') ? Number(value) : undefined
const byCodePoints = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

const FUNCTIONS: Record<string, (value: Value) => Value> = {
  lower: value => textOf(value)?.toLowerCase(),
  upper: value => textOf(value)?.toUpperCase(),
  length: value =>
    textOf(value) !== undefined
      ? [...textOf(value)!].length
      : typeof value === 'object' && value !== null
        ? Object.keys(value).length
        : undefined,
}
const OF_TEXTS: Record<string, (a: string, b: string) => boolean> = {
  equal: (a, b) => a === b,
  not_equal: (a, b) => a !== b,
  contains: (a, b) => a.includes(b),
  starts_with: (a, b) => a.startsWith(b),
  ends_with: (a, b) => a.endsWith(b),
}
const ORDERS: Record<string, (order: number) => boolean> = {
  greater: order => order > 0,
  greater_or_equal: order => order >= 0,
  less: order => order < 0,
  less_or_equal: order => order <= 0,
}

function compares(operator: string, left: Value, right: Value, isField: boolean): boolean {
  const [a, b] = [textOf(left), textOf(right)]
  if (a === undefined || b === undefined) return false
  if (operator in OF_TEXTS) return OF_TEXTS[operator]!(a, b)
  const [x, y] = [numberIn(left), numberIn(right)]
  if (y !== undefined) return x !== undefined && ORDERS[operator]!(x - y)
  if (isField && x !== undefined) return false
  return ORDERS[operator]!(byCodePoints(a, b))
}

const COMPARISONS = [...Object.keys(OF_TEXTS), ...Object.keys(ORDERS)]
const LITERALS = ['1', '2', '10', 'x', 'X', 'é', '', 'true', '2024-01-31', 'xxé']
const VALUES: readonly Value[] = [
  ...LITERALS,
  1,
  2,
  10,
  1.5,
  true,
  null,
  undefined,
  {},
  { x: 1 },
  [],
  ['x', 1],
  '😀"\n',
]
const PATHS = ['.a', '.b', '.o.x', '.o.y.z', '.list[0]']

interface Written {
  readonly text: string
  holds(event: object): boolean
}

/** A random condition, and what it means. */
function write(random: Seeded, depth: number): Written {
  const kind = depth === 0 ? 0 : random.below(4)
  if (kind === 0) return comparison(random)
  if (kind === 1) {
    const term = write(random, depth - 1)
    return { text: `not (${term.text})`, holds: event => !term.holds(event) }
  }
  const terms = Array.from({ length: 2 + random.below(2) }, () => write(random, depth - 1))
  const text = terms.map(term => (random.chance(0.5) ? `(${term.text})` : `((${term.text}))`))
  if (kind === 2) return { text: text.join(' or '), holds: event => terms.some(term => term.holds(event)) }
  return { text: text.join(' And '), holds: event => terms.every(term => term.holds(event)) }
}

function operand(random: Seeded): { text: string; of(event: object): Value } {
  const path = random.pick(PATHS)
  let part = { text: path, of: (event: object): Value => valueAt(event, parseFieldPath(path).segments) }
  while (random.chance(0.3)) {
    const [name, inner] = [random.pick(Object.keys(FUNCTIONS)), part]
    part = { text: `${name}(${inner.text})`, of: event => FUNCTIONS[name]!(inner.of(event)) }
  }
  return part
}

const quote = (text: string) => `'${text.replace(/[\\']/g, '\\$&')}'`

function comparison(random: Seeded): Written {
  const left = operand(random)
  const kind = random.below(4)
  if (kind === 0) return { text: `${left.text} exists`, holds: event => left.of(event) !== undefined }
  if (kind === 1) {
    const list = Array.from({ length: 1 + random.below(4) }, () => random.pick(LITERALS))
    const isIn = random.chance(0.5)
    return {
      text: `${left.text} ${isIn ? 'in' : 'not_in'} (${list.map(quote).join(', ')})`,
      holds: event => {
        const text = textOf(left.of(event))
        return text !== undefined && list.includes(text) === isIn
      },
    }
  }
  const operator = random.pick(COMPARISONS)
  const right = operand(random)
  const literal = random.pick(LITERALS)
  if (kind === 2) {
    const text = `${left.text} ${operator} ${quote(literal)}`
    return { text, holds: event => compares(operator, left.of(event), literal, false) }
  }
  const text = `${left.text} ${operator} ${right.text}`
  return { text, holds: event => compares(operator, left.of(event), right.of(event), true) }
}

t.test('a condition holds for the events that its words say, and explain agrees', async t => {
  const random = new Seeded(77)
  const value = () => random.pick(VALUES)
  const event = () => ({
    a: value(),
    b: value(),
    o: random.pick([{ x: value(), y: { z: value() } }, 'x']),
    list: [value()],
  })
  const wrong: string[] = []
  const seen = [0, 0]
  for (let round = 0; round < 1000; round++) {
    const { text, holds } = write(random, random.below(4))
    const condition: Condition = parseCondition(`if (${text})`)
    const wanted = new WantedNames()
    const field = (path: FieldPath) => new FieldReader(path, wanted)
    const test = compileCondition(condition, field)
    const explain = explainCondition(condition, field)
    const events = Array.from({ length: 6 }, event)
    const batch: EventBatch = batchOf(events, { wanted })
    // Half of the events are changed, and read from what they were changed to.
    for (let i = 0; i < batch.length; i += 2) batch.modify(i, { ...events[i] })
    for (let i = 0; i < batch.length; i++) {
      const given = JSON.parse(JSON.stringify(events[i])) as object
      const expected = holds(given)
      seen[expected ? 1 : 0]!++
      if (test(batch, i) !== expected || explain(batch, i).holds !== expected)
        wrong.push(`${text} on ${JSON.stringify(given)}: not ${expected}`)
    }
  }
  t.same(wrong.slice(0, 5), [])
  t.ok(seen[0]! > 1500 && seen[1]! > 1500, `${seen[1]} hold, ${seen[0]} do not`)
})

t.test('long texts of two fields are searched in linear time', async t => {
  const wanted = new WantedNames()
  const test = compileCondition(parseCondition('if (.text contains .part)'), path => new FieldReader(path, wanted))
  const text = 'a'.repeat(400_000)
  const inside = { text: `${text}b${'a'.repeat(150)}`, part: `${text.slice(0, 200_000)}b` }
  const batch = batchOf(
    [{ text, part: `${text.slice(0, 200_000)}b` }, inside, { text: 'aé', part: 'é' }, { text: 'a', part: '' }],
    {
      wanted,
    },
  )
  t.same(
    [0, 1, 2, 3].map(i => test(batch, i)),
    [false, true, true, true],
  )
})

t.test('explain names both fields of a comparison, and what a function gives', async t => {
  const wanted = new WantedNames()
  const explain = (text: string) => explainCondition(parseCondition(text), path => new FieldReader(path, wanted))
  const fields = explain('if (.took_ms greater .limit_ms)')
  const functions = explain("if (length(.msg) in (1, 2) AND NOT upper(.msg) equal 'it\\'s')")
  const batch = batchOf(['{"took_ms":5,"msg":"abc"}'], { wanted })
  t.same(fields(batch, 0), {
    text: '.took_ms greater .limit_ms',
    holds: false,
    value: '.took_ms is 5, .limit_ms is missing',
  })
  t.match(functions(batch, 0), {
    text: 'all of',
    parts: [
      { text: "length(.msg) in ('1', '2')", holds: false, value: 'length(.msg) is 3' },
      { text: 'not', holds: true, parts: [{ text: "upper(.msg) equal 'it\\'s'", value: 'upper(.msg) is "ABC"' }] },
    ],
  })
})
