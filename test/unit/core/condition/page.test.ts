import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { compileCondition } from '../../../../src/core/condition/condition.js'
import { conditionText } from '../../../../src/core/condition/condition-text.js'
import { FUNCTIONS } from '../../../../src/core/condition/functions.js'
import { SIGNS } from '../../../../src/core/condition/names.js'
import { OPERATORS } from '../../../../src/core/condition/operators.js'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { lostWithout } from '../../../../src/core/condition/without-field.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { docBlocks } from '../../../support/doc-blocks.js'

const PAGE = 'docs/conditions.md'
const page = readFileSync(join(checkout, PAGE), 'utf8')

function holds(condition: string, line: string): boolean {
  const wanted = new WantedNames()
  const test = compileCondition(parseCondition(condition), path => new FieldReader(path, wanted))
  return test(batchOf([line], { wanted }), 0)
}

/** The rows of the table under a heading, as cells without their backquotes. */
function rowsUnder(heading: string): string[][] {
  const section = page.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!
  const lines = section.split('\n').filter(line => line.startsWith('|'))
  return lines.map(line =>
    line
      .slice(2, -2)
      .split(' | ')
      .map(cell => cell.trim().replace(/^`(.*)`$/, '$1')),
  )
}

t.test('the examples of the page hold as it says', async t => {
  const blocks = docBlocks(PAGE).filter(({ language }) => language === 'condition')
  t.ok(blocks.length > 5)
  for (const { text } of blocks) {
    const [condition, ...events] = text.trim().split('\n')
    for (const event of events) {
      const [, expected, line] = /^(holds|fails) {2}(\{.*\})$/.exec(event)!
      t.equal(holds(condition!, line!), expected === 'holds', `${condition}: ${event}`)
    }
  }
})

t.test('the table says what each operator does', async t => {
  const [, values] = /if `\.a` is (.*)\.$/s.exec(page.split('## Operators\n')[1]!.split('\n\n|')[0]!)!
  const tried = values!.split(/,\s|\sor\s/).map(value => value.replaceAll('`', ''))
  const others = '"ten":10,"nine":"9","letter":"x"'
  const rows = rowsUnder('Operators').slice(2)
  for (const [comparison, cell] of rows) {
    const listed = cell!.split('`, `')
    for (const value of new Set([...tried, ...listed])) {
      const line = value === 'missing' ? `{${others}}` : `{"a":${value},${others}}`
      t.equal(holds(`if (.a ${comparison})`, line), listed.includes(value), `${comparison}: ${value}`)
    }
  }
  t.same([...new Set(rows.map(([comparison]) => comparison!.split(' ')[0]))], [...OPERATORS.keys()], 'in this order')
})

t.test('each sign is on the page, and means what the page says', async t => {
  const text = (condition: string) => conditionText(parseCondition(condition))
  const signs: string[] = []
  for (const [written, meant] of rowsUnder('Signs').slice(2)) {
    for (const sign of written!.replaceAll('\\|', '|').split('`, `')) {
      signs.push(sign)
      if (sign === '!') t.equal(text('!.a exists'), text('NOT .a exists'))
      else if (sign === '!~') t.equal(text(".a !~ 'x'"), text("NOT .a regex_match 'x'"))
      else if (meant === 'AND' || meant === 'OR')
        t.equal(text(`.a exists ${sign} .b exists`), text(`.a exists ${meant} .b exists`))
      else t.equal(text(`.a ${sign} 'x'`), text(`.a ${meant} 'x'`))
    }
  }
  t.same(
    signs.filter(sign => !['!', '!~', '&&', '||'].includes(sign)),
    [...SIGNS.keys()],
  )
})

t.test('the page has the functions and the grammar of the code', async t => {
  t.same(
    rowsUnder('Functions').slice(2),
    [...FUNCTIONS].map(([name, { text }]) => [`${name}(…)`, text]),
  )
  const source = readFileSync(join(checkout, 'src/core/condition/parse.ts'), 'utf8')
  const grammar = docBlocks(PAGE)
    .find(({ language }) => language === 'text')!
    .text.trimEnd()
  t.ok(source.includes(grammar.replace(/^/gm, ' *   ')), 'the grammar in parse.ts')
})

t.test('what an event without a field does not satisfy, although it is not what the condition is about', async t => {
  for (const [condition, field] of [
    [".path not_equal '/healthz'", '.path'],
    [".app != 'a' AND .env not_in ('dev', 'test')", '.app'],
    [".level equal 'error' OR .app not_equal 'a'", '.app'],
    ['.a not_equal .b', '.a'],
    ["NOT (NOT .path not_equal '/')", '.path'],
    ["NOT .path equal '/healthz'", undefined],
    [".path exists AND .path not_equal '/healthz'", undefined],
    [".level equal 'error' AND .app not_equal 'a'", undefined],
    ["NOT .path exists OR .path not_equal '/'", undefined],
    ["NOT .path not_equal '/'", undefined],
    [".level equal 'error'", undefined],
  ] as const)
    t.equal(lostWithout(parseCondition(condition)), field, condition)
})
