import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { parse } from '../../../../src/components/processors/parse.js'
import { type BatchOptions, batchOf, collectLines } from '../../../support/batches.js'
import { loadedStageOf } from '../../../support/stage.js'

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

t.test('types of fields that no text has are warned of', async t => {
  const { warnings } = await parse.checks!()
  const warned = (options: object) => warnings!(parse.options.parse(options), [])
  const grok = { codec: 'grok', pattern: '%{IP:client} %{NUMBER:took}' }
  t.same(warned({ ...grok, types: { tok: 'int', took: 'float' } }), [
    { path: ['types', 'tok'], message: 'has no effect: the fields that can be found are client, took' },
  ])
  t.same(warned({ ...grok, target: '.x', types: { took: 'int' } }), [])
  t.same(warned({ try: [grok, { codec: 'csv', columns: ['tok'] }], types: { tok: 'int' } }), [])
  t.same(warned({ codec: 'logfmt', types: { any: 'int' } }), [])
})

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
    '.message is not a JSON object, and not CSV (expected 2 values instead of 1 at column 6), and not logfmt (there is no key with a value)',
  )
})

t.test('what is wrong with a text is said with its place', async t => {
  const problem = async (codec: string, text: string) => /\((.*)\)/.exec((await found({ codec }, text)) as string)?.[1]
  t.equal(await problem('json', '{"a":1,}'), 'it is not JSON at character 8')
  t.equal(await problem('json', '[{"a":1}]'), 'it is an array')
  t.equal(await problem('json', '{"a":'), 'it ends too soon')
  t.equal(await problem('logfmt', 'a=1 b="x'), 'expected key=value at column 5')
  t.match(await problem('csv', ','.repeat(70_000)), 'expected the end of the line, after 65536 values at column 65537')
  t.equal(await problem('csv', 'a,"b"c'), 'expected a value without double quotes, or in double quotes at column 3')
})

t.test('an event that cannot be parsed stays as it was', async t => {
  const [event] = await parsed({ field: '.log', codec: 'json', remove_field: true }, [{ a: 1 }], { decode: 'json' })
  t.same(event, { a: 1, processing_error: { component: 'p', message: 'the event has no field .log' } })
  const [other] = await parsed({ codec: 'json', target: '.a.b' }, [{ a: 1, message: '{}' }], { decode: 'json' })
  t.match(other, { a: 1, processing_error: { message: '.a.b cannot be set: its parent is not an object' } })
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
  t.equal(
    await found(options, 'i=1.5'),
    '.message is not logfmt (.i should be an integer, and is a text of 3 characters)',
  )
  t.match(await found({ ...options, codec: 'json' }, '{"f":{}}'), /\.f should be a number, and is an object/)
  const [line] = await parsed({ ...options, codec: 'json' }, ['{"i":"900719925474099312345"}'])
  t.ok(line)
})

t.test('options of another codec are errors in their place', t => {
  t.same(problems({}), [['codec', 'is missing; set codec, or set try to a list of codecs']])
  t.same(problems({ codec: 'json', try: [{ codec: 'json' }] }), [
    ['try', 'cannot be used with codec; move the codec into the list'],
  ])
  t.same(problems({ codec: 'json', columns: ['a'] }), [['columns', 'is an option of csv, not of json']])
  t.same(problems({ try: [{ codec: 'csv' }, { codec: 'logfmt', delimiter: ';' }] }), [
    ['try.1.delimiter', 'is an option of csv, not of logfmt'],
  ])
  t.match(problems({ codec: 'csv', columns: [] }), [['columns']])
  t.match(problems({ codec: 'text' }), [['codec']])
  t.end()
})

t.test('timestamp: what is written in any of the usual ways', async t => {
  const auto: Record<string, string> = {
    '2026-01-31T12:00:00Z': '2026-01-31T12:00:00.000Z',
    '2026-01-31 13:00:00.123456789+01:00': '2026-01-31T12:00:00.123456789Z',
    '20260131T120000,5Z': '2026-01-31T12:00:00.500Z',
    '2026-01-31': '2026-01-31T00:00:00.000Z',
    '1769860800': '2026-01-31T12:00:00.000Z',
    '1769860800.25': '2026-01-31T12:00:00.250Z',
    '1769860800123': '2026-01-31T12:00:00.123Z',
    '1769860800123456': '2026-01-31T12:00:00.123456Z',
    '1769860800123456789': '2026-01-31T12:00:00.123456789Z',
    'Sat, 31 Jan 2026 12:00:00 GMT': '2026-01-31T12:00:00.000Z',
    'Sat, 31 Jan 2026 12:00:00.123 GMT': '2026-01-31T12:00:00.123Z',
    '31 Jan 2026 13:00:00.5 +0100': '2026-01-31T12:00:00.500Z',
    'Sat, 31 Jan 2026 07:00 EST': '2026-01-31T12:00:00.000Z',
    'Saturday, 31-Jan-26 12:00:00 GMT': '2026-01-31T12:00:00.000Z',
    'Sat Jan 31 12:00:00 2026': '2026-01-31T12:00:00.000Z',
    '31/Jan/2026:12:00:00 -0130': '2026-01-31T13:30:00.000Z',
    'Sep  3 12:00:00': '2001-09-03T12:00:00.000Z',
  }
  const events = await parsed(
    { field: '.t', codec: 'timestamp' },
    Object.keys(auto).map(t => ({ t })),
    { decode: 'json', receivedAt: 1e12 },
  )
  for (const event of events) t.equal(event.timestamp, auto[event.t as string], event.t as string)
  for (const text of ['', 'yesterday', '2026-02-30', '2026-01-31T25:00:00Z', '12', 'Sat, 31 Jan 2026 12:00:00 XYZ'])
    t.equal(await found({ codec: 'timestamp' }, text), '.message is not a time in the format', text)
})

t.test('timestamp: formats, zones and changes of clocks', async t => {
  const read = (format: string | string[], text: string, time_zone = 'UTC') =>
    found({ codec: 'timestamp', format, time_zone }, text)
  t.equal(await read('%d/%b/%Y:%T %z', '10/Oct/2000:13:55:36 -0700'), '2000-10-10T20:55:36.000Z')
  t.equal(await read('%Y-%m-%d %I:%M:%S.%f %p', '2026-01-31 12:00:00.5 am'), '2026-01-31T00:00:00.500Z')
  t.equal(await read('%F %R', '2026-01-31 12:05'), '2026-01-31T12:05:00.000Z')
  t.equal(await read('%s.%3f', '1769860800.123'), '2026-01-31T12:00:00.123Z')
  t.equal(await read('%Y %j', '2024 366'), '2024-12-31T00:00:00.000Z')
  t.equal(await read('%A, %e %B %y', 'Monday,  3 September 01'), '2001-09-03T00:00:00.000Z')
  t.equal(await read('100%% %d.%m.%Y [x]', '100% 31.01.2026 [x]'), '2026-01-31T00:00:00.000Z')
  t.equal(await read(['unix', '%d.%m.%Y'], '31.1.2026'), '2026-01-31T00:00:00.000Z')
  t.equal(await read('unix', '-0.25'), '1969-12-31T23:59:59.750Z')
  t.equal(await read('unix_ms', '-250'), '1969-12-31T23:59:59.750Z')
  t.equal(await read('unix_ms', '12'), '1970-01-01T00:00:00.012Z')
  const berlin = (text: string) => read('iso8601', text, 'Europe/Berlin')
  t.equal(await berlin('2026-01-31 12:00'), '2026-01-31T11:00:00.000Z')
  t.equal(await berlin('2026-07-31 12:00'), '2026-07-31T10:00:00.000Z')
  t.equal(await berlin('2026-03-29 01:59:59'), '2026-03-29T00:59:59.000Z')
  t.equal(await berlin('2026-03-29 02:30'), '2026-03-29T01:30:00.000Z', 'a time that clocks skip')
  t.equal(await berlin('2026-03-29 03:00'), '2026-03-29T01:00:00.000Z')
  t.equal(await berlin('2026-10-25 02:30'), '2026-10-25T00:30:00.000Z', 'the first of two')
  t.equal(await berlin('2026-10-25 03:00'), '2026-10-25T02:00:00.000Z')
  t.equal(await read('iso8601', '2026-06-01 12:00', 'Asia/Kathmandu'), '2026-06-01T06:15:00.000Z')
  for (const zone of ['UTC', 'Europe/Berlin']) {
    t.equal(await read('%F %T', '2026-02-30 12:00:00', zone), '.message is not a time in the format', zone)
    t.equal(await read('%b %d %T', 'Feb 30 12:00:00', zone), '.message is not a time in the format', zone)
    t.match(await read(['%d/%m/%Y %T', '%m/%d/%Y %T'], '02/13/2026 12:00:00', zone), /^2026-02-13/, zone)
  }
  t.same(await found({ codec: 'logfmt', types: { at: 'timestamp' } }, 'at=1769860800'), {
    at: '2026-01-31T12:00:00.000Z',
  })
  t.match(problems({ codec: 'timestamp', format: '%Y-%Q-%d' }), [['format', /%Q is not a directive/]])
  t.match(problems({ codec: 'timestamp', format: 'isoo' }), [['format', /must be one of auto, iso8601/]])
  t.match(problems({ codec: 'timestamp', format: '%H:%M' }), [['format', /has no day/]])
  t.match(problems({ codec: 'timestamp', time_zone: 'Europe/Berln' }), [['time_zone', /did you mean "Europe\/Berlin"/]])
})
