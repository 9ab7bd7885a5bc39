import t from 'tap'
import { z } from 'zod'
import { compileCondition, condition } from '../../../../src/core/condition/condition.js'
import { conditionText } from '../../../../src/core/condition/condition-text.js'
import { ConditionError } from '../../../../src/core/condition/cursor.js'
import { FUNCTIONS, operandText } from '../../../../src/core/condition/functions.js'
import { OPERATORS } from '../../../../src/core/condition/operators.js'
import { type Condition, parseCondition } from '../../../../src/core/condition/parse.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { conditionReference } from '../../../../src/engine/config/reference/reference.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { Seeded } from '../../../support/seeded.js'

const { meant, wrong } = casesOf<{
  meant: readonly (readonly [text: string, shown: string])[]
  wrong: readonly (readonly [text: string, column: number, message: string])[]
}>(import.meta.url)

/** The condition with all its parentheses. */
function show(condition: Condition): string {
  switch (condition.kind) {
    case 'comparison': {
      const { operator, values } = condition
      const isList = OPERATORS.get(operator)!.takes === 'list'
      const value = isList ? ` ${JSON.stringify(values)}` : values.map(value => ` ${JSON.stringify(value)}`).join('')
      return `${operandText(condition.operand)} ${operator}${value}`
    }
    case 'fields':
      return `${operandText(condition.operand)} ${condition.operator} ${operandText(condition.other)}`
    case 'not':
      return `NOT (${show(condition.term)})`
    default:
      return `(${condition.terms.map(show).join(` ${condition.kind} `)})`
  }
}

t.test('what conditions mean', async t => {
  for (const [text, shown] of meant) {
    const condition = parseCondition(text)
    t.equal(show(condition), shown, text)
    t.equal(show(parseCondition(`if (${conditionText(condition)})`)), shown, `${text}, as text and read again`)
  }
})

t.test('what is wrong with a condition, and where', async t => {
  const half: (typeof wrong)[number] = ["if (.a equal '\ud800')", 14, 'half of a surrogate pair']
  for (const [text, column, message] of [...wrong, half]) {
    try {
      parseCondition(text)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.ok(error instanceof ConditionError, text)
      t.match(error, { message: new RegExp(message), column, code: 'SLUICE_CONDITION' }, text)
    }
  }
})

t.test('what is too much is refused, and soon', async t => {
  const nested = (open: string, depth: number, close = '') =>
    `if (${open.repeat(depth)}.a exists${close.repeat(depth)})`
  const many = (count: number) =>
    `if (${Array.from({ length: count }, (_, i) => `.a${i % 50} equal '${i}'`).join(' OR ')})`
  t.doesNotThrow(() => parseCondition(nested('(', 100, ')')))
  t.throws(() => parseCondition(nested('(', 101, ')')), {
    message: /nested deeper than 100/,
    column: 105,
  } as unknown as Error)
  t.doesNotThrow(
    () => parseCondition(`if (${Array(300).fill('(NOT (.a exists))').join(' OR ')})`),
    'one after the other',
  )
  t.throws(() => parseCondition(nested('(', 30_000)), { message: /nested deeper than 100/ })
  t.throws(() => parseCondition(nested('NOT ', 10_000)), { message: /nested deeper than 100/ })
  t.doesNotThrow(() => parseCondition(many(1000)))
  t.throws(() => parseCondition(many(1001)), { message: /more than 1000 comparisons/ })
  const listed = (count: number) => `if (.a in (${Array.from({ length: count }, (_, i) => i).join()}))`
  t.doesNotThrow(() => parseCondition(listed(1000)))
  t.throws(() => parseCondition(listed(1001)), { message: /more than 1000 values in a list/ })
  t.throws(() => parseCondition(`if (${'lower('.repeat(101)}.a${')'.repeat(101)} exists)`), {
    message: /nested deeper than 100/,
  })
  t.throws(() => parseCondition(`if (.a equal '${'x'.repeat(70_000)}')`), { message: /longer than 65536 characters/ })

  const wanted = new WantedNames()
  for (const text of [many(1000), nested('NOT (', 50, ')')]) {
    const test = compileCondition(parseCondition(text), path => new FieldReader(path, wanted))
    t.equal(test(batchOf(['{"a49":"999"}'], { wanted }), 0), text.includes('999'))
  }
})

t.test('compiled, it holds for the same events as by its definition', async t => {
  const random = new Seeded(31)
  const names = ['a', 'b', 'o.x', 'o.y', 'list[0]']
  const values = ['1', '2', 'x', '']
  const write = (depth: number): string => {
    const kind = depth === 0 ? 0 : random.below(5)
    if (kind === 0) {
      const operator = random.pick(['equal', 'not_equal', 'greater', 'contains', 'exists', 'is_string'])
      const value = operator === 'exists' || operator === 'is_string' ? '' : ` '${random.pick(values)}'`
      return `.${random.pick(names)} ${operator}${value}`
    }
    if (kind === 1) return `NOT (${write(depth - 1)})`
    const terms = Array.from({ length: 2 + random.below(2) }, () => write(depth - 1))
    return `(${terms.join(kind === 2 ? ' OR ' : ' AND ')})`
  }
  /** Each comparison compiled by itself, the rest as the words say. */
  const evaluate = (condition: Condition, holds: (comparison: Condition) => boolean): boolean => {
    if (condition.kind === 'comparison' || condition.kind === 'fields') return holds(condition)
    if (condition.kind === 'not') return !evaluate(condition.term, holds)
    const results = condition.terms.map(term => evaluate(term, holds))
    return condition.kind === 'and' ? !results.includes(false) : results.includes(true)
  }
  const event = () => {
    const value = () => random.pick<unknown>([1, 2, '1', '2', 'x', '', null, true, undefined, {}, []])
    return { a: value(), b: value(), o: random.pick<unknown>([{ x: value(), y: value() }, 1]), list: [value()] }
  }
  const wrong: string[] = []
  const seen = [0, 0]
  for (let round = 0; round < 1500; round++) {
    const text = `if (${write(random.below(4))})`
    const parsed = parseCondition(text)
    const wanted = new WantedNames()
    const field = (path: Parameters<Parameters<typeof compileCondition>[1]>[0]) => new FieldReader(path, wanted)
    const test = compileCondition(parsed, field)
    const events = Array.from({ length: 8 }, event)
    // Readers were all made before the batch, as in a pipeline.
    const single = new Map<Condition, (batch: EventBatch, i: number) => boolean>()
    evaluate(parsed, comparison => {
      single.set(comparison, compileCondition(comparison, field))
      return true
    })
    const batch = batchOf(events, { wanted })
    for (let i = 0; i < batch.length; i++) {
      const expected = evaluate(parsed, comparison => single.get(comparison)!(batch, i))
      seen[expected ? 1 : 0]!++
      if (test(batch, i) !== expected) wrong.push(`${text} on ${JSON.stringify(events[i])}: not ${expected}`)
    }
  }
  t.same(wrong.slice(0, 5), [])
  t.ok(seen[0]! > 2000 && seen[1]! > 2000, `${seen[1]} hold, ${seen[0]} do not`)
})

t.test('one reader for each different path', async t => {
  const readers = (text: string) => {
    const paths: string[] = []
    const wanted = new WantedNames()
    compileCondition(parseCondition(text), path => {
      paths.push(path.text)
      return new FieldReader(path, wanted)
    })
    return paths
  }
  t.same(readers(`if (.a exists AND (.b exists OR .a equal 'x' OR NOT ."a" equal 'y'))`), ['.a', '.b'])
  t.same(readers('if (.a exists OR NOT .a exists)'), ['.a'])
  t.same(readers(`if (.a equal .b AND lower(.a) equal upper(.b) AND lower(.a) in ('x'))`), ['.a', '.b'])
})

t.test('the reference tells every operator, and its examples are conditions', async t => {
  const text = conditionReference().join('\n')
  for (const name of OPERATORS.keys()) t.match(text, new RegExp(`^\\| \`${name}[ \`]`, 'm'))
  for (const name of FUNCTIONS.keys()) t.ok(text.includes(`| \`${name}(…)\` |`), name)
  const examples = text.match(/`if \([.a-z].*?\)`/g) ?? []
  t.equal(examples.length, 5)
  for (const example of examples) t.ok(parseCondition(example.slice(1, -1)), example)
})

t.test('as an option', async t => {
  const options = z.strictObject({ exclude: condition().optional() })
  t.equal(show(options.parse({ exclude: "if (.a equal 'x')" }).exclude!), '.a equal "x"')
  t.equal(options.parse({}).exclude, undefined)
  const failed = options.safeParse({ exclude: 'if (.a foo)' })
  t.match(failed.error?.issues, [
    { path: ['exclude'], message: /unknown operator "foo".* \(column 8 of the condition\)$/ },
  ])
  t.match(options.safeParse({ exclude: 5 }).error?.issues, [{ path: ['exclude'] }])
  t.match(z.toJSONSchema(options, { io: 'input' }), { properties: { exclude: { type: 'string', title: 'condition' } } })
})
