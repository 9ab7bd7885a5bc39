import t, { type Test } from 'tap'
import { loki } from '../../../../src/components/loki/destination.js'
import { PushRequest } from '../../../../src/components/loki/push-request.js'
import type { ComponentContext } from '../../../../src/core/component.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { FieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { batchesOf } from '../../../support/batches.js'
import { deliver, failure, json, make, never, receiver, started } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { messageOf } from '../../../support/protobuf-messages.js'
import type { Answer, Received } from '../../../support/receiver.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

type Value = [nanos: string, line: string, metadata?: Record<string, string>]
interface Push {
  readonly streams: { readonly stream: Record<string, string>; readonly values: Value[] }[]
}

const pushOf = ({ body }: Received) => JSON.parse(body) as Push

/** A batch as a source sends it. */
function sent(lines: readonly string[], origin = json, onSettled?: (status: AckStatus) => void) {
  const [batch] = batchesOf(lines.map(line => `${line}\n`).join(''), origin, onSettled)
  batch!.sentOffsets = new SentOffsets(batch!.starts[0]!)
  return batch!
}

/** Takes everything. */
async function taker(t: Test) {
  const to = await receiver(t)
  to.otherwise = 204
  return to
}

t.test('the body of a request', async t => {
  const to = await taker(t)
  const { destination } = await started(
    t,
    {
      url: to.url('/prefix/'),
      compression: 'gzip',
      labels: { job: 'sluice', app: '${.app:-none}', level: '${.level}' },
      structured_metadata: { trace: '${.trace}' },
      tenant: '${.team:-shared}',
      headers: { 'X-Other': '1' },
    },
    loki,
  )
  const lines = [
    '{"app":"a","level":"warn","timestamp":"2026-01-02T03:04:05.123456789Z"}',
    '{"app":"a","level":"warn","timestamp":"2026-01-02T03:04:05.1234567891+01:00","trace":"t\\"1"}',
    '{"timestamp":1767323045,"text":"é"}',
  ]
  await destination.write(
    [sent(lines)],
    never,
    `{}\n${JSON.stringify([`${to.url('/prefix')}/loki/api/v1/push`, 'shared'])}`,
  )
  const [request] = to.requests
  t.match(request, { method: 'POST', path: '/prefix/loki/api/v1/push' })
  t.match(request!.headers, {
    'x-scope-orgid': 'shared',
    'x-other': '1',
    'content-type': 'application/json',
    'content-encoding': 'gzip',
  })
  const { streams } = pushOf(request!)
  t.match(streams, [
    {
      stream: { job: 'sluice', app: 'a', level: 'warn' },
      values: [
        ['1767323045123456789', lines[0]],
        ['1767319445123456789', lines[1], { trace: 't"1' }],
      ],
    },
    { stream: { job: 'sluice', app: 'none' }, values: [[/^1767323045\d{9}$/, lines[2]]] },
  ])
  t.notOk('level' in streams[1]!.stream, 'an empty label is left out')
})

t.test('times of any notation, and of events without one', async t => {
  const to = await taker(t)
  const { destination } = await started(
    t,
    { url: to.url(''), compression: 'gzip', labels: { job: 'a' }, timestamp: '.t' },
    loki,
  )
  const times: [json: string, nanos: RegExp][] = [
    ['"2026-01-02T03:04:05Z"', /^1767323045\d{9}$/],
    ['"2026-01-02T03:04:05.5+00:00"', /^17673230455\d{8}$/],
    ['"2026-01-02 03:04:05,123Z"', /^1767323045123\d{6}$/],
    ['"2026-01-02 03:04:05.123456"', /^1767323045123456\d{3}$/],
    ['"2026-01-02T03:04:05.1234567"', /^17673230451234567\d{2}$/],
    ['"2026-01-02T04:04:05,123456789+0100"', /^1767323045123456789$/],
    ['"20260102T030405.123456Z"', /^1767323045123456\d{3}$/],
    ['"2026-01-02T03:03:60Z"', /^1767323040\d{9}$/],
    ['"2026-01-02T03:04.5Z"', /^(?!1767)\d{19}$/],
    ['1767323045.123456789', /^1767323045123456789$/],
    ['1767323045123456789', /^1767323045123456789$/],
    ['1.7e9', /^1700000000\d{9}$/],
    ['1767323045.25', /^176732304525\d{7}$/],
    ['"1767323045123"', /^1767323045123\d{6}$/],
    ['1767323045123456', /^1767323045123456\d{3}$/],
    ['"1767323045123456789"', /^1767323045123456789$/],
    ['"1969-12-31T23:59:59.5Z"', /^-\d{9}$/],
    ['"1969-12-31 23:59:59,5Z"', /^-\d{9}$/],
    ['"soon"', /^\d{19}$/],
    ['null', /^\d{19}$/],
  ]
  await destination.write([sent(times.map(([t]) => `{"t":${t}}`))], never)
  const [{ values }] = pushOf(to.requests[0]!).streams as [Push['streams'][0]]
  for (const [i, [text, nanos]] of times.entries()) t.match(values[i]![0], nanos, text)
})

t.test('equal lines of one millisecond get different times, the same ones in each request', async t => {
  const to = await taker(t)
  const { destination } = await started(t, { url: to.url(''), compression: 'gzip', labels: { job: 'a' } }, loki)
  const line = '{"timestamp":"2026-01-02T03:04:05.123Z","message":"the same"}'
  const batch = sent(Array.from({ length: 10_000 }, () => line))
  await destination.write([batch], never)
  await destination.write([batch.snapshot(5000, 10_000)], never)
  const [all, half] = to.requests.map(request => pushOf(request).streams[0]!.values.map(([nanos]) => nanos))
  t.equal(new Set(all).size, 10_000)
  t.same(half, all!.slice(5000))
  const other = sent([line])
  other.sentOffsets = new SentOffsets(other.starts[0]!, { reading: '0123456789abcdef', at: 0 })
  await destination.write([other], never)
  t.not(pushOf(to.requests[2]!).streams[0]!.values[0]![0], all![0], 'an equal line of another file')
})

t.test('streams beyond the bound share one, and are counted', async t => {
  const to = await taker(t)
  const options = { url: to.url(''), compression: 'gzip', labels: { job: 'a', app: '${.app}' }, max_streams: 2 }
  const { destination, counters } = await started(t, options, loki)
  await destination.write([sent(['a', 'b', 'c', 'd', 'a'].map(app => `{"app":"${app}"}`))], never)
  const { streams } = pushOf(to.requests[0]!)
  t.same(
    streams.map(({ stream, values }) => [stream.app, values.length]),
    [
      ['a', 2],
      ['b', 1],
      ['other', 2],
    ],
  )
  t.equal(counters.counter('sluice_loki_other_stream_events_total', '').value, 2)
})

t.test('an event without labels gets the label that Loki itself gives, counted and logged once', async t => {
  const to = await taker(t)
  for (const compression of ['gzip', 'snappy']) {
    // The URL of the examples of Promtail and the Collector.
    const options = { url: to.url('/loki/api/v1/push'), compression, labels: { app: '${.app}' } }
    const { destination, counters, logs } = await started(t, options, loki)
    const batch = sent(['{"app":"a"}', '{"n":1}', '{"app":""}'])
    const unlabeled = '{"service_name":"unknown_service"}'
    t.same(
      [0, 1, 2].map(i => destination.partitionOf?.(batch, i)),
      [`{"app":"a"}\n`, `${unlabeled}\n`, `${unlabeled}\n`],
    )
    await destination.write([batch], never, `${unlabeled}\n`)
    const { path, body } = to.requests.at(-1)!
    t.equal(path, '/loki/api/v1/push')
    if (compression === 'gzip') t.match(body, `{"stream":${unlabeled}`)
    else t.match(body, '{service_name="unknown_')
    t.equal(counters.counter('sluice_loki_unlabeled_events_total', '').value, 2)
    t.equal(logs.filter(({ code }) => code === 'SLUICE_LOKI_UNLABELED').length, 1)
  }
})

t.test('an event whose labels are too long to be kept is a dead letter', async t => {
  const { put, reasons, stored, end } = await fakeLoki(t, () => undefined)
  const lines = ['a', 'x'.repeat(20_000), 'b'].map((app, n) => event(app, n))
  t.equal(await put(lines), 'rejected')
  t.same(stored.sort(), [lines[0], lines[2]])
  t.same(reasons(), { labels: 1 })
  await end()
})

t.test('by default, protobuf has the same as JSON', t => {
  const options = loki.options.parse({
    url: 'http://127.0.0.1',
    labels: { job: 'sluice', app: '${.app}' },
    structured_metadata: { trace: '${.trace}', host: 'h' },
    timestamp: '.t',
  })
  const context = {
    clock: { now: () => 0 },
    metrics: new ComponentCounters('out', 'destination', 'loki'),
    field: (path: FieldPath) => new FieldReader(path, json.wanted),
  } as unknown as ComponentContext
  const app = '"app":"a\\ud800\\"\\u0001é"'
  const lines = [
    `{${app},"t":"2026-01-02T03:04:05.123456789Z","trace":"t\\"1"}`,
    `{${app},"t":"1969-12-31T23:59:59.500000000Z"}`,
    `{${app},"t":"1969-12-31T23:59:58.000000000Z","text":"${'x'.repeat(20_000)}"}`,
    `{${app},"t":"2262-01-01T00:00:00.000000001Z"}`,
    `{${app},"t":"2300-01-01T00:00:00Z"}`,
    `{${app},"t":"1600-01-01T00:00:00Z"}`,
  ]
  const batch = sent(lines)
  const bytes = Buffer.concat(new PushRequest(options, context).encode([batch]).parts)
  const asJson = Buffer.concat(new PushRequest({ ...options, compression: 'none' }, context).encode([batch]).parts)
  const { streams } = messageOf(bytes, 'push') as {
    streams: {
      labels: string
      entries: {
        timestamp: { seconds: string; nanos: number }
        line: string
        metadata: { name: string; value: string }[]
      }[]
    }[]
  }
  const [stream] = streams
  t.equal(streams.length, 1)
  t.equal(stream!.labels, '{job="sluice", app="a\ufffd\\"\\u0001é"}')
  const [{ values }] = (JSON.parse(asJson.toString()) as Push).streams as [Push['streams'][0]]
  const seen = stream!.entries.map(
    ({ timestamp: { seconds, nanos }, line, metadata }): Value => [
      String(BigInt(seconds) * 10n ** 9n + BigInt(nanos)),
      line,
      Object.fromEntries(metadata.map(({ name, value }) => [name, value])),
    ],
  )
  t.same(seen.slice(0, 4), values.slice(0, 4))
  t.same(
    seen.map(([, line]) => line),
    lines,
  )
  t.same(
    seen.slice(4).map(([nanos]) => nanos),
    Array(2).fill(String(2n ** 40n * 10n ** 9n)),
    'times that Loki refuses',
  )
  t.end()
})

t.test('a stream that was not used for an hour makes room', t => {
  const clock = { now: () => ms }
  let ms = 0
  const wanted = json.wanted
  const options = loki.options.parse({ url: 'http://127.0.0.1', labels: { app: '${.app}-' }, max_streams: 1 })
  const metrics = new ComponentCounters('out', 'destination', 'loki')
  const field = (path: FieldPath) => new FieldReader(path, wanted)
  const push = new PushRequest(options, { clock, metrics, field } as unknown as ComponentContext)
  const labelsOf = (app: string) => push.labelsOf(sent([`{"app":"${app}"}`]), 0)
  t.equal(labelsOf('a'), '{"app":"a-"}')
  t.equal(labelsOf('b'), '{"app":"other"}')
  ms += 3_600_001
  t.equal(labelsOf('b'), '{"app":"b-"}')
  t.equal(labelsOf('a'), '{"app":"other"}')
  t.end()
})

/**
 * Answers as Loki 3.7.8 does: it stores what it takes, once, and of several streams in a request it reports only what it
 * refuses in the last one. `refuse` says why.
 */
async function fakeLoki(t: Test, refuse: (line: string, app: string) => string | undefined) {
  const to = await receiver(t)
  const stored: string[] = []
  const seen = new Set<string>()
  to.otherwise = received => {
    let body = ''
    for (const { stream, values } of pushOf(received).streams) {
      const { app = '' } = stream
      const why = values.map(([, line]) => refuse(line, app)).filter(reason => reason !== undefined)
      for (const [nanos, line] of values)
        if (refuse(line, app) === undefined && !seen.has(`${app} ${nanos} ${line}`)) {
          seen.add(`${app} ${nanos} ${line}`)
          stored.push(line)
        }
      body =
        why.length === 0
          ? ''
          : `entry with timestamp 2026-01-02 ignored, reason: '${why[0]}',\nuser 'fake', total ignored: ${why.length} out of ${values.length} for stream: {app="${app}", service_name="${app}"}`
    }
    return body === '' ? 204 : { status: 400, body }
  }
  const folder = testFolder(t)
  const made = await make({ url: to.url(''), compression: 'gzip', labels: { app: '${.app:-none}' } }, loki)
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
  return { to, stored, put, end, reasons, logs: made.logs }
}

const event = (app: string, n: number, at = '2026-01-02T03:04:05.123Z', more = '') =>
  `{"app":"${app}","n":${n},"timestamp":"${at}","more":"${more}"}`

t.test('of what Loki refuses, each event is found, and no other is lost or stored twice', async t => {
  const OLD = '2026-01-01T00:00:00Z'
  const FAR = '9999-12-31T23:59:59Z'
  const cases: [name: string, refuse: Parameters<typeof fakeLoki>[1], reason: string][] = [
    [
      'those too far behind in their stream',
      (line, app) =>
        app === 'b' && line.includes(OLD)
          ? 'entry too far behind, entry timestamp is: 2026-01-01T00:00:00Z, oldest acceptable timestamp is: 2026-01-02T02:04:05Z'
          : undefined,
      'too_far_behind',
    ],
    [
      'those too old',
      line =>
        line.includes(OLD)
          ? "entry for stream '{}' has timestamp too old: 2026-01-01T00:00:00Z, oldest acceptable timestamp is: 2026-01-02T00:00:00Z"
          : undefined,
      'too_old',
    ],
    [
      'those too long',
      line =>
        line.length > 200
          ? `1 errors like: max entry size '200' bytes exceeded for stream '{}' while adding an entry with length '${line.length}' bytes; 1 errors like: entry for stream '{}' has timestamp too new: 2026-01-03T00:00:00Z`
          : undefined,
      'too_long',
    ],
    [
      'those whose time it does not have',
      line => (line.includes(FAR) ? "readObject: can't find closing, error found in #10 byte of ...|x|..." : undefined),
      'no_time',
    ],
    ['those that it says nothing about', line => (/"n":(3|17),/.test(line) ? 'it is cursed' : undefined), 'status_400'],
  ]
  for (const [name, refuse, reason] of cases)
    await t.test(name, async t => {
      const { stored, put, reasons, logs } = await fakeLoki(t, refuse)
      const lines = Array.from({ length: 30 }, (_, n) =>
        event(
          'abc'[n % 3]!,
          n,
          n % 7 === 0 ? OLD : n % 13 === 0 ? FAR : undefined,
          n % 11 === 0 ? 'x'.repeat(300) : '',
        ),
      )
      const app = (line: string) => (JSON.parse(line) as { app: string }).app
      const [good, bad] = [true, false].map(is => lines.filter(line => (refuse(line, app(line)) === undefined) === is))
      t.equal(await put(lines), 'rejected', 'one was refused, and is a dead letter')
      t.same(stored.sort(), good!.sort())
      t.same(reasons(), { [reason]: bad!.length })
      if (reason !== 'status_400') t.match(valuesOf(logs, 'error').join(), /Loki/, 'with what to do about it')
    })
})

t.test('a request is not divided where its stream or its tenant is the cause', async t => {
  const to = await receiver(t)
  const { destination } = await started(t, { url: to.url(''), compression: 'gzip', labels: { app: '${.app}-' } }, loki)
  const cases: [reason: string, body: string][] = [
    ['labels', `stream '{app="${'x'.repeat(10_000)}"}' has label value too long: '${'x'.repeat(10_000)}'`],
    ['labels', "couldn't parse labels: 1:6: parse error: invalid UTF-8 rune"],
    ['tenant', "tenant ID 'a/b' contains unsupported character '/'"],
    ['tenant', 'multiple org IDs present'],
  ]
  for (const [reason, body] of cases) {
    to.script.push({ status: 400, body })
    const error = await failure(destination.write([sent([event('a', 1), event('a', 2)])], never))
    t.match(error, { failure: 'reject', reason, groups: undefined, message: /; .*correct "/i })
    t.ok(error.message.length < 1000)
  }
})

t.test('a limit of one stream is waited for by that stream alone', async t => {
  const { to, stored, put, end } = await fakeLoki(t, () => undefined)
  const stores = to.otherwise as (received: Received) => Answer
  let isLimited = true
  const said = 'Per stream rate limit exceeded (limit: 1KB/sec) while attempting to ingest for stream \'{app="a"}\''
  to.otherwise = received => {
    const [{ stream, values }] = pushOf(received).streams as [Push['streams'][0]]
    const bytes = values.reduce((sum, [, line]) => sum + Buffer.byteLength(line), 0)
    // As Loki: what is larger than its limit never passes.
    return stream.app === 'a' && (isLimited || bytes > 1024) ? { status: 429, body: said } : stores(received)
  }
  const lines = Array.from({ length: 40 }, (_, n) => event('ab'[n % 2]!, n))
  const put40 = put(lines)
  await until('the other stream is stored', () => stored.length === 20)
  t.notOk(stored.some(line => line.includes('"app":"a"')))
  isLimited = false
  t.equal(await put40, 'delivered')
  t.same(stored.sort(), lines.sort())
  await end()
})

t.test('limits of Loki are waited for, and said with what to do', async t => {
  const to = await receiver(t)
  const { destination } = await started(t, { url: to.url(''), compression: 'gzip', labels: { app: '${.app}-' } }, loki)
  const cases: [status: number, body: string, expected: object][] = [
    [
      429,
      'Ingestion rate limit exceeded for user fake (limit: 4 bytes/sec)',
      { failure: 'retry', message: /ingestion_rate_mb/ },
    ],
    [
      429,
      'Per stream rate limit exceeded (limit: 3MB/sec)',
      { failure: 'retry', reason: 'per_stream_rate_limit', message: /per_stream_rate_limit/ },
    ],
    [429, 'maximum active stream limit exceeded', { failure: 'retry', message: /fewer values/ }],
    [260, "ingestion blocked for user 'fake' until '2030-01-01T00:00:00Z'", { failure: 'retry', message: /block_/ }],
    [200, '<h1>Please log in</h1>', { failure: 'hold', reason: 'no_answer', message: /right address/ }],
    [200, '<p>entry too far behind</p>', { failure: 'hold', reason: 'no_answer' }],
    [202, '', { failure: 'hold', reason: 'no_answer' }],
    [400, 'Content-Encoding "zstd" not supported', { failure: 'hold', message: /gzip/ }],
    [401, 'no org id', { failure: 'hold', message: /set "tenant"/ }],
    [500, 'at least 1 live replicas required', { failure: 'retry' }],
  ]
  for (const [status, body, expected] of cases) {
    to.script.push({ status, body })
    t.match(await failure(destination.write([sent([event('a', 1)])], never)), { status, ...expected }, body)
  }
})

t.test('options that cannot work are refused', async t => {
  const problem = (more: object) =>
    loki.options.safeParse({ url: 'http://127.0.0.1:3100', labels: { job: 'a' }, ...more }).error?.issues[0]?.message
  t.equal(problem({}), undefined)
  t.match(problem({ labels: {} }), /must have a label/)
  t.match(problem({ labels: { 'a-b': 'x' } }), /Invalid key/)
  t.match(problem({ tenant: 'a', headers: { 'X-Scope-OrgID': 'b' } }), /set by tenant/)
})
