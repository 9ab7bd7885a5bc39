import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { parse } from '../../../src/processors/parse.js'
import { type BatchOptions, batchOf, collectLines } from '../../support/batches.js'
import { loadedStageOf } from '../../support/stage.js'

/** The events that leave `parse` with these options. */
async function parsed(options: object, lines: readonly (string | Buffer | object)[], more: BatchOptions = {}) {
  const { stage, wanted } = await loadedStageOf(parse, options)
  const left: string[] = []
  const batch = batchOf(lines, { wanted, host: 'h', decode: 'text', ...more })
  await pipeline(Readable.from([batch]), stage, collectLines(left))
  return left.map(line => JSON.parse(line) as Record<string, unknown>)
}

/** What `parse` finds in a text, below a field of its own; a failure as its message. */
async function found(options: object, text: string): Promise<unknown> {
  const [event] = await parsed({ ...options, target: '.found' }, [{ message: text }], { decode: 'json' })
  const error = event!.processing_error as { message: string } | undefined
  return error ? error.message : event!.found
}

const problems = (options: object) =>
  parse.options.safeParse(options).error?.issues.map(i => [i.path.join('.'), i.message])

t.test('what is found is merged into the event, and the field stays', async t => {
  const from = { host: 'h', timestamp: '1970-01-01T00:00:00.000Z' }
  t.same(await parsed({ codec: 'json' }, ['{"a":1,"host":"x"}']), [
    { message: '{"a":1,"host":"x"}', ...from, a: 1, host: 'x' },
  ])
  t.same(await parsed({ codec: 'logfmt', remove_field: true }, ['a=1 b']), [{ ...from, a: '1', b: true }])
  t.same(await parsed({ codec: 'json', remove_field: true }, ['{"message":"inner"}']), [{ ...from, message: 'inner' }])
  const nested = [{ log: { text: '{"a":"é\\n"}', n: 1 } }]
  const options = { field: '.log.text', codec: 'json' }
  t.same(await parsed({ ...options, remove_field: true }, nested, { decode: 'json' }), [{ log: { n: 1 }, a: 'é\n' }])
  t.same(await parsed({ ...options, target: '.log.found' }, nested, { decode: 'json' }), [
    { log: { text: '{"a":"é\\n"}', n: 1, found: { a: 'é\n' } } },
  ])
  t.same(await parsed({ ...options, target: '.log', remove_field: true }, nested, { decode: 'json' }), [
    { log: { a: 'é\n' } },
  ])
  t.same(await parsed({ field: '.o', codec: 'json' }, [{ o: { a: 1 } }], { decode: 'json' }), [{ o: { a: 1 }, a: 1 }])
})

t.test('lines that are not valid UTF-8 are parsed as their text', async t => {
  const [event] = await parsed({ codec: 'logfmt', remove_field: true }, [Buffer.from('a=\xff b=1', 'latin1')])
  t.match(event, { a: '\ufffd', b: '1', raw: 'YT3/IGI9MQ==' })
})

t.test('the first codec that can read the text counts', async t => {
  const options = { try: [{ codec: 'json' }, { codec: 'csv', columns: ['a', 'b'] }, { codec: 'logfmt' }] }
  t.same(await found(options, '{"n":1}'), { n: 1 })
  t.same(await found(options, '1,"2"'), { a: '1', b: '2' })
  t.same(await found(options, 'k=v'), { k: 'v' })
  t.equal(
    await found(options, 'a b c'),
    '.message is not a JSON object, and not CSV (expected 2 values, found 1), and not logfmt',
  )
})

t.test('an event that cannot be parsed stays as it was', async t => {
  const [event] = await parsed({ field: '.log', codec: 'json', remove_field: true }, [{ a: 1 }], { decode: 'json' })
  t.same(event, { a: 1, processing_error: { component: 'p', message: 'the event has no field .log' } })
  const [other] = await parsed({ codec: 'json', target: '.a.b' }, [{ a: 1, message: '{}' }], { decode: 'json' })
  t.match(other, { a: 1, processing_error: { message: '.a.b cannot be set: what contains it is not an object' } })
})

t.test('types', async t => {
  const options = { codec: 'logfmt', types: { i: 'int', f: 'float', b: 'bool', s: 'string' } }
  t.same(await found(options, 'i=+12 f=1.5e3 b=No s=1 other=1'), { i: 12, f: 1500, b: false, s: '1', other: '1' })
  t.same(await found({ ...options, codec: 'json' }, '{"i":"7","f":2,"b":1,"s":true}'), {
    i: 7,
    f: 2,
    b: true,
    s: 'true',
  })
  t.equal(await found(options, 'i=1.5'), '.message is not logfmt (.i should be an integer, and is "1.5")')
  t.match(await found({ ...options, codec: 'json' }, '{"f":{}}'), /\.f should be a number, and is \{\}/)
  const [line] = await parsed({ ...options, codec: 'json' }, ['{"i":"900719925474099312345"}'])
  t.ok(line)
})

t.test('options of another codec are errors in their place', t => {
  t.same(problems({}), [['codec', 'is missing; or give several codecs as try']])
  t.same(problems({ codec: 'json', try: [{ codec: 'json' }] }), [
    ['try', 'cannot be used with codec; move that into the list'],
  ])
  t.same(problems({ codec: 'json', columns: ['a'] }), [['columns', 'is an option of csv, not of json']])
  t.same(problems({ try: [{ codec: 'csv' }, { codec: 'logfmt', delimiter: ';' }] }), [
    ['try.1.delimiter', 'is an option of csv, not of logfmt'],
  ])
  t.match(problems({ codec: 'csv', columns: [] }), [['columns']])
  t.match(problems({ codec: 'text' }), [['codec']])
  t.end()
})
