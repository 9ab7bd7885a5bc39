import t from 'tap'
import { z } from 'zod'
import { compileCondition, condition } from '../../../../src/core/condition/condition.js'
import { conditionText } from '../../../../src/core/condition/condition-text.js'
import { ConditionError } from '../../../../src/core/condition/cursor.js'
import { FUNCTIONS, operandText } from '../../../../src/core/condition/functions.js'
import { OPERATORS } from '../../../../src/core/condition/operators.js'
import { type Condition, parseCondition } from '../../../../src/core/condition/parse.js'
import { conditionReference } from '../../../../src/core/condition/reference.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'

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
  const cases: readonly (readonly [text: string, shown: string])[] = [
    ["if (.host equal 'web-1')", '.host equal "web-1"'],
    ["if(.host equal 'web-1')", '.host equal "web-1"'],
    ["  IF  ( .host  equal  'web-1' ) \n", '.host equal "web-1"'],
    ["if (\n  .host equal 'a'\n  OR\n\t.host equal 'b'\n)", '(.host equal "a" or .host equal "b")'],
    ["if (.host equal'a'and.b exists)", '(.host equal "a" and .b exists)'],
    ['if (.a exists OR .b exists AND .c exists)', '(.a exists or (.b exists and .c exists))'],
    ['if (.a exists AND .b exists OR .c exists)', '((.a exists and .b exists) or .c exists)'],
    ['if (NOT .a exists AND .b exists)', '(NOT (.a exists) and .b exists)'],
    ['if (not .a exists or not .b exists)', '(NOT (.a exists) or NOT (.b exists))'],
    ['if (NOT (.a exists AND .b exists))', 'NOT ((.a exists and .b exists))'],
    ['if (NOT NOT .a exists)', 'NOT (NOT (.a exists))'],
    ['if ((.a exists OR .b exists) And .c exists)', '((.a exists or .b exists) and .c exists)'],
    ['if ((((.a exists))))', '.a exists'],
    ['if (NOT(.a exists)AND(.b exists))', '(NOT (.a exists) and .b exists)'],
    ['if (.a exists AND .b exists AND .c exists)', '(.a exists and .b exists and .c exists)'],
    ['if (.and exists and .or exists or .not exists)', '((.and exists and .or exists) or .not exists)'],
    [`if (.a."x y"[0].b equal "it's")`, '.a."x y"[0].b equal "it\'s"'],
    [`if (.a equal 'it\\'s "so"')`, '.a equal "it\'s \\"so\\""'],
    [`if (.a equal "say \\"x\\" \\'y\\'")`, '.a equal "say \\"x\\" \'y\'"'],
    ["if (.a equal 'back\\\\')", '.a equal "back\\\\"'],
    ["if (.a regex_match '\\d+\\.\\d')", '.a regex_match "\\\\d+\\\\.\\\\d"'],
    ["if (.a equal ') AND (')", '.a equal ") AND ("'],
    ["if (.a equal '')", '.a equal ""'],
    ["if (.a equal 'é😀')", '.a equal "é😀"'],
    ['if (.a greater 10)', '.a greater "10"'],
    ['if (.a less -1.50)', '.a less "-1.5"'],
    ['if (.a equal 1e3)', '.a equal "1000"'],
    ['if (.a equal true AND .b equal false)', '(.a equal "true" and .b equal "false")'],
    ['if (.a exists)', '.a exists'],
    ['if (.a in (\'x\', "y"))', '.a in ["x","y"]'],
    ['if (.a IN(500,5.0e2 , true)AND .b exists)', '(.a in ["500","500","true"] and .b exists)'],
    ["if (NOT .a in ('x') OR .a not_in ('AND', ',', ')'))", '(NOT (.a in ["x"]) or .a not_in ["AND",",",")"])'],
    ['if (.took_ms greater .limit_ms)', '.took_ms greater .limit_ms'],
    ['if (.a equal ."x y"[0] AND .b contains .a)', '(.a equal ."x y"[0] and .b contains .a)'],
    ['if (length(.a) greater 5)', 'length(.a) greater "5"'],
    ["if (lower ( .a ) equal 'x')", 'lower(.a) equal "x"'],
    ['if (.a equal upper(.b))', '.a equal upper(.b)'],
    ['if (length(lower(.a)) less length(.b))', 'length(lower(.a)) less length(.b)'],
    ["if (.length equal 'x' and .in in ('in'))", '(.length equal "x" and .in in ["in"])'],
  ]
  for (const [text, shown] of cases) {
    const condition = parseCondition(text)
    t.equal(show(condition), shown, text)
    t.equal(show(parseCondition(`if (${conditionText(condition)})`)), shown, `${text}, as text and read again`)
  }
})

t.test('what is wrong with a condition, and where', async t => {
  const cases: readonly (readonly [text: string, column: number, message: RegExp])[] = [
    ['', 1, /has the form if \(\.field operator 'value'\); write: if \(\.host equal 'web-1'\)/],
    [".host equal 'a'", 1, /write: if \(\.host equal 'a'\)/],
    ["(.host equal 'a')", 1, /write: if \(\.host equal 'a'\)/],
    ['  true', 3, /has the form/],
    ['if', 3, /expected "\(" after if/],
    ['if .a exists', 4, /expected "\(" after if; write: if \(\.a exists\)/],
    ['if ()', 5, /expected a comparison such as/],
    ['if (', 5, /expected a comparison/],
    ['if (.a exists', 14, /the parenthesis at column 4 is not closed: expected "\)", AND or OR/],
    ['if ((.a exists)', 16, /the parenthesis at column 4 is not closed/],
    ['if (.b exists OR (.a exists', 28, /the parenthesis at column 18 is not closed/],
    ['if (.a exists))', 15, /nothing may follow/],
    ['if (.a exists) AND (.b exists)', 16, /nothing may follow .* put the whole condition inside/],
    ['if (.a exists .b exists)', 15, /expected AND, OR or "\)"/],
    ['if (.a exists && .b exists)', 15, /expected AND, OR or "\)"; did you mean AND\?/],
    ['if (.a exists || .b exists)', 15, /did you mean OR\?/],
    ['if (! .a exists)', 5, /did you mean NOT\?/],
    ['if (.a exists AND)', 18, /expected a comparison/],
    ['if (OR .a exists)', 5, /expected a comparison/],
    ['if (NOT)', 8, /expected a comparison/],
    ["if (host equal 'a')", 5, /a field starts with a dot: \.host/],
    ["if (equal 'a')", 5, /expected a comparison/],
    ["if ('a' equal .b)", 5, /expected a comparison/],
    ["if (.a. equal 'x')", 8, /expected a field name/],
    ["if (.a[b] equal 'x')", 7, /expected an index/],
    ['if (."a exists)', 6, /expected a field name/],
    ['if (.a)', 7, /expected an operator such as equal or exists/],
    ["if (.a 'x')", 8, /expected an operator/],
    ["if (.a equals 'x')", 8, /unknown operator "equals"; did you mean equal\?/],
    ["if (.a Equal 'x')", 8, /unknown operator "Equal"; did you mean equal\?/],
    ["if (.a startswith 'x')", 8, /did you mean starts_with\?/],
    ["if (.a greater_than_or_equal 'x')", 8, /did you mean greater_or_equal\?/],
    ["if (.a greater_than 'x')", 8, /did you mean greater\?/],
    ["if (.a is_ip_in_cidr 'x')", 8, /did you mean is_ip_in_cidr_range\?/],
    ["if (.a == 'x')", 8, /unknown operator "=="; did you mean equal\?/],
    ["if (.a != 'x')", 8, /did you mean not_equal\?/],
    ['if (.a >= 5)', 8, /did you mean greater_or_equal\?/],
    ["if (.a =~ 'x')", 8, /did you mean regex_match\?/],
    ["if (.a not equal 'x')", 8, /did you mean not_equal\?/],
    [
      "if (.a constructor 'x')",
      8,
      /unknown operator "constructor"; the operators are equal, not_equal, .*is_ip_in_cidr_range$/,
    ],
    ['if (.a equal)', 13, /equal needs a value, as in equal 'value'/],
    ['if (.a equal AND .b exists)', 14, /equal needs a value/],
    ['if (.a equal', 13, /equal needs a value/],
    ["if (.a equal 'x)", 14, /the quote that opens here is not closed: expected '/],
    ["if (.a equal 'x\\')", 14, /the quote that opens here is not closed/],
    ['if (.a equal "x\')', 14, /expected "$/],
    ['if (.a equal x)', 14, /put the value in single quotes: 'x'/],
    ['if (.a equal ‘x’)', 14, /put the value in single quotes: 'x'/],
    ['if (.a equal 1.2.3.4)', 14, /put the value in single quotes: '1\.2\.3\.4'/],
    ['if (.a equal 007)', 14, /put the value in single quotes: '007'/],
    ['if (.a equal null)', 14, /use is_null/],
    ["if (.a equal 'x' 'y')", 18, /expected AND, OR or "\)"/],
    ["if (.a exists 'x')", 15, /exists takes no value/],
    ['if (.a is_null true)', 16, /is_null takes no value/],
    ['if (.a is_number 5)', 18, /is_number takes no value/],
    ["if (.a regex_match '(')", 20, /not a regular expression: .*Unterminated group/],
    ["if (.a regex_match '(?x)a')", 20, /not a regular expression/],
    ["if (.a regex_match '(.)x\\1')", 20, /back-reference \\1 at character 5, which cannot be matched in bounded time/],
    ["if (.a is_ip_in_cidr_range '10.0.0.1')", 28, /not a CIDR range.*for this single address write 10\.0\.0\.1\/32/],
    ["if (.a is_ip_in_cidr_range '::1')", 28, /write ::1\/128/],
    ["if (.a is_ip_in_cidr_range '10.0.0.0/8, x/8')", 28, /"x\/8" is not a CIDR range/],
    ["if (.a equal '\ud800')", 14, /half of a surrogate pair/],
    ["if (.a exists\n AND .b equal 'x)", 29, /not closed/],
    ["if (.a in 'x')", 11, /in takes a list of values in parentheses: in \('x'\)$/],
    ["if (.a in ['x', 'y'])", 11, /takes a list of values in parentheses: in \('x', 'y'\)$/],
    ['if (.a in .b)', 11, /takes a list of values in parentheses: in \('a', 'b'\)$/],
    ['if (.a in ())', 12, /the list is empty; write the values: in \('a', 'b'\)/],
    ["if (.a in ('x',))", 16, /expected a value/],
    ["if (.a in ('x' 'y'))", 16, /expected "," or "\)" in a list/],
    ["if (.a in ('x'", 15, /expected "," or "\)" in a list/],
    ["if (.a in ('x', .b))", 17, /a list has no fields, only values; compare with each field/],
    ["if (.a in ('x', lower(.b)))", 17, /a list has no fields/],
    ['if (.a in (x))', 12, /put the value in single quotes: 'x'/],
    ["if (.a NOT IN ('x'))", 8, /unknown operator "not"; did you mean not_in\?/],
    ['if (.a regex_match .b)', 20, /regex_match takes a value in quotes, and cannot compare fields/],
    ['if (.a is_ip_in_cidr_range .b)', 28, /cannot compare fields/],
    ['if (.a greater .5)', 16, /a number has a digit before its point: 0\.5/],
    ['if (.a equal .)', 15, /expected a field name/],
    ['if (LOWER(.a) exists)', 5, /unknown function LOWER; did you mean lower\?/],
    ['if (.a greater len(.b))', 16, /unknown function len; did you mean length\?/],
    ['if (abs(.a) greater 5)', 5, /unknown function abs; the functions are length, lower, upper/],
    ['if (length .a greater 5)', 12, /length takes a field in parentheses, as in length\(\.field\)/],
    ['if (length(.a greater 5))', 15, /expected "\)" after the field of length/],
    ["if (length('a') greater 5)", 12, /expected a comparison such as/],
    ['if (.a.length() greater 5)', 14, /a field has no methods; write length\(\.a\)/],
    ['if (.a between 1 and 5)', 8, /write \(\.a greater_or_equal 1 AND \.a less_or_equal 5\)/],
  ]
  for (const [text, column, message] of cases) {
    try {
      parseCondition(text)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.ok(error instanceof ConditionError, text)
      t.match(error, { message, column, code: 'SLUICE_CONDITION' }, text)
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
