import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { elasticsearch } from '../../../../src/components/elasticsearch/destination.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { deliver, failure, json, make, never, receiver, started } from '../../../support/destination.js'
import { type Document, Elasticsearch, pairsOf, STREAM } from '../../../support/elasticsearch.js'
import { testFolder } from '../../../support/folder.js'
import { longestParsed } from '../../../support/parsed-json.js'
import type { Answer, Received, Receiver } from '../../../support/receiver.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** A batch as a source sends it. */
function sent(lines: readonly string[], origin = json, onSettled?: (status: AckStatus) => void) {
  const [batch] = batchesOf(lines.map(line => `${line}\n`).join(''), origin, onSettled)
  batch!.sentOffsets = new SentOffsets(batch!.starts[0]!, { reading: '00112233aabbccdd', at: 0 })
  return batch!
}

/** The bulk requests. */
const bulks = (to: Receiver) => to.requests.filter(({ method }) => method === 'POST')

/** Takes everything. */
async function taker(t: Test) {
  const to = await receiver(t)
  to.otherwise = received => itemsOf(pairsOf(received).map(() => ({ status: 201 })))
  return to
}

const itemsOf = (items: readonly Stored[]) => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ errors: true, items: items.map(create => ({ create })) }),
})

const ANSWER = '/_bulk?filter_path=errors,items.*.status,items.*.error,items.*.failure_store'

t.test('the body of a request', async t => {
  const to = await taker(t)
  const options = {
    url: to.url('/prefix/'),
    index: 'logs-${.app:-none}',
    pipeline: '${.pipe}',
    headers: { 'X-Other': '1' },
  }
  const { destination } = await started(t, options, elasticsearch)
  const lines = [
    '{"app":"a","timestamp":"2026-01-02T03:04:05.123456789+01:00"}',
    '{"app":"b\\"","pipe":"geo","@timestamp":"mine","n":1}',
    ' { "timestamp":1767323045 } ',
    '{}',
    '{"timestamp":"2026-01-02 03:04:05.123456"}',
    '{"timestamp":1767323045.123456789}',
    '{"timestamp":"2016-12-31T23:59:60Z"}',
  ]
  await destination.write([sent(lines)], never)
  const [request] = bulks(to)
  t.match(request, { method: 'POST', path: `/prefix${ANSWER}` })
  t.match(request!.headers, {
    'x-other': '1',
    'content-type': 'application/x-ndjson',
    'content-encoding': 'gzip',
  })
  const pairs = pairsOf(request!)
  t.match(pairs, [
    [
      { create: { _index: 'logs-a', _id: String } },
      { '@timestamp': '2026-01-02T02:04:05.123456789Z', app: 'a', timestamp: /\+01:00$/ },
    ],
    [{ create: { _index: 'logs-b"', pipeline: 'geo' } }, { '@timestamp': 'mine', n: 1 }],
    [{ create: { _index: 'logs-none' } }, { '@timestamp': '2026-01-02T03:04:05Z', timestamp: 1767323045 }],
    [{ create: {} }, { '@timestamp': /^\d{4}-.*Z$/ }],
    [{ create: {} }, { '@timestamp': '2026-01-02T03:04:05.123456Z' }],
    [{ create: {} }, { '@timestamp': '2026-01-02T03:04:05.123456789Z' }],
    [{ create: {} }, { '@timestamp': '2017-01-01T00:00:00Z' }],
  ])
  t.notOk('pipeline' in pairs[0]![0].create!, 'an empty one is left out')
  t.equal(new Set(pairs.map(([{ create }]) => create!._id)).size, lines.length)
})

t.test('an index for each day, by the time of the event', async t => {
  const to = await taker(t)
  const { destination } = await started(t, { url: to.url(''), index: 'logs-${.app}-%Y.%m.%d' }, elasticsearch)
  const yesterday = new Date(Date.now() - 86_400_000).toISOString()
  const lines = [
    `{"app":"a","timestamp":"${yesterday}"}`,
    '{"app":"b","timestamp":"2026-01-31T23:59:59Z"}',
    '{"app":"%Y","timestamp":"2026-01-31T23:59:59-01:00"}',
    '{"app":"c","timestamp":"2026-01-31T00:00:00Z","@timestamp":1767323045}',
    '{"app":"d"}',
  ]
  const batch = sent(lines)
  await destination.write([batch], never)
  const dayOf = (time: string | number) => new Date(time).toISOString().slice(0, 10).replaceAll('-', '.')
  t.same(
    pairsOf(bulks(to)[0]!).map(([{ create }]) => create!._index),
    [
      `logs-a-${dayOf(yesterday)}`,
      'logs-b-2026.01.31',
      'logs-%Y-2026.02.01',
      'logs-c-2026.01.02',
      `logs-d-${dayOf(batch.receivedAt)}`,
    ],
  )
  const paths = to.requests.map(({ path }) => path)
  t.notMatch(paths.join(), '_resolve', 'an index with a date is not looked up')
})

t.test('lines that are no objects, and the action index', async t => {
  const to = await taker(t)
  const { destination } = await started(t, { url: to.url(''), index: 'logs', action: 'index' }, elasticsearch)
  await destination.write([sent(['a "line"', 'another'], originOf('text'))], never)
  t.match(pairsOf(bulks(to)[0]!), [
    [{ index: { _index: 'logs' } }, { message: 'a "line"' }],
    [{ index: { _index: 'logs' } }, { message: 'another' }],
  ])
})

interface Stored {
  readonly status: number
  readonly error?: { readonly type: string; readonly reason: string; readonly caused_by?: { readonly reason: string } }
  readonly failure_store?: string
}

/** Stores each id once, as Elasticsearch does. `refuse` says what becomes of a document that is not stored. */
async function fakeElasticsearch(t: Test, refuse: (document: Document) => Stored | undefined, index = 'logs') {
  const to = await receiver(t)
  const stored = new Map<string, Document>()
  to.otherwise = received =>
    itemsOf(
      pairsOf(received).map(([{ create }, document]): Stored => {
        const refused = refuse(document)
        if (refused) return refused
        const type = 'version_conflict_engine_exception'
        if (stored.has(create!._id)) return { status: 409, error: { type, reason: 'exists' } }
        stored.set(create!._id, document)
        return { status: 201 }
      }),
    )
  const folder = testFolder(t)
  const made = await make({ url: to.url(''), index }, elasticsearch)
  const { delivery, end } = deliver(folder, made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  const put = async (lines: readonly string[]) => {
    const settled: AckStatus[] = []
    delivery.write(sent(lines, json, status => settled.push(status)))
    await until('the batch is settled', () => settled.length === 1)
    return settled[0]
  }
  const reasons = () => Object.fromEntries([...made.counters.discards].map(([reason, { events }]) => [reason, events]))
  t.teardown(() => delivery.stop(AbortSignal.abort()))
  return { to, folder, stored, put, end, reasons, made }
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => `{"n":${n}}`)

t.test('each event that is refused has its own reason and words, and the others are stored once', async t => {
  const MAPPING = { type: 'mapper_parsing_exception', reason: 'failed to parse field [n]' }
  const SHARDS = { type: 'validation_exception', reason: 'this cluster currently has [36]/[1] maximum shards open;' }
  const FIELDS = { type: 'illegal_argument_exception', reason: 'Limit of total fields [1000] has been exceeded' }
  const { stored, put, reasons, made, to } = await fakeElasticsearch(t, ({ n }) => {
    if (n === 3 || n === 9) return { status: 400, error: { ...MAPPING, reason: `${MAPPING.reason} of ${n}` } }
    if (n === 5) return { status: 400, error: FIELDS }
    if (n === 8) return { status: 400, error: SHARDS }
    return n === 7 ? { status: 404, error: { type: 'a_new_exception', reason: 'who knows' } } : undefined
  })
  t.equal(await put(numbered(12)), 'rejected')
  t.same(
    [...stored.values()].map(({ n }) => n),
    [0, 1, 2, 4, 6, 10, 11],
  )
  t.same(reasons(), { mapping: 2, too_many_fields: 1, too_many_shards: 1, status_404: 1 })
  t.equal(bulks(to).length, 1, 'nothing is sent again')
  const said = valuesOf(made.logs, 'error').join('\n')
  t.match(said, /field \[n\] of 3; the mapping does not accept a field/)
  t.match(said, /1000\] has been exceeded; .*total_fields\.limit/)
  t.match(said, /a_new_exception: who knows/)
})

/** What Elasticsearch 7.17.29 and OpenSearch 2.19.3 say. */
const REFUSALS: [reason: string, type: string, said: string, cause: string, advice: RegExp][] = [
  [
    'no_write_index',
    'illegal_argument_exception',
    'no write index is defined for alias [logs]. The write index may be explicitly disabled using is_write_index=false or the alias points to multiple indices without one being designated as a write index',
    '',
    /set is_write_index: true on one of them/,
  ],
  [
    'field_name',
    'mapper_parsing_exception',
    'failed to parse',
    'field name cannot be an empty string',
    /rename or remove the field/,
  ],
  [
    'field_name',
    'mapper_parsing_exception',
    'failed to parse',
    'object field starting or ending with a [.] makes object resolution ambiguous: [.a]',
    /rename or remove the field/,
  ],
  [
    'field_name',
    'mapper_parsing_exception',
    "failed to parse field [_id] of type [_id] in document with id 'a'. Preview of field's value: 'x'",
    'Field [_id] is a metadata field and cannot be added inside a document. Use the index API request parameters.',
    /rename or remove the field/,
  ],
  [
    'too_many_fields',
    'illegal_argument_exception',
    'Limit of mapping depth [20] has been exceeded due to object field [x.x]',
    '',
    /remove fields/,
  ],
  [
    'mapping',
    'mapper_parsing_exception',
    'object mapping for [d] tried to parse field [d] as object, but found a concrete value',
    '',
    /change the mapping/,
  ],
  [
    'mapping',
    'strict_dynamic_mapping_exception',
    'mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed',
    '',
    /change the mapping/,
  ],
  [
    'index_name',
    'invalid_index_name_exception',
    'Invalid index name [Upper], must be lowercase',
    '',
    /correct "index"/,
  ],
]

t.test('each refusal has a reason and an advice of its own', async t => {
  for (const [reason, type, said, cause, advice] of REFUSALS) {
    const error = { type, reason: said, ...(cause && { caused_by: { reason: cause } }) }
    const { put, reasons, made } = await fakeElasticsearch(t, ({ n }) => (n === 1 ? { status: 400, error } : undefined))
    t.equal(await put(numbered(3)), 'rejected', said)
    t.same(reasons(), { [reason]: 1 }, said)
    t.match(valuesOf(made.logs, 'error').join('\n'), advice, said)
  }
})

t.test('of a name that an object has twice, the last value is stored', async t => {
  const twice = '{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}'
  const error = {
    type: 'mapper_parsing_exception',
    reason: 'failed to parse',
    caused_by: { reason: "Duplicate field 'a'\n at [Source: (ByteArrayInputStream); line: 1, column: 11]" },
  }
  const { to, stored, put, reasons } = await fakeElasticsearch(t, () => undefined)
  const stores = to.otherwise as (received: Received) => Answer
  to.otherwise = received => {
    const { items } = JSON.parse(stores(received).body!) as { items: object[] }
    const documents = received.body.split('\n').filter((_, n) => n % 2 === 1)
    for (const [n, document] of documents.entries())
      if (/"a".*"a"|"d".*"d"/.test(document)) {
        items[n] = { create: { status: 400, error } }
        stored.delete(pairsOf(received)[n]![0].create!._id)
      }
    return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ items }) }
  }
  t.equal(await put([twice, '{"n":1}', twice]), 'delivered')
  t.equal(await put([twice]), 'delivered')
  t.same(reasons(), {})
  t.match(
    [...stored.values()].filter(({ n }) => n === undefined),
    Array.from({ length: 2 }, () => ({ a: 3, b: { c: [{ d: 2 }] } })),
  )
  t.equal(bulks(to).length, 3, 'only the first request is repeated')
  // The answer of Elasticsearch 8.18 and 9 to a request with a pipeline.
  const whole = await fakeElasticsearch(t, () => undefined)
  const storesAll = whole.to.otherwise as (received: Received) => Answer
  whole.to.otherwise = received =>
    /"a".*"a"/.test(received.body)
      ? { status: 400, body: `{"error":{"type":"x_content_parse_exception","reason":"Duplicate field 'a'"}}` }
      : storesAll(received)
  t.equal(await whole.put([twice]), 'delivered')
})

t.test('what was stored before is delivered, and what the cluster has no room for is sent again', async t => {
  let busy = 2
  const { stored, put, reasons, to } = await fakeElasticsearch(t, ({ n }) =>
    n === 1 && busy-- > 0
      ? { status: 429, error: { type: 'es_rejected_execution_exception', reason: 'queue' } }
      : undefined,
  )
  t.equal(await put(numbered(3)), 'delivered')
  t.same(
    bulks(to).map(request => pairsOf(request).map(([, { n }]) => n)),
    [[0, 1, 2], [1], [1]],
  )
  t.equal(await put(numbered(3)), 'delivered', 'the same again')
  t.equal(stored.size, 3)
  t.same(reasons(), {})
})

t.test('a document in the failure store is counted, and said once', async t => {
  const { put, made } = await fakeElasticsearch(t, ({ n }) =>
    n === 1 ? { status: 201, failure_store: 'used' } : undefined,
  )
  t.equal(await put(numbered(3)), 'delivered')
  await put(numbered(3))
  t.equal(made.counters.counter('sluice_elasticsearch_failure_store_events_total', '').value, 2)
  t.equal(made.logs.filter(({ msg }) => msg.includes('failure store')).length, 1)
})

t.test('an answer that does not list all events delivers nothing', async t => {
  const to = await receiver(t)
  const { destination } = await started(t, { url: to.url(''), index: 'logs' }, elasticsearch)
  const one = '{"create":{"status":201}}'
  const answers: [type: string, body: string][] = [
    ['application/json', '{"errors":false}'],
    ['application/json', `{"errors":false,"items":[${one}]}`],
    ['application/json', `{"errors":false,"items":[${one},{}]}`],
    ['application/json', `{"items":[${`${one},`.repeat(10_000)}${one}]}`],
    ['application/json', `{"errors":false,"items":[${one},{"create":{"status":20`],
    ['application/json', '['.repeat(1_000_000)],
    ['application/json', `{"items":[${'[],'.repeat(333_000)}[]]}`],
    ['text/html', '<h1>Please log in</h1>'],
    ['text/plain', ''],
  ]
  const longest = longestParsed(t)
  for (const [type, body] of answers) {
    to.script.push({ status: 200, headers: { 'content-type': type }, body })
    const error = await failure(destination.write([sent(numbered(2))], never))
    t.match(error, { failure: 'hold', reason: 'no_answer', message: /right address/ }, body)
  }
  t.ok(longest() < 1_000_000, 'answers with too many values or levels are not parsed')
  to.script.push({ status: 200, body: `{"items":[${one},${one}]}` })
  await destination.write([sent(numbered(2))], never)
})

t.test('what waits beside what is refused has its own reason and status', async t => {
  const FULL = { type: 'es_rejected_execution_exception', reason: 'the queue is full' }
  const MAPPING = { type: 'mapper_parsing_exception', reason: 'failed to parse' }
  let isFull = true
  const { put, reasons, made, stored } = await fakeElasticsearch(t, ({ n }) => {
    if (n === 0) return { status: 400, error: MAPPING }
    return isFull ? { status: 429, error: FULL } : undefined
  })
  const isPut = put(numbered(3))
  const retried = () => made.logs.find(({ msg }) => msg.startsWith('delivery failed; retrying'))
  t.match(await until(retried), {
    reason: 'status_429',
    status: 429,
    error: /the queue is full; the cluster is overloaded/,
  })
  isFull = false
  t.equal(await isPut, 'rejected')
  t.same(reasons(), { mapping: 1 })
  t.match(
    made.logs.find(({ msg }) => msg === 'the destination rejected events'),
    { status: 400, error: /failed to parse; the mapping/ },
  )
  t.equal(stored.size, 2)
})

t.test('an index without rights pauses the destination, unless an event has named it', async t => {
  const error = { type: 'security_exception', reason: 'action [indices:data/write/bulk] is unauthorized' }
  const refuse = ({ n }: Document) => (n === 1 ? { status: 403, error } : undefined)
  const named = await fakeElasticsearch(t, refuse, 'logs-${.n}')
  t.equal(await named.put(numbered(3)), 'rejected')
  t.same(named.reasons(), { forbidden: 1 })
  t.equal(named.stored.size, 2)
  const fixed = await fakeElasticsearch(t, refuse)
  void fixed.put(numbered(3))
  const held = await until(() => fixed.made.logs.find(({ msg }) => msg.startsWith('the destination is paused')))
  t.match(held, { reason: 'status_403', error: /is unauthorized; the key needs the privileges/ })
  t.same(fixed.reasons(), {})
})

t.test('what the server says about itself and the index', async t => {
  const version = (more: object) => ({ version: { number: '2.19.3', ...more } })
  const listed = (kind: string) => ({ indices: [], aliases: [], data_streams: [], [kind]: [{ name: 'logs' }] })
  const logged: [mode: string, answers: unknown[], messages: object[]][] = [
    ['index', [version({ distribution: 'opensearch' }), listed('indices')], [{ server: 'OpenSearch 2.19.3' }]],
    ['data_stream', [version({}), listed('data_streams')], [{ server: 'Elasticsearch 2.19.3' }]],
    ['data_stream', [version({}), listed('aliases')], [{ server: /^E/ }]],
    ['data_stream', [version({}), listed('indices')], [{ server: /^E/ }, { problem: /set mode: index/, level: 40 }]],
    ['index', [version({}), listed('data_streams')], [{ server: /^E/ }, { problem: /set mode: data_stream/ }]],
    ['index', [403], []],
    ['index', ['<h1>'], []],
    ['index', [version({ number: 'x'.repeat(100) })], []],
    ['index', [version({}), 'x'.repeat(200_000)], [{ server: /^E/ }]],
  ]
  for (const [mode, answers, messages] of logged) {
    const to = await receiver(t)
    to.script.push(...answers.map(body => (typeof body === 'number' ? body : { body: JSON.stringify(body) })))
    const { logs } = await started(t, { url: to.url(''), index: 'logs', mode }, elasticsearch)
    t.equal(logs.length, messages.length)
    t.match(logs, messages)
    t.match(
      to.requests.map(({ method, path }) => `${method} ${path}`),
      ['GET /', 'GET /_resolve/index/logs'].slice(0, to.requests.length),
    )
  }
  const aliases: [of: Record<string, boolean | undefined>, isWritable: boolean][] = [
    [{ one: undefined }, true],
    [{ one: false }, false],
    [{ one: undefined, two: undefined }, false],
    [{ one: false, two: true }, true],
  ]
  for (const [of, isWritable] of aliases) {
    const to = await receiver(t)
    const flags = Object.entries(of).map(([index, is_write_index]) => [
      index,
      { aliases: { logs: { is_write_index } } },
    ])
    const answers = [version({}), listed('aliases'), Object.fromEntries(flags)]
    to.script.push(...answers.map(body => ({ body: JSON.stringify(body) })))
    const { logs } = await started(t, { url: to.url(''), index: 'logs' }, elasticsearch)
    t.equal(to.requests.at(-1)!.path, '/_alias/logs')
    t.equal(
      logs.some(({ problem }) => String(problem).includes('no write index')),
      !isWritable,
      JSON.stringify(of),
    )
  }
  const silent = await receiver(t)
  silent.script.push({ reset: 'before_body' })
  t.same((await started(t, { url: silent.url(''), index: 'logs' }, elasticsearch)).logs, [])
})

for (const version of ['8.19.8', '9.2.2'])
  t.test(`Elasticsearch ${version}: an API key, a data stream and its failure store`, async t => {
    const to = await receiver(t)
    const server = new Elasticsearch(version)
    to.otherwise = server.answer
    const folder = testFolder(t, { key: 'aWQ6d3Jvbmc=' })
    const options = {
      url: to.url(''),
      index: STREAM,
      mode: 'data_stream',
      pipeline: '${.pipe}',
      auth: { type: 'api_key', key_file: join(folder, 'key') },
    }
    const made = await make(options, elasticsearch)
    const { delivery, end } = deliver(folder, made, { batch: { max_wait: '5ms' } })
    await delivery.start()
    let done = 0
    const put = (lines: readonly string[]) => delivery.write(sent(lines, json, () => done++))
    const reasons = () =>
      Object.fromEntries([...made.counters.discards].map(([reason, { events }]) => [reason, events]))

    put(numbered(3))
    await until('it is paused', () => delivery.state === 'holding')
    t.match(delivery.reason, /401 .*unable to authenticate.*the access key was refused: put another in .*key/)
    writeFileSync(options.auth.key_file, server.key)
    await until('all are stored', () => done === 1)
    const parsed = elasticsearch.options.parse(options)
    const checked = await (await elasticsearch.inspects!()).check!(parsed, made.context, never)
    t.equal(checked, `accepts requests; Elasticsearch ${version}`)

    put(['{"n":3}', '{"n":4,"odd":"x"}'])
    await until('one is in the failure store', () => done === 2)
    t.match(server.failures, [{ n: 4 }])
    t.equal(made.counters.counter('sluice_elasticsearch_failure_store_events_total', '').value, 1)
    for (const state of ['not_enabled', 'failed'] as const) {
      server.failureStore = state
      put(['{"n":5,"odd":"x"}', '{"n":6}'])
      await until('one is refused', () => reasons().mapping === (state === 'failed' ? 2 : 1))
    }

    server.failsWhole = true
    put(['{"n":7,"pipe":"geo"}', '{"n":8,"pipe":"geo","odd":"x"}', '{"n":9}', '{"n":10}'])
    await until('the others are stored', () => done === 5)
    t.same(reasons(), { mapping: 2, status_400: 1 })
    const numbers = [...server.stored.values()].map(({ n }) => n)
    t.same(new Set(numbers), new Set([0, 1, 2, 3, 6, 7, 9, 10]))
    await end()
    t.notMatch(JSON.stringify(made.logs), new RegExp(server.key))
  })

t.test('options that cannot work are refused', async t => {
  const problem = (more: object) =>
    elasticsearch.options.safeParse({ url: 'http://127.0.0.1:9200', index: 'a', ...more }).error?.issues[0]?.message
  t.equal(problem({}), undefined)
  t.equal(problem({ mode: 'data_stream' }), undefined)
  t.match(problem({ index: '${.app}' }), /never be empty/)
  t.equal(elasticsearch.options.parse({ url: 'http://[::1]:9200/a/_bulk/', index: 'a' }).url, 'http://[::1]:9200/a')
  for (const index of ['a b', 'logs/${.app}', 'a,b', '*', '_all', '-${.app}'])
    t.match(problem({ index }), /must not contain/, index)
  for (const index of ['<logs-{now/d}-${.app}>', 'logs-${.app}-x', '${.app:-none}', '.hidden'])
    t.equal(problem({ index }), undefined, index)
  t.match(problem({ auth: { type: 'api_key', key: 'id:key' } }), /expects both in base64/)
  t.notMatch(problem({ auth: { type: 'api_key', key: 'id:hunter2' } }), /hunter2/)
  t.match(problem({ mode: 'data_stream', action: 'index' }), /does not accept updates/)
  const checks = await elasticsearch.checks!()
  const warnings = async (index: string) => {
    const options = elasticsearch.options.parse({ url: 'http://10.0.0.1:9200', index, auth: { key: 'a' } })
    return (await checks.warnings!(options, [])).map(({ message }) => message)
  }
  t.match(await warnings('Logs-%Y-${.app}'), [/without encryption/, /must be lower case/])
  t.match(await warnings('logs-%Y.%m.%d-%F-%H-%M'), [/without encryption/])
  t.match(await warnings('<logs-{now/M{yyyy.MM}}>'), [/without encryption/])
})

t.test('a destination that refuses each event of all its requests is paused', async t => {
  const error = { type: 'illegal_argument_exception', reason: 'only write ops with an op_type of create are allowed' }
  const { to, made, put } = await fakeElasticsearch(t, () => ({ status: 400, error }))
  for (let requests = 1; requests < 5; requests++) t.equal(await put(numbered(2)), 'rejected')
  void put(numbered(2))
  await until('it is paused', () => made.logs.some(({ error }) => /5 consecutive requests/.test(String(error))))
  t.ok(bulks(to).length >= 5)
})
