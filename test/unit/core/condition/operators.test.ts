import { BlockList, isIPv4, isIPv6 } from 'node:net'
import t from 'tap'
import { compileCondition } from '../../../../src/core/condition/condition.js'
import { isAddress, OPERATORS, parseCidr } from '../../../../src/core/condition/operators.js'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { Seeded } from '../../../support/seeded.js'

/** A JSON string in which every character is an escape. */
function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`)
  return `"${units.join('')}"`
}

/** The same value in every way a reader may come to it; `json` undefined: the path is missing. */
function waysOf(json: string | undefined): { line: string; path: string; modified?: unknown }[] {
  if (json === undefined) {
    return [
      { line: '{"b":1}', path: '.a' },
      { line: '{"a":{"x":1}}', path: '.a.b' },
      { line: '{"a":[]}', path: '.a[0]' },
      { line: '{"a":"x"}', path: '.a', modified: undefined },
    ]
  }
  const value = JSON.parse(json) as unknown
  return [
    { line: `{"a":${json},"z":"needle x"}`, path: '.a' },
    { line: `{"a":{"b": ${json} ,"c":"needle x"}}`, path: '.a.b' },
    { line: `{"a":[${json}]}`, path: '.a[0]' },
    // JSON has no infinite number.
    ...(value === Number.POSITIVE_INFINITY ? [] : [{ line: '{"a":"other"}', path: '.a', modified: value }]),
    ...(typeof value === 'string' ? [{ line: `{"a":${escaped(value)}}`, path: '.a' }] : []),
  ]
}

type Row = readonly [comparison: string, json: string | undefined, holds: boolean]

/** Values that have no text. */
const TEXTLESS = [undefined, 'null', '{}', '{"x":"x"}', '[]', '["x"]']

type Range = readonly [cidr: string, address: string, inside: boolean]
const TABLES = casesOf<{ rows: readonly Row[]; ranges: readonly Range[] }>(import.meta.url)

const ROWS: readonly Row[] = [
  ...TABLES.rows,
  ["contains 'needle'", `"${'nee'.repeat(200)}needle${'x'.repeat(50)}"`, true],
  ["contains 'needle'", `"${'nee'.repeat(200)}"`, false],
  ["contains 'x'", `"${'y'.repeat(299)}"`, false],
  ['exists', undefined, false],
  ...['null', '""', '"x"', '0', 'false', '{}', '[]'].map((json): Row => ['exists', json, true]),
  ...['""', '[]', '{}', '[ ]', '{ \t }'].map((json): Row => ['is_empty', json, true]),
  ...[undefined, 'null', '"x"', '" "', '0', 'false', '[0]', '[ []]', '{"":""}', '{ "a":1}'].map(
    (json): Row => ['is_empty', json, false],
  ),
  ...['null', '1', '"1"', 'true', '[1]', '{"a":1}'].flatMap((json, at) =>
    ['is_null', 'is_number', 'is_string', 'is_boolean', 'is_array', 'is_object'].map(
      (operator, kind): Row => [operator, json, at === kind],
    ),
  ),
  ...['is_null', 'is_number', 'is_string', 'is_boolean', 'is_array', 'is_object'].map(
    (name): Row => [name, undefined, false],
  ),
]

t.test('every operator, whatever way its field is read', async t => {
  const rows = [...ROWS]
  for (const [name, { takes }] of OPERATORS) {
    // Values that would match anything that could be compared at all.
    const values = name === 'is_ip_in_cidr_range' ? ["'0.0.0.0/0'", "'::/0'"] : ["'x'", "''", "'undefined'", "'0'"]
    if (takes === 'nothing') continue
    for (const value of values) {
      for (const json of TEXTLESS) rows.push([`${name} ${takes === 'list' ? `(${value})` : value}`, json, false])
    }
  }
  const tested = new Set<string>()
  for (const [comparison, json, holds] of rows) {
    tested.add(comparison.split(' ')[0]!)
    for (const { line, path, ...rest } of waysOf(json)) {
      const wanted = new WantedNames()
      const test = compileCondition(parseCondition(`if (${path} ${comparison})`), path => new FieldReader(path, wanted))
      const batch = batchOf([line], { wanted })
      if ('modified' in rest) batch.modify(0, { a: rest.modified })
      t.equal(
        test(batch, 0),
        holds,
        `${path} ${comparison} on ${line.slice(0, 80)}${'modified' in rest ? ', changed' : ''}`,
      )
    }
  }
  t.same([...tested].sort(), [...OPERATORS.keys()].sort(), 'no operator is missing here')
})

t.test('text events', async t => {
  const wanted = new WantedNames()
  const batch = batchOf(['GET /health 200', 'caf\u00e9 {"a":1}', Buffer.from('bad \xff byte', 'latin1')], {
    decode: 'text',
    path: '/var/log/app.log',
    host: 'web-1',
    wanted,
  })
  const matches = (condition: string) => {
    const test = compileCondition(parseCondition(condition), path => new FieldReader(path, wanted))
    return [0, 1, 2].filter(i => test(batch, i))
  }
  t.same(matches("if (.message contains '/health')"), [0])
  t.same(matches("if (.message regex_match 'é')"), [1])
  t.same(matches("if (.message contains 'bad \ufffd byte')"), [2])
  t.same(matches("if (.file ends_with '.log' AND .host equal 'web-1')"), [0, 1, 2])
  t.same(matches('if (.raw exists)'), [2])
  t.same(matches('if (.a exists)'), [])
})

t.test('addresses and ranges are those of the platform', async t => {
  const random = new Seeded(21)
  const part = () => random.below(random.pick([2, 16, 256, 65_536])).toString(16)
  const v4 = () => [0, 0, 0, 0].map(() => random.below(random.pick([2, 256]))).join('.')
  const v6 = () => {
    const parts = Array.from({ length: 8 }, part)
    const tail = random.chance(0.2) ? [v4()] : []
    if (random.chance(0.3)) parts.splice(0, 6, '', '', 'ffff')
    if (tail.length > 0) parts.splice(-2, 2, ...tail)
    const at = random.below(parts.length)
    const cut = random.below(4)
    if (parts[0] !== '' && cut > 0) parts.splice(at, cut, ...(at === 0 || at + cut >= parts.length ? ['', ''] : ['']))
    const text = parts.join(':')
    return random.chance(0.3) ? text.toUpperCase() : text
  }
  const broken = (text: string) => {
    const at = random.below(text.length + 1)
    return (
      text.slice(0, at) +
      random.pick(['', ':', '.', '0', 'g', '256', '::', ' ', '-', '1:', '00000']) +
      text.slice(at + random.below(2))
    )
  }
  const inRange = (cidr: string, address: string) => {
    const bytes = Buffer.from(`x${address}9`)
    return parseCidr(cidr)?.(bytes, 1, bytes.length - 1)
  }
  const wrong: string[] = []
  let inside = 0
  let valid = 0
  for (let round = 0; round < 30_000; round++) {
    const base = random.chance(0.5) ? v4() : v6()
    const text = random.chance(0.3) ? broken(base) : base
    const known = isIPv4(text) || isIPv6(text)
    if (known) valid++
    if (isAddress(text) !== known) wrong.push(`${text} is ${known ? 'an' : 'no'} address`)
    if (!known) continue
    const network = isIPv4(text) ? v4() : random.chance(0.5) ? text : v6()
    if (!isIPv4(network) && !isIPv6(network)) continue
    const bits = random.below(isIPv4(network) ? 33 : 129)
    const list = new BlockList()
    list.addSubnet(network, bits, isIPv4(network) ? 'ipv4' : 'ipv6')
    const expected = list.check(text, isIPv4(text) ? 'ipv4' : 'ipv6')
    if (expected) inside++
    if (inRange(`${network}/${bits}`, text) !== expected) wrong.push(`${text} in ${network}/${bits}: not ${expected}`)
  }
  t.same(wrong.slice(0, 10), [])
  t.ok(valid > 10_000 && inside > 1000, `${valid} addresses, ${inside} in their range`)

  const cases: readonly Range[] = [...TABLES.ranges, ['10.0.0.0/8', '1'.repeat(100_000), false]]
  for (const [cidr, address, expected] of cases)
    t.equal(inRange(cidr, address), expected, `${address.slice(0, 50)} in ${cidr}`)
  for (const cidr of [
    '',
    '/',
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0/8',
    '::/129',
    '::1',
    'a/8',
    '1.2.3.4/8/8',
    '10.0.0.0/-1',
  ]) {
    t.equal(parseCidr(cidr), undefined, JSON.stringify(cidr))
  }
})
