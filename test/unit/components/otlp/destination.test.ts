import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { otlp } from '../../../../src/components/otlp/destination.js'
import { ExportRequest } from '../../../../src/components/otlp/export-request.js'
import type { OtlpOptions } from '../../../../src/components/otlp/options.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { HOST, listening } from '../../../support/address.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { cpuTime } from '../../../support/cpu-time.js'
import { deliver, failure, json, make, never, receiver, started } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { longestParsed } from '../../../support/parsed-json.js'
import { messageOf } from '../../../support/protobuf-messages.js'
import { seeded } from '../../../support/seeded.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** A batch as a source sends it. */
function sent(lines: readonly string[], origin = json, onSettled?: (status: AckStatus) => void) {
  const [batch] = batchesOf(lines.map(line => `${line}\n`).join(''), origin, onSettled)
  batch!.sentOffsets = new SentOffsets(batch!.starts[0]!, { reading: '00112233aabbccdd', at: 0 })
  return batch!
}

interface LogRecord {
  readonly timeUnixNano?: string
  readonly observedTimeUnixNano: string
  readonly severityNumber?: number
  readonly severityText?: string
  readonly body?: object
  readonly attributes: readonly { readonly key: string; readonly value: object }[]
  readonly traceId?: string
  readonly spanId?: string
}
interface Sent {
  readonly resourceLogs: readonly {
    readonly resource: { readonly attributes: LogRecord['attributes'] }
    readonly scopeLogs: readonly { readonly scope?: { readonly name: string }; readonly logRecords: LogRecord[] }[]
  }[]
}

/** The body of a request with these lines. It is the same message in both encodings. */
async function bodyOf(t: Test, lines: readonly string[], more: object = {}, origin = json): Promise<Sent> {
  const { context } = await make({ url: 'http://127.0.0.1' }, otlp)
  const [protobuf, text] = ['protobuf', 'json'].map(encoding => {
    const options = otlp.options.parse({ url: 'http://127.0.0.1', encoding, ...more }) as OtlpOptions
    const { parts, bytes } = new ExportRequest(options, context).encode([sent(lines, origin)])
    const body = Buffer.concat(parts)
    t.equal(body.length, bytes)
    return body
  })
  const sentAsJson = JSON.parse(text!.toString()) as Sent
  const observed = (body: object) => JSON.parse(JSON.stringify(body).replace(/("observedTimeUnixNano":)"\d+"/g, '$1""'))
  t.same(observed(messageOf(protobuf!)), observed(sentAsJson))
  return sentAsJson
}

const recordsOf = ({ resourceLogs }: Sent) =>
  resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords))
const attributesOf = ({ attributes }: LogRecord) => Object.fromEntries(attributes.map(({ key, value }) => [key, value]))

t.test('fields become what they mean, and all others are attributes with their types', async t => {
  const [trace, span] = ['0AF7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331']
  const line = `{"timestamp":"2026-01-02T03:04:05.123456789+01:00","level":"Warn","message":"a \\"b\\" é","trace_id":"${trace}","spanId":"${span}","app":"shop","logger":"cart","n":5,"big":9007199254740993,"huge":99999999999999999999,"far":1e999,"half":0.5,"large":-1e300,"yes":true,"nothing":null,"list":[1,"two",[false]],"map":{"a\\u0022":{"b":[]},"c":null}}`
  const body = await bodyOf(t, [line])
  t.match(body.resourceLogs, [
    {
      resource: { attributes: [{ key: 'service.name', value: { stringValue: 'shop' } }] },
      scopeLogs: [{ scope: { name: 'cart' } }],
    },
  ])
  const [record] = recordsOf(body)
  t.match(record, {
    timeUnixNano: '1767319445123456789',
    severityNumber: 13,
    severityText: 'Warn',
    body: { stringValue: 'a "b" é' },
    traceId: trace!.toLowerCase(),
    spanId: span,
  })
  t.match(record!.observedTimeUnixNano, /^\d{19}$/)
  t.strictSame(attributesOf(record!), {
    app: { stringValue: 'shop' },
    logger: { stringValue: 'cart' },
    n: { intValue: '5' },
    big: { intValue: '9007199254740993' },
    huge: { stringValue: '99999999999999999999' },
    far: { stringValue: '1e999' },
    half: { doubleValue: 0.5 },
    large: { doubleValue: -1e300 },
    yes: { boolValue: true },
    nothing: {},
    list: {
      arrayValue: {
        values: [{ intValue: '1' }, { stringValue: 'two' }, { arrayValue: { values: [{ boolValue: false }] } }],
      },
    },
    map: {
      kvlistValue: {
        values: [
          { key: 'a"', value: { kvlistValue: { values: [{ key: 'b', value: { arrayValue: { values: [] } } }] } } },
          { key: 'c', value: {} },
        ],
      },
    },
  })
})

t.test('severities, and what cannot be read', async t => {
  const cases: [json: string, number: number | undefined, text: string | undefined, isKept: boolean][] = [
    ['"ERROR"', 17, 'ERROR', false],
    ['"emerg"', 21, 'emerg', false],
    ['"odd"', undefined, 'odd', false],
    ['30', 9, undefined, true],
    ['60', 21, undefined, true],
    ['3', 17, undefined, true],
    ['"7"', 5, undefined, true],
    ['8', undefined, undefined, true],
    ['-1', undefined, undefined, true],
    ['{"a":1}', undefined, undefined, true],
  ]
  const records = recordsOf(
    await bodyOf(
      t,
      cases.map(([level]) => `{"message":"m","level":${level}}`),
    ),
  )
  for (const [n, [level, number, text, isKept]] of cases.entries()) {
    const { severityNumber, severityText } = records[n]!
    t.strictSame([severityNumber, severityText, 'level' in attributesOf(records[n]!)], [number, text, isKept], level)
  }
})

t.test('ids of traces that are none stay attributes, and those that lie deeper stay where they are', async t => {
  const records = recordsOf(
    await bodyOf(t, [
      `{"message":"m","trace_id":"${'0'.repeat(32)}","span_id":5}`,
      `{"message":"m","trace":{"id":"${'a'.repeat(32)}"},"span.id":"${'b'.repeat(16)}"}`,
    ]),
  )
  t.strictSame(Object.keys(attributesOf(records[0]!)), ['trace_id', 'span_id'])
  t.notOk('traceId' in records[0]!)
  t.match(records[1], { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) })
  t.strictSame(Object.keys(attributesOf(records[1]!)), ['trace'])
})

t.test('an event without a field for its body has all of its fields there', async t => {
  const [record, other] = recordsOf(await bodyOf(t, ['{"status":200,"path":"/"}', '{"msg":{"a":1},"b":2}']))
  t.strictSame(record!.body, {
    kvlistValue: {
      values: [
        { key: 'status', value: { intValue: '200' } },
        { key: 'path', value: { stringValue: '/' } },
      ],
    },
  })
  t.strictSame(record!.attributes, [])
  t.notOk('timeUnixNano' in record!)
  t.strictSame(other!.body, { kvlistValue: { values: [{ key: 'a', value: { intValue: '1' } }] } })
  t.strictSame(attributesOf(other!), { b: { intValue: '2' } })
})

t.test('lines that are no objects', async t => {
  const [record] = recordsOf(await bodyOf(t, ['a "line"'], {}, originOf('text')))
  t.match(record, { body: { stringValue: 'a "line"' }, timeUnixNano: /^\d{19}$/ })
  t.match(attributesOf(record!), { host: { stringValue: String } })
  t.notOk('message' in attributesOf(record!) || 'timestamp' in attributesOf(record!))
})

t.test('a name that comes twice has its last value, also if an object between the two has it', async t => {
  const [record] = recordsOf(await bodyOf(t, ['{"message":"m","a":1,"b":{"a":2},"a":3}']))
  t.strictSame(record!.attributes, [
    { key: 'a', value: { intValue: '3' } },
    { key: 'b', value: { kvlistValue: { values: [{ key: 'a', value: { intValue: '2' } }] } } },
  ])
})

t.test('the time for names that come twice grows with the event, not with each level', async t => {
  const { context } = await make({ url: 'http://127.0.0.1' }, otlp)
  const nested = (levels: number, more: string) =>
    `{"message":"m","b":${'{"x":'.repeat(levels)}1${`,${more}}`.repeat(levels)}}`
  // The first has a name twice, and the name y of the other may have been that of an object inside.
  for (const encoding of ['protobuf', 'json'])
    for (const more of ['"a":1,"a":2', '"y":{"z":1},"z":2']) {
      const format = new ExportRequest(
        otlp.options.parse({ url: 'http://127.0.0.1', encoding }) as OtlpOptions,
        context,
      )
      const timeOf = (levels: number) =>
        cpuTime(3, () => format.encode(Array.from({ length: 50 }, () => sent([nested(levels, more)]))))
      const [few, many] = [await timeOf(7), await timeOf(14)]
      t.ok(many < 20 * few, `${encoding} ${more}: ${few} ms for 7 levels, ${many} ms for 14`)
      const [record] = recordsOf(await bodyOf(t, [nested(22, more)]))
      t.equal(JSON.stringify(record!.attributes).split('{"key":"x"').length, 23)
      t.notMatch(JSON.stringify(record!.attributes), '{"key":"a","value":{"intValue":"1"}}')
    }
})

t.test('a name that comes twice has its last value, at each level', async t => {
  const line = '{"message":"m","a":1,"b":{"c":1,"d":2,"c":3},"a":2,"e":[{"f":1,"\\u0066":2}]}'
  const [record] = recordsOf(await bodyOf(t, [line]))
  t.strictSame(record!.attributes, [
    { key: 'a', value: { intValue: '2' } },
    {
      key: 'b',
      value: {
        kvlistValue: {
          values: [
            { key: 'c', value: { intValue: '3' } },
            { key: 'd', value: { intValue: '2' } },
          ],
        },
      },
    },
    {
      key: 'e',
      value: {
        arrayValue: { values: [{ kvlistValue: { values: [{ key: 'f', value: { intValue: '2' } }] } }] },
      },
    },
  ])
})

t.test('deep and wide events', async t => {
  const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
  const wide = Array.from({ length: 3000 }, (_, n) => `"field-${n}":${n}`).join()
  const [first, second, third] = recordsOf(
    await bodyOf(t, [
      `{"message":"m","a":${deep(24)}}`,
      `{"message":"m","a":${deep(5000)}}`,
      `{"message":"m",${wide}}`,
    ]),
  )
  t.notMatch(JSON.stringify(first), 'stringValue":"[')
  t.match(JSON.stringify(second), `"stringValue":"${deep(4976)}"`)
  t.equal(third!.attributes.length, 3000)
})

t.test('what is written is what JSON.parse reads', async t => {
  const random = seeded(11)
  const below = (most: number) => Math.floor(random() * most)
  const PIECES = [
    'a',
    '\\"',
    '\\\\',
    '\\/',
    '\\n\\t\\b\\f\\r',
    '\\u00e9',
    'é',
    '\\ud83d\\ude00',
    '\\ude00',
    '\\ud83dx',
    '😀',
    '\\u0000',
  ]
  const text = () => `"${Array.from({ length: below(40) }, () => PIECES[below(PIECES.length)]).join('')}"`
  const value = (level: number): string => {
    const kind = below(level > 3 ? 4 : 6)
    if (kind === 0) return text()
    if (kind === 1) return ['0', '-0', '-7', '-12345678901234', '1.5e3', '0.1', '9007199254740991'][below(7)]!
    if (kind === 2) return ['true', 'false', 'null'][below(3)]!
    if (kind === 3) return text()
    const items = Array.from({ length: below(5) }, () => value(level + 1))
    return kind === 4
      ? `[ ${items.join(' , ')}]`
      : `{${items.map((item, n) => `"k${n % 3}\\u0022" : ${item}`).join(',')} }`
  }
  const read = (any: Record<string, unknown>): unknown => {
    const [[kind, found] = ['', null]] = Object.entries(any)
    if (kind === 'intValue') return Number(found)
    const list = (found as { values: object[] } | null)?.values as { key: string; value: Record<string, unknown> }[]
    if (kind === 'arrayValue') return (list as unknown as Record<string, unknown>[]).map(read)
    if (kind === 'kvlistValue') return Object.fromEntries(list.map(({ key, value }) => [key, read(value)]))
    return found
  }
  const lines = Array.from({ length: 300 }, () => `{"message":${text()},"v":${value(0)}}`)
  const records = recordsOf(await bodyOf(t, lines))
  for (const [n, line] of lines.entries()) {
    const { message, v } = JSON.parse(line) as { message: string; v: unknown }
    const expected = JSON.parse(JSON.stringify([message, v]).replace(/\\ud[89a-f][0-9a-f]{2}/gi, '\ufffd')) as unknown[]
    const { body, attributes } = records[n]!
    t.strictSame([read(body as never), read(attributes[0]!.value as never)], expected.map(noMinusZero), line)
  }
})

/** An integer of the protocol has no sign if it is 0. */
const noMinusZero = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

t.test('the time of a record has all digits of the fraction', async t => {
  const times: [json: string, nanos: string][] = [
    ['"2026-01-02 03:04:05.123456"', '1767323045123456000'],
    ['"2026-01-02T04:04:05,123456789+0100"', '1767323045123456789'],
    ['"2026-01-02T03:04:05.1234567Z"', '1767323045123456700'],
    ['1767323045.123456789', '1767323045123456789'],
    ['1.767323045e9', '1767323045000000000'],
    ['"2026-01-02T03:03:60Z"', '1767323040000000000'],
  ]
  const body = await bodyOf(
    t,
    times.map(([time]) => `{"timestamp":${time}}`),
  )
  t.same(
    recordsOf(body).map(({ timeUnixNano }) => timeUnixNano),
    times.map(([, nanos]) => nanos),
  )
})

t.test('events of each resource and scope are together, in their order', async t => {
  const random = seeded(7)
  const lines = Array.from({ length: 300 }, (_, n) => {
    const [app, logger] = [Math.floor(random() * 4), Math.floor(random() * 3)]
    return JSON.stringify({ message: `m${n}`, app: ['a', 'a\0', '', 'é'][app], logger: ['', '\0l', 'l'][logger] })
  })
  const { resourceLogs } = await bodyOf(t, lines, { resource: { 'service.name': '${.app:-none}', zone: 'one' } })
  t.equal(resourceLogs.length, 12)
  for (const { resource, scopeLogs } of resourceLogs) {
    const { value } = resource.attributes[0]!
    const { scope, logRecords } = scopeLogs[0]!
    const numbers = logRecords.map(record => {
      const { app, logger } = attributesOf(record) as Record<string, { stringValue: string }>
      t.equal(app!.stringValue || 'none', (value as { stringValue: string }).stringValue)
      t.equal(logger!.stringValue, scope?.name ?? '')
      return Number((record.body as { stringValue: string }).stringValue.slice(1))
    })
    t.strictSame(
      numbers,
      [...numbers].sort((a, b) => a - b),
    )
  }
})

t.test('own names of fields, and log.record.uid', async t => {
  const more = { body: '.text', severity: '.x.priority', timestamp: '.at', trace_id: '', record_uid: true, scope: '' }
  const lines = [
    '{"text":"t","x":{"priority":"notice"},"at":1767319445.5,"level":"error","trace_id":"x"}',
    '{"text":"t"}',
  ]
  const [record, other] = recordsOf(await bodyOf(t, lines, more))
  t.match(record, { timeUnixNano: '1767319445500000000', severityNumber: 10, body: { stringValue: 't' } })
  t.strictSame(Object.keys(attributesOf(record!)), ['level', 'trace_id', 'x', 'log.record.uid'])
  const uids = [record!, other!].map(record => JSON.stringify(attributesOf(record)['log.record.uid']))
  t.match(uids[0], /^\{"stringValue":"[\w-]{24}"\}$/)
  t.not(uids[0], uids[1])
  t.equal(otlp.usesIds!(otlp.options.parse({ url: 'http://127.0.0.1', record_uid: true }) as OtlpOptions), true)
})

const response = (message: string) => ({ headers: { 'content-type': 'application/json' }, body: message })

/** A receiver of JSON, and a delivery to it. */
async function delivering(t: Test) {
  const to = await receiver(t)
  const folder = testFolder(t)
  const made = await make({ url: to.url(''), encoding: 'json', compression: 'none' }, otlp)
  const { delivery } = deliver(folder, made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  t.teardown(() => delivery.stop(AbortSignal.abort()))
  const put = async (count: number) => {
    const settled: AckStatus[] = []
    const lines = Array.from({ length: count }, (_, n) => `{"message":"event ${n}"}`)
    delivery.write(sent(lines, json, status => settled.push(status)))
    await until('the batch is settled', () => settled.length === 1)
    return settled[0]
  }
  const discarded = () =>
    Object.fromEntries([...made.counters.discards].map(([reason, { events }]) => [reason, events]))
  return { to, made, delivery, put, discarded }
}

t.test('a part that is refused is counted, and all events among which it is are kept', async t => {
  const { to, put, made, discarded } = await delivering(t)
  to.script.push({
    status: 200,
    ...response('{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too strange"}}'),
  })
  t.equal(await put(10), 'rejected')
  t.strictSame(discarded(), { partial_success: 3 })
  t.equal(made.counters.passed.events, 7)
  const letters = [...made.counters.series.get('sluice_dead_letter_events_total')![0]!.read()]
  t.match(letters, [{ labels: { reason: 'partial_success' }, value: 10 }])
  t.match(
    valuesOf(made.logs, 'error').join(),
    /too strange; 3 of the 10 events were refused, and the receiver does not say which/,
  )
  t.equal(to.requests.length, 1, 'nothing is sent again')
  to.script.push({ status: 200, ...response('{"partialSuccess":{"rejectedLogRecords":2}}') })
  t.equal(await put(2), 'rejected')
  t.strictSame(discarded(), { partial_success: 5 })
})

t.test('what counts as delivered', async t => {
  const { to, put, made } = await delivering(t)
  to.script.push(204, { status: 200, ...response('{}') })
  to.script.push({ status: 200, ...response('{"partialSuccess":{"errorMessage":"use another field"}}') })
  for (let n = 0; n < 3; n++) t.equal(await put(1), 'delivered')
  t.match(valuesOf(made.logs, 'said'), ['use another field'])
  for (const rejectedLogRecords of [null, -3, '-3', '-9223372036854775808']) {
    to.script.push({ status: 200, ...response(JSON.stringify({ partialSuccess: { rejectedLogRecords } })) })
    t.equal(await put(1), 'delivered')
  }
  t.equal(to.requests.length, 7, 'nothing is sent again')
  const longest = longestParsed(t)
  for (const body of ['['.repeat(100_000), `[${'[],'.repeat(30_000)}[]]`]) {
    to.script.push({ status: 200, ...response(body) })
    t.match(await failure(made.destination.write(batchesOf('{}\n', json), never)), {
      failure: 'hold',
      reason: 'no_answer',
    })
  }
  t.ok(longest() < 10_000, 'answers with too many values or levels are not parsed')
})

t.test('words of a receiver: on one line, cut, and without the key that they repeat', async t => {
  const to = await receiver(t)
  const auth = { type: 'bearer', key: 'c0ffee-secret' }
  const { destination, logs } = await started(t, { url: to.url(''), encoding: 'json', auth }, otlp)
  const errorMessage = `\u001b[2J c0ffee-secret\r\n${'x'.repeat(100_000)}`
  to.script.push({ status: 200, ...response(JSON.stringify({ partialSuccess: { errorMessage } })) })
  await destination.write([sent(['{}'])], never)
  const [said] = valuesOf(logs, 'said') as string[]
  t.match(said, /^\[2J \[hidden\] x{50}/)
  t.ok(said!.length < 400)
  to.script.push({
    status: 200,
    ...response(JSON.stringify({ partialSuccess: { rejectedLogRecords: 9, errorMessage } })),
  })
  t.match(await failure(destination.write([sent(['{}'])], never)), {
    failure: 'reject',
    message: /v1\/logs: \[2J \[hidden\] x/,
  })
  to.script.push({ status: 200, ...response(`{"partialSuccess":{"errorMessage":"${'x'.repeat(200_000)}"}}`) })
  t.match(await failure(destination.write([sent(['{}'])], never)), { failure: 'hold', reason: 'no_answer' })
})

t.test('the check: an answer that is none of the protocol, and a port for gRPC', async t => {
  const to = await receiver(t)
  const { context } = await make({ url: to.url('') }, otlp)
  const inspects = await otlp.inspects!()
  const check = (url: string) => inspects.check!(otlp.options.parse({ url }) as OtlpOptions, context, never)
  to.script.push({ status: 200, headers: { 'content-type': 'text/plain' }, body: 'ok' })
  t.match(await failure(check(to.url(''))), { message: /is that the right address/ })
  to.script.push({ status: 200, headers: { 'content-type': 'application/x-protobuf' }, body: '' })
  t.equal(await check(to.url('')), 'accepts requests')
  const settings = Buffer.from('000006040000000000000500004000', 'hex')
  const grpc = createServer(socket => socket.on('error', () => {}).end(settings))
  const port = await listening(t, grpc)
  t.match(await failure(check(`http://${HOST}:${port}`)), { message: /it speaks HTTP\/2 there, as gRPC does/ })
})

t.test('a page of a web server is no answer', async t => {
  const { to, put, delivery } = await delivering(t)
  to.script.push({ status: 200, headers: { 'content-type': 'text/html' }, body: '<h1>Welcome</h1>' })
  const done = put(1)
  await until('the destination pauses', () => delivery.state === 'holding')
  t.match(delivery.reason, /does not follow the protocol: is that the right address\?/)
  t.equal(await done, 'delivered')
})

t.test('explain shows a request in protobuf as JSON', async t => {
  const { context } = await make({ url: 'http://127.0.0.1' }, otlp)
  const { explain } = await otlp.explains!()
  const explained = explain!(
    otlp.options.parse({ url: 'http://127.0.0.1' }) as OtlpOptions,
    context,
  )(sent(['{"message":"m"}']))
  t.match(JSON.parse(String(explained.bytes)), { resourceLogs: [{}] })
})

t.test('what is sent again, and what never is', async t => {
  const { destination } = await started(t, { url: 'http://127.0.0.1:1' }, otlp)
  t.ok(destination)
  for (const [status, expected] of [
    [429, 'retry'],
    [502, 'retry'],
    [503, 'retry'],
    [504, 'retry'],
    [500, 'reject'],
    [501, 'reject'],
    [408, 'reject'],
    [400, 'reject'],
    [401, 'hold'],
    [403, 'hold'],
    [413, 'too_large'],
  ] as const) {
    const to = await receiver(t)
    to.otherwise = { status, ...response('{"code":3,"message":"no"}') }
    const made = await started(t, { url: to.url(''), encoding: 'json' }, otlp)
    t.equal((await failure(made.destination.write([sent(['{}'])], never))).failure, expected, String(status))
  }
})

t.test('a receiver without a pipeline for logs: what to do', async t => {
  const to = await receiver(t)
  to.otherwise = { status: 404, headers: { 'content-type': 'text/plain' }, body: '404 page not found' }
  const { destination } = await started(t, { url: to.url('/v1/logs'), encoding: 'json' }, otlp)
  const { message } = await failure(destination.write([sent(['{}'])], never))
  t.match(message, /page not found; the receiver takes no logs there: it needs a pipeline for logs/)
  t.equal(to.requests[0]!.path, '/v1/logs', 'also if the url names the path')
})
