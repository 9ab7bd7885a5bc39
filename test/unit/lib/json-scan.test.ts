import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { SLOT, scanObject, WantedNames } from '../../../src/lib/formats/json-scan.js'
import { casesOf } from '../../support/cases.js'

type Cases = Readonly<Record<string, string | Buffer>>
const CASES = casesOf<Record<'valid' | 'invalid' | 'taken' | 'refused', Cases>>(import.meta.url)

const DEEP = { open_arrays: '['.repeat(100_000), open_objects: '[{"":'.repeat(50_000) }

const wantedA = new WantedNames()
wantedA.slot('a')

/** The text of member `a` of the line, undefined when it is no object, 'missing' when it has no such member. */
function scanned(line: Buffer): string | undefined {
  const out = new Int32Array(SLOT)
  if (!scanObject(line, 0, line.length, wantedA, out, 0)) return undefined
  return out[0] === 0 ? 'missing' : line.toString('utf8', out[0], out[1]! >> 1)
}

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

t.test('the cases of a conformance suite', async t => {
  const groups = [
    { cases: CASES.valid, valid: true },
    { cases: { ...CASES.invalid, ...DEEP }, valid: false },
    { cases: { ...CASES.taken, nested: '['.repeat(500) + ']'.repeat(500) }, valid: true },
    { cases: CASES.refused, valid: false },
  ]
  let count = 0
  for (const { cases, valid } of groups) {
    for (const [name, text] of Object.entries(cases)) {
      count++
      const bytes = Buffer.from(text as string)
      const parsed = parse(bytes.toString())
      t.equal(parsed !== undefined, valid, `${name}: JSON.parse`)
      const isObject = typeof parsed?.value === 'object' && parsed.value !== null && !Array.isArray(parsed.value)
      t.equal(scanned(bytes) !== undefined, isObject, `${name}: by itself`)

      // The same as a value inside an object, with and without something behind it.
      for (const rest of ['}', ' , "b":[]}']) {
        const line = Buffer.concat([Buffer.from('{"a":'), bytes, Buffer.from(rest)])
        const whole = parse(line.toString())
        const value = scanned(line)
        t.equal(value !== undefined, whole !== undefined, `${name}: inside ${rest}`)
        if (value !== undefined) t.ok(isDeepStrictEqual(JSON.parse(value), parsed?.value), `${name}: its value`)
      }
    }
  }
  t.ok(count >= 300, `${count} cases`)
})

t.test('every byte, everywhere', async t => {
  const places = [
    ...['{"a":"', '{"a":"\\', '{"a":"\\u', '{"a":"\\u0', '{"a":"\\u00', '{"a":"\\u000'].map(before => [
      before,
      '0000"}',
    ]),
    ...['{"a":"\\', '{"a":"\\n'].map(before => [before, '"}']),
    ...['', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":[', '{"a":[1', '{"a":[1,', '{"a":{', '{"a":1}'].flatMap(
      before => [
        [before, ''],
        [before, '1}'],
        [before, '}'],
        [before, '"b":1}'],
        [before, ']}'],
        [before, '{"b":1}'],
      ],
    ),
    ...['0', '1', '-', '1.', '1.5', '1e', '1e+', '1e5', 't', 'tr', 'fals', 'nul', 'true'].flatMap(start => [
      [`{"a":${start}`, '}'],
      [`{"a":[${start}`, '1]}'],
      [`{"a":${start}`, 'e}'],
      [`{"a":${start}`, 'l,"b":1}'],
    ]),
  ] as [string, string][]
  const wrong: string[] = []
  let objects = 0
  for (const [before, behind] of places) {
    for (let byte = 0; byte < 256; byte++) {
      const line = Buffer.concat([Buffer.from(before), Buffer.from([byte]), Buffer.from(behind)])
      const parsed = parse(line.toString())
      const isObject = typeof parsed?.value === 'object' && parsed.value !== null && !Array.isArray(parsed.value)
      if (isObject) objects++
      if ((scanned(line) !== undefined) !== isObject) wrong.push(JSON.stringify(line.toString('latin1')))
      // And with a line end behind it.
      const ended = Buffer.concat([line, Buffer.from('\n')])
      if (scanObject(ended, 0, line.length, wantedA, new Int32Array(SLOT), 0) !== isObject) wrong.push(`${line} ended`)
    }
  }
  t.same(wrong, [])
  t.ok(objects > 500, `${objects} objects`)
})

t.test('a wanted name is found however it is written, the last of its duplicates', async t => {
  const found = (name: string, line: string) => {
    const wanted = new WantedNames()
    t.equal(wanted.slot('other'), 0)
    t.equal(wanted.slot(name), 1)
    t.equal(wanted.slot(name), 1, 'a name has one slot')
    const out = new Int32Array(2 * SLOT)
    const bytes = Buffer.from(`${line}\n`)
    t.ok(scanObject(bytes, 0, bytes.length - 1, wanted, out, 0), line)
    return out[SLOT] === 0 ? undefined : bytes.toString('utf8', out[SLOT], out[SLOT + 1]! >> 1)
  }
  const cases: readonly [name: string, line: string, value: string | undefined][] = [
    ['app', '{"app":1}', '1'],
    ['app', '{"xapp":1,"ap":2,"appx":3,"aap":4}', undefined],
    ['app', '{"\\u0061p\\u0070":"x"}', '"x"'],
    ['app', '{"app":1,"app":2,"\\u0061pp":[3]}', '[3]'],
    ['app', '{"a":{"app":1},"b":[{"app":2}]}', undefined],
    ['app', '{"app" : {"app": 1} , "b":2}', '{"app": 1}'],
    ['a"b', '{"a\\"b":true}', 'true'],
    ['a\\', '{"a\\\\":null}', 'null'],
    ['', '{"":-0.5e3}', '-0.5e3'],
    ['é', '{"\\u00e9":1}', '1'],
    ['é', '{"e\u0301":1}', undefined],
    ['😀', '{"\\ud83d\\ude00":1}', '1'],
    ['😀', '{"😀":1}', '1'],
    ['\ud800', '{"\\ud800":1}', '1'],
    ['\ud800', '{"\ufffd":1}', undefined],
    ['a'.repeat(33), `{"a":1,"${'a'.repeat(33)}":2}`, '2'],
    ['a'.repeat(33), '{"a":1}', undefined],
    ['__proto__', '{"__proto__":{"x":1}}', '{"x":1}'],
  ]
  for (const [name, line, value] of cases) t.equal(found(name, line), value, `${JSON.stringify(name)} in ${line}`)
})

t.test(
  'no byte behind the line end is read, none behind the buffer, nothing outside the output is written',
  async t => {
    const texts = [
      '{',
      '{"',
      '{"a',
      '{"a"',
      '{"a":',
      '{"a":"',
      '{"a":"\\',
      '{"a":"\\u',
      '{"a":"\\u0',
      '{"a":"\\ud83d\\',
      '{"a":t',
    ]
    texts.push(
      '{"a":nul',
      '{"a":-',
      '{"a":1',
      '{"a":1.',
      '{"a":1e',
      '{"a":1e+',
      '{"a":[',
      '{"a":[1,',
      '{"a":{"b',
      '{"a":1,',
      '{"a":1} ',
    )
    for (const text of texts) {
      for (const ending of ['\n', '\r\n', '', 'x', '"', '\\', '5', '}']) {
        const reads: string[] = []
        const bytes = Buffer.from(text + ending)
        const last = ending === '' ? text.length - 1 : text.length
        const watched = new Proxy(bytes, {
          get(target, name) {
            if (typeof name === 'string' && /^\d+$/.test(name) && Number(name) > last) reads.push(name)
            const value = Reflect.get(target, name, target) as unknown
            return typeof value === 'function' ? (value.bind(target) as unknown) : value
          },
        })
        const out = new Int32Array(3 * SLOT)
        const whole = text.endsWith('} ')
        t.equal(scanObject(watched, 0, text.length, wantedA, out, SLOT), whole, JSON.stringify(text + ending))
        t.same(reads, [], `${JSON.stringify(text + ending)}: reads`)
        t.same([...out.subarray(0, SLOT), ...out.subarray(2 * SLOT)], [0, 0, 0, 0])
      }
    }
  },
)
