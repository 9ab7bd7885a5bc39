import { join } from 'node:path'
import t from 'tap'
import { checkedDone, checkedHead } from '../../../../src/components/processors/script/from-script.js'
import { isSameObject } from '../../../../src/components/processors/script/results.js'
import { syntaxProblem } from '../../../../src/components/processors/script/syntax.js'
import { script } from '../../../../src/components/processors/script.js'
import { FrameReader, jsonHead, readHead } from '../../../../src/lib/frames.js'
import { testFolder } from '../../../support/folder.js'
import { loadedStageOf } from '../../../support/stage.js'
import { reasonsIn, through } from '../../../support/through-script.js'
import { valuesOf } from '../../../support/values-of.js'

t.test('what the function returns: the event, none, several, or a route', async t => {
  const code = `(event, context) => {
    if (event.drop) return null
    if (event.many) return event.many.map(n => ({ n }))
    if (event.to) return context.to(event.to, event)
    return event.add ? { ...event, id: context.id } : event
  }`
  const lines = ['{"n": 1}', '{"add":"ä"}', '{"drop":1}', '{"many":[1,2]}', '{"many":[]}', '{"to":"b"}', '{"n":2}']
  const { left, counters } = await through(t, { code, outputs: ['a', 'b'] }, [lines, ['{"n":3}']])
  t.same(left.main, ['{"n": 1}', '{"add":"ä","id":"p"}', '{"n":1}', '{"n":2}', '{"n":2}', '{"n":3}'])
  t.same([left.a, left.b, left.discarded], [[], ['{"to":"b"}'], ['{"drop":1}', '{"many":[]}']])
  t.same(counters.discards.get('dropped')?.events, 2)
})

t.test('what cannot be an event fails, with the reason', async t => {
  const code = `const broken = {
    none: () => undefined, text: () => 'x', nested: () => [[{}]], absent: () => [null], missing: (e, { to }) => to('c', e),
    bigint: () => ({ n: 1n }), cycle: e => { e.e = e; return e }, method: () => ({ f() {} }), date: () => new Date(0),
    route: (e, { to }) => [to('a', e)], thrown: () => { throw 'a text' }, well: e => e,
  };
  (event, context) => broken[event.what](event, context)`
  const reasons = {
    none: /returned undefined; return the event, or null/,
    text: /returned a string instead of an event/,
    nested: /returned an array instead/,
    absent: /returned null instead/,
    missing: /^line \d+, column \d+ of the code: the output c does not exist/,
    bigint: /cannot be written as JSON: .*BigInt/,
    cycle: /cannot be written as JSON: .*circular structure[^\n]*$/,
    method: /field \.f is a function/,
    date: /that JSON.stringify does not turn into a JSON object/,
    route: /a route inside an array/,
    thrown: /^a text$/,
  }
  const { left, logged } = await through(t, { code, outputs: ['a'] }, [
    [...Object.keys(reasons).map(what => ({ what })), { what: 'well' }],
  ])
  const found = reasonsIn(left.main)
  for (const [n, [what, reason]] of Object.entries(reasons).entries()) t.match(found[n], reason, what)
  t.equal(left.main!.at(-1), '{"what":"well"}', 'the others pass')
  t.match(logged, [{ code: 'SLUICE_PROCESSOR_FAILED', events: 11, error: reasons.none }])
})

t.test('a function that waits: in order, so many at a time, and not longer than the time of the batch', async t => {
  const code = `let open = 0
  async (event, { signal }) => {
    const atOnce = ++open
    signal.addEventListener('abort', () => console.log('given up: ' + event.n))
    if (event.never) await new Promise(() => {})
    await new Promise(resolve => setTimeout(resolve, event.ms ?? 0))
    open--
    return { ...event, atOnce }
  }`
  const events = [{ n: 1, ms: 9 }, { n: 2 }, { n: 3 }, { n: 4 }]
  const alone = await through(t, { code }, [events.slice(0, 2), events.slice(2)])
  t.same(
    alone.left.main!.map(line => JSON.parse(line)),
    events.map(event => ({ ...event, atOnce: 1 })),
  )
  const together = await through(t, { code, concurrency: 3 }, [events])
  const seen = together.left.main!.map(line => JSON.parse(line) as { n: number; atOnce: number })
  t.same(valuesOf(seen, 'n'), [1, 2, 3, 4])
  t.equal(Math.max(...seen.map(({ atOnce }) => atOnce)), 3)

  const never = [{ n: 1 }, { n: 2, never: true }, { n: 3 }]
  const late = await through(t, { code, timeout: '300ms' }, [never, [{ n: 4 }]], 'discard')
  t.same(
    late.left.main!.map(line => JSON.parse(line).n),
    [1, 4],
  )
  t.same(late.counters.discards.get('processing_failed')?.events, 2)
  t.match(
    late.logged.filter(({ code }) => code !== undefined),
    [{ error: 'the batch took longer than 300ms' }],
  )
})

t.test('a function may wait until its output is written', async t => {
  const code = `async event => {
    await new Promise(done => process.stdout.write('one', done))
    await new Promise(done => process.stderr.write('two', 'utf8', done))
    return event
  }`
  const { left, logged } = await through(t, { code }, [[{ n: 1 }]])
  t.same([left.main, valuesOf(logged, 'output')], [['{"n":1}'], ['one', 'two']])
})

t.test('a function of batches returns a result for each event', async t => {
  const code = `let sum = 0;
  (events, { to }) => {
    if (events.length === 2) return [events[0]]
    return events.map(event => event.to ? to('a', event) : event.n === 0 ? null : { n: sum += event.n })
  }`
  const batches = [[{ n: 1 }, { n: 0 }, { n: 2, to: 1 }, { n: 3 }], [{ n: 1 }, { n: 1 }], [{ n: 5 }]]
  const { left } = await through(t, { code, per: 'batch', outputs: ['a'] }, batches)
  const reason = 'the script returned 1 results for 2 events; return an array with a result for each'
  t.same(reasonsIn(left.main), [undefined, undefined, reason, reason, undefined])
  t.same([left.main![0], left.main![1], left.main![4], left.a], ['{"n":1}', '{"n":4}', '{"n":9}', ['{"n":2,"to":1}']])
})

t.test('what ends the process costs its event; the script is started again', async t => {
  const code = `let n = 0
  event => {
    if (event.exit) process.exit(3)
    if (event.fill) for (const all = []; ; ) all.push(new Array(1e6).fill(n))
    return { n: ++n }
  }`
  const options = { code, max_memory: '32MiB' }
  const { left, logged } = await through(t, options, [[{}, { exit: 1 }, {}], [{ exit: 1 }, { fill: 1 }], [{}]])
  t.same(reasonsIn(left.main), [
    undefined,
    'it ended itself (exit code 3)',
    undefined,
    'it ended itself (exit code 3)',
    'it needed more than max_memory',
    undefined,
  ])
  t.same([left.main![0], left.main![2], left.main![5]], ['{"n":1}', '{"n":2}', '{"n":1}'], 'what it kept is lost')
  t.match(logged[0], { code: 'SLUICE_SCRIPT_ENDED', component: undefined, error: 'it ended itself (exit code 3)' })
})

t.test(
  'what ends the process long after its call began costs no other event, and one call at a time no more',
  async t => {
    const code = `async event => {
    if (event.bad) setTimeout(() => { throw new Error('late') }, 5)
    await new Promise(resolve => setTimeout(resolve, 50))
    return event
  }`
    const events = Array.from({ length: 20 }, (_, n) => (n === 2 ? { n, bad: true } : { n }))
    const { left } = await through(t, { code, concurrency: 8, timeout: '600ms' }, [events])
    const failed = reasonsIn(left.main).flatMap((reason, n) => (reason === undefined ? [] : [[n, reason] as const]))
    t.match(failed[0], [2, /it failed: .*late/])
    t.equal(failed.length, 1)
  },
)

t.test('what the process of a script says is checked as input', async t => {
  const expected = { length: 2, bytes: 20, isNoted: true, at: 0 }
  const of = (id: unknown) => (id === 7 ? expected : undefined)
  const head = (more: object) => checkedHead({ type: 'done', id: 7, several: [], errors: [], ...more }, of)
  const wrong: Record<string, () => unknown> = {
    null: () => checkedHead(null, of),
    'no type': () => checkedHead({}, of),
    'an unknown type': () => head({ type: 'other' }),
    'an error that is no text': () => checkedHead({ type: 'failed', error: 1 }, of),
    'a batch that is not waited for': () => head({ id: 8 }),
    'an event that came before': () => head({ type: 'at', event: 0 }),
    'an event that does not exist': () => head({ type: 'at', event: 2 }),
    'no list': () => head({ several: {} }),
    'an event twice': () => head({ several: [1, 1] }),
    'errors of other events': () => head({ errors: [[2, 'x']] }),
    'an error that is too long': () => head({ errors: [[1, 'x'.repeat(1001)]] }),
  }
  for (const [what, check] of Object.entries(wrong)) t.throws(check, /^its process sent /, what)
  t.same(head({ errors: [[1, 'x']] }), { type: 'done', id: 7, several: [], errors: [[1, 'x']] })
  t.equal(checkedHead({ type: 'wrote', line: 'x'.repeat(9999) }, of).type, 'wrote')

  const done = (to: number[], places: number[], text: string, more: object = {}) => {
    const columns = Buffer.alloc(18)
    for (const [i, n] of places.entries()) columns.writeInt32LE(n, i * 4)
    columns.set(to, 16)
    const message = { type: 'done' as const, id: 7, several: [], errors: [], ...more }
    return checkedDone(message, 2, 1, Buffer.concat([columns, Buffer.from(text)]))
  }
  const A = '{"a":1}\n'
  t.same(done([0, 1], [0, 0, 7, 0], A).bytes.toString(), A)
  t.equal(done([0, 255], [0, 0, 16, 0], A + A, { several: [0], errors: [[1, 'x']] }).bytes.length, 16)
  const broken: Record<string, () => unknown> = {
    'an output that is none': () => done([0, 2], [0, 0, 0, 0], ''),
    'a discarded event with text': () => done([0, 128], [0, 0, 0, 7], A),
    'a place behind the end': () => done([0, 0], [0, 0, 8, 0], A),
    'a place before the beginning': () => done([0, 0], [-1, 0, 7, 0], A),
    'one place twice': () => done([0, 0], [0, 0, 7, 7], A),
    'a line feed in an event': () => done([0, 0], [0, 0, 15, 0], A + A),
    'no object': () => done([0, 0], [0, 0, 3, 0], '[1]\n'),
    'what is no JSON': () => done([0, 0], [0, 0, 5, 0], '{bad}\n'),
    'what is no JSON, among several': () => done([0, 0], [0, 0, 14, 0], `${A}{bad}\n`, { several: [0] }),
    'an empty line among several': () => done([0, 0], [0, 0, 9, 0], `${A}\n`, { several: [0] }),
    'text of no event': () => done([0, 0], [0, 0, 0, 0], A),
    'an error of an event that passes': () => done([0, 0], [0, 0, 0, 0], '', { errors: [[1, 'x']] }),
    'no columns': () => checkedDone({ type: 'done', id: 7, several: [], errors: [] }, 2, 1, Buffer.alloc(17)),
  }
  for (const [what, check] of Object.entries(broken)) t.throws(check, /^its process sent /, what)

  const taken: unknown[] = []
  const reader = new FrameReader(20, head => ({
    most: 4,
    take: bytes => void taken.push([JSON.parse(String(head)), String(bytes)]),
  }))
  const frames = Buffer.concat([
    jsonHead({ n: 1 }, 3),
    Buffer.from('abc'),
    jsonHead({ n: 2 }, 0),
    jsonHead({ n: 3 }, 5),
  ])
  t.throws(() => {
    for (const byte of frames) reader.push(Buffer.of(byte))
  }, /5 bytes; at most 4/)
  t.same(taken, [
    [{ n: 1 }, 'abc'],
    [{ n: 2 }, ''],
  ])
  const json = '{"a,[{":["\\",[{",1,{}]}'
  t.same(readHead(Buffer.from(json), 6), JSON.parse(json), 'signs in texts are no values')
  t.throws(() => readHead(Buffer.from(json), 5), /^its process sent 6 values; at most 5 are allowed$/)
  t.throws(() => new FrameReader(20, () => ({ most: 0, take: () => {} })).push(Buffer.alloc(8, 0xff)), /bytes; at most/)
})

t.test('a file, in JavaScript or TypeScript, with what it imports; an error names the line', async t => {
  const folder = testFolder(t, {
    'mine.ts': `import { twice } from './twice.ts'
interface Event { readonly n: number }
export default (event: Event) => ({ n: twice(event.n) })
`,
    'twice.ts':
      'export const twice = (n: number): number => {\n  if (n > 4) throw new RangeError("too many")\n  return 2 * n\n}\n',
    'none.js': 'export const other = 1\n',
    'common.cjs': 'module.exports = e => {\n  x = 1 +;\n}\n',
    'typed.ts': 'export default (e: any) => {\n  let y: = 1\n}\n',
    'broken.js': 'export default event => {\n  return { ...event\n}\n',
  })
  const file = join(folder, 'mine.ts')
  const { left } = await through(t, { file }, [[{ n: 4 }, { n: 5 }]])
  t.equal(left.main![0], '{"n":8}')
  t.same(reasonsIn(left.main), [undefined, `${join(folder, 'twice.ts')}:2:20: RangeError: too many`])
  const failing = (name: string) => loadedStageOf(script, { file: join(folder, name) })
  await t.rejects(failing('none.js'), { message: /default export of .*none\.js must be a function/ })
  await t.rejects(failing('broken.js'), {
    option: 'file',
    message: /^Unexpected end of input \(.*broken\.js:4:1\)$/,
  })
  await t.rejects(failing('common.cjs'), {
    option: 'file',
    message: /^Unexpected token ';' \(.*common\.cjs:2:10\)$/,
  })
  // A Node.js that removes the types itself says no column.
  await t.rejects(failing('typed.ts'), {
    option: 'file',
    message: /^Unexpected token `=`.* \(.*typed\.ts:2(:10)?\)$/,
  })
  await t.rejects(failing('nowhere.js'), { message: /the file .*nowhere\.js does not exist/ })
})

t.test('code that is no function is refused', async t => {
  await t.rejects(loadedStageOf(script, { code: '1 + 1' }), {
    option: 'code',
    message: /^it must be a function, as in/,
  })
  await t.rejects(loadedStageOf(script, { code: 'let a\nnowhere.x' }), {
    option: 'code',
    message: /^line 2, column 1 of the code: ReferenceError: nowhere/,
  })
  for (const [code, message] of [
    ['missing', /^line 1, column 1 of the code: ReferenceError/],
    ['(() => { throw null })()', /^it threw null$/],
  ] as const)
    await t.rejects(loadedStageOf(script, { code }), { message })
  t.equal(syntaxProblem('let n = 0\nevent => ++n'), undefined)
  t.equal(syntaxProblem('event => event;'), undefined)
  t.match(syntaxProblem('event => {\n  return { ...event\n}'), /^line 3, column 2 of the code: /)
  t.match(syntaxProblem('event => {\n  const x = ;\n}'), /^line 2, column 13 of the code: Unexpected token ';'$/)
  t.throws(() => script.options.parse({}), /either file or code/)
  t.throws(() => script.options.parse({ code: 'e => e', file: 'a.js' }), /either file or code/)
})

t.test('an event that was not changed keeps its line, however that is written', async t => {
  const same = ['{"n": 1}', '{ "n":1}', '{"n":1 }', '{"n":1}\r', '{"a":[1, 2]}', '{"n":1.0}', '{"n":1e2}', '{"n":-0}']
  same.push(
    '{"n":12345678901234567890}',
    '{"n":0.10000000000000000555}',
    String.raw`{"n":"\/"}`,
    String.raw`{"n":"\u00e4"}`,
  )
  same.push(String.raw`{"n":"\ud83D"}`, String.raw`{"n":"\u000a"}`, '{"n":1E2,"m":"e"}')
  for (const line of same) t.ok(isSameObject(line, JSON.stringify(JSON.parse(line))), line)
  const changed: [line: string, text: string][] = [
    ['{"n":1}', '{"n":2}'],
    ['{"n":1}', '{"n":1,"m":2}'],
    ['{"n": 1}', '{"n":2}'],
    ['{"n":12345678901234567890}', '{"n":1}'],
    ['{"n":1e2}', '{"n":100,"m":1}'],
    ['{"n":"e"}', '{"n":"f"}'],
    ['{"n":1}', '{}'],
  ]
  for (const [line, text] of changed) t.notOk(isSameObject(line, text), `${line} ${text}`)
})
