import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { BucketKey } from '../../../../src/components/throttle/buckets/bucket-key.js'
import { EventKey } from '../../../../src/components/throttle/buckets/event-key.js'
import { createDecider } from '../../../../src/components/throttle/create-decider.js'
import { createClockDecider, type Decider } from '../../../../src/components/throttle/decider.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, PASS } from '../../../../src/components/throttle/decisions.js'
import type { WindowMode } from '../../../../src/components/throttle/limit.js'
import { compileBatchTest, compileCondition } from '../../../../src/core/condition/condition.js'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { GrowingBytes } from '../../../../src/lib/formats/growing-bytes.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { STOPPED_CLOCK } from '../../../support/manual-time.js'
import { seeded } from '../../../support/seeded.js'

/** A decider of the component's options, and the origin of the lines that it decides on. */
function deciderOf(config: Record<string, unknown>) {
  const origin = originOf('json')
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  return { origin, options: deciderOptions(throttle.options.parse(config), { field }) }
}

t.test('the name of a bucket is that of the last event, wherever its bytes lie', t => {
  const { origin, options } = deciderOf({ limit: 1, window: '1s', key_field: '.k' })
  const key = new EventKey(options.keyFields)
  const to = new GrowingBytes()
  for (const name of ['a', 'b']) {
    // Each is too long for the memory that small buffers share.
    const line = Buffer.alloc(10_000, ' ')
    line.write(JSON.stringify({ k: name }))
    key.load(batchesOf(line, origin)[0]!, 0)
    to.clear()
    key.writeName(to)
    t.equal(to.bytes.toString('latin1', 0, to.length), `"${name}"`)
  }
  t.end()
})

t.test('the page about the throttle shows the decisions of the worked case of the specification', async t => {
  const page = readFileSync(join(checkout, 'src/components/throttle/README.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `(\{.*\})` \| .* \| (\w+) \|$/gm)]
  const { origin, options } = deciderOf({
    limit: 1,
    window: '1s',
    key_field: '.app',
    exclude: "if (.host equal 'c')",
  })
  const { decisions } = createDecider(options, STOPPED_CLOCK).decide(
    batchesOf(rows.map(([, event]) => `${event}\n`).join(''), origin)[0]!,
  )
  t.same(
    rows.map(([, , decision]) => decision),
    Array.from({ length: 6 }, (_, i) => ['PASS', 'DISCARD', 'FULL', 'EXCLUDED'][decisions[i]!]),
  )
  t.same([...decisions.subarray(0, 6)], [PASS, DISCARD, PASS, EXCLUDED, DISCARD, DISCARD])
})

/** A JSON string that means `text`, each character written in one of the ways there are. */
function spell(text: string, random: () => number): string {
  const short: Record<string, string> = { '"': '\\"', '\\': '\\\\', '/': '\\/', '\n': '\\n', '\t': '\\t', '\b': '\\b' }
  const units = Array.from({ length: text.length }, (_, i) => {
    const unit = text[i]!
    const code = text.charCodeAt(i)
    const must = code < 0x20 || unit === '"' || unit === '\\' || (code >= 0xd800 && code < 0xe000)
    if (must || random() < 0.1) {
      const escaped = `\\u${code.toString(16).padStart(4, '0')}`
      return random() < 0.5
        ? (short[unit] ?? escaped)
        : random() < 0.5
          ? escaped
          : `\\u${escaped.slice(2).toUpperCase()}`
    }
    return unit
  })
  return `"${units.join('')}"`
}

const TEXTS = [
  ...['', ' ', 'a', 'A', 'ab', '1', '1.5', '-0', '0', '1e3', '1000', 'true', 'null', 'undefined', '[]', '{}', '[1,2]'],
  ...['{"a":1}', '__proto__', 'é', 'e\u0301', '\u0000', '\n', '\\n', '"', '/', '\ud83d\ude00', '\ud83d', '\ude00'],
  ...['\ufffd', '\ufffd\ufffd', '\u00ff', '\u00fe', 'x'.repeat(256), 'x'.repeat(257), `${'x'.repeat(256)}\ud800`],
  ...[`${'x'.repeat(256)}\ufffd`, 'é'.repeat(128), 'é'.repeat(129), '\ud83d'.repeat(200), '\ufffd'.repeat(200)],
  ...['x'.repeat(5000), `${'x'.repeat(5000)}y`],
]
const OTHERS = [
  ...[
    '0',
    '-0',
    '0.0',
    '0e5',
    '1',
    '1.0',
    '1e0',
    '10e-1',
    '1.5',
    '15E-1',
    '1000',
    '1e3',
    '1E+3',
    '9007199254740992',
    '9007199254740993',
  ],
  ...['123456789012345', '1234567890123456', '12345678901234567890', '1e21', '1e400', '-1', '-1.0', '1e-7', 'true'],
  ...['false', 'null', '[]', '[ ]', '{}', '{ }', '[1,2]', '[ 1 , 2 ]', '[2,1]', '{"a":1}', '{ "a" : 1.0 }'],
  ...['{"\\u0061":1}', '{"a":1,"a":1}', '[null]', '["é"]', '["\\u00e9"]', '["\\ud83d"]', '{"__proto__":1}'],
]

/** The text of a bucket. An integer that a double cannot hold keeps its digits. */
function textOf(json: string): string {
  const value = JSON.parse(json)
  if (typeof value === 'object' && value !== null) return JSON.stringify(value)
  return /^-?\d{16,}$/.test(json) && !Number.isSafeInteger(value) ? json : String(value ?? '')
}

t.test('two events share a bucket when the texts of their values are the same, however they are written', async t => {
  const random = seeded(2024)
  for (const [path, wrap] of [
    ['.k', (value: string) => `{"k":${value}}`],
    ['.a."x\\"y"', (value: string) => `{"k":1,"a" : {"z":[{}],"x\\"y": ${value} ,"b":2}, "c":3}`],
    ['.a[1].k', (value: string) => `{"a":[0,{"k":${value}}]}`],
  ] as const) {
    const { origin, options } = deciderOf({ limit: 1, window: '1h', key_field: path, window_mode: 'aligned' })
    const decider = createClockDecider(options, STOPPED_CLOCK)
    const seen = new Set<string>()
    const lines = Array.from({ length: 2000 }, () => {
      const value =
        random() < 0.6
          ? spell(TEXTS[Math.floor(random() ** 1.2 * TEXTS.length)]!, random)
          : OTHERS[Math.floor(random() * OTHERS.length)]!
      return [wrap(value), value] as const
    })
    for (const batch of batchesOf(lines.map(([line]) => `${line}\n`).join(''), origin, undefined)) {
      for (let i = 0; i < batch.length; i++) {
        const [line, written] = lines[i]!
        const text = textOf(written)
        const expected = seen.has(text) ? DISCARD : PASS
        seen.add(text)
        if (decider.decideOne(batch, i, 0) !== expected) t.fail(`${line.slice(0, 200)}: not ${expected}`)
        if (decider.byDefault !== (text === '')) t.fail(`${line.slice(0, 200)}: default bucket`)
      }
    }
    t.ok(seen.size > 55, `${path}: ${seen.size} texts`)
  }
})

t.test('with several fields the bucket is the JSON array of their texts, null where there is no value', async t => {
  const random = seeded(77)
  const paths = ['.a', '.b."c d"', '.d[0]']
  const { origin, options } = deciderOf({ limit: 1, window: '1h', key_field: paths, window_mode: 'aligned' })
  const decider = createClockDecider(options, STOPPED_CLOCK)
  const key = new BucketKey(options.keyFields)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() ** 1.5 * from.length)]!
  const written = () =>
    random() < 0.3 ? undefined : random() < 0.6 ? spell(pick(TEXTS), random) : pick([...OTHERS, '"a,b"', '"a\\",\\"b"'])
  const lines = Array.from({ length: 5000 }, () => {
    const [a, b, d] = [written(), written(), written()]
    const members = [a && `"a":${a}`, b && `"b":{"c d": ${b}}`, d && `"d":[${d}]`].filter(Boolean)
    return { line: `{${members.join(',')}}`, values: [a, b, d] }
  })
  const seen = new Set<string>()
  let n = 0
  for (const batch of batchesOf(lines.map(({ line }) => `${line}\n`).join(''), origin, undefined)) {
    for (let i = 0; i < batch.length; i++, n++) {
      const { line, values } = lines[n]!
      const texts = values.map(value => {
        const text = textOf(value ?? 'null')
        return text === '' ? null : text
      })
      const none = texts.every(text => text === null)
      const bucket = none ? '' : JSON.stringify(texts)
      if (decider.decideOne(batch, i, 0) !== (seen.has(bucket) ? DISCARD : PASS))
        t.fail(`${line.slice(0, 200)}: bucket`)
      if (decider.byDefault !== none) t.fail(`${line.slice(0, 200)}: default bucket`)
      if (key.load(batch, i) === none) t.fail(`${line.slice(0, 200)}: no key`)
      if (!none && key.text() !== bucket) t.fail(`${key.text()} rather than ${bucket}`)
      seen.add(bucket)
    }
  }
  t.equal(n, lines.length)
  t.ok(seen.size > 500, `${seen.size} buckets`)
})

t.test('a list of one field is that field, and texts of lines are escaped as JSON', async t => {
  const one = deciderOf({ limit: 1, window: '1h', key_field: ['.k'] })
  const [batch] = batchesOf('{"k":"a"}\n', one.origin)
  const key = new BucketKey(one.options.keyFields)
  t.ok(key.load(batch!, 0))
  t.equal(key.text(), 'a')
  const origin = originOf('text', '/var/log/x')
  const fields = ['.message', '.file'].map(path => new FieldReader(parseFieldPath(path), origin.wanted))
  const [text] = batchesOf('say "no"\t\\\n', origin)
  const both = new BucketKey(fields)
  t.ok(both.load(text!, 0))
  t.equal(both.text(), JSON.stringify(['say "no"\t\\', '/var/log/x']))
})

t.test('nobody can know which keys have the same hash', async t => {
  const { origin, options } = deciderOf({ limit: 1, window: '1h', key_field: '.k' })
  t.not(deciderOf({ limit: 1, window: '1h' }).options.seed, options.seed)
  const [batch] = batchesOf('{"k":"a"}\n', origin)
  for (const Key of [BucketKey, EventKey]) {
    const keys = [new Key(options.keyFields), new Key(options.keyFields)]
    for (const key of keys) key.load(batch!, 0)
    t.not(keys[0]!.hash, keys[1]!.hash, Key.name)
  }
})

t.test('long keys cost no more than short ones', async t => {
  for (const key_field of ['.k', ['.k', '.none']]) {
    const { origin, options } = deciderOf({ limit: 1, window: '1h', key_field })
    const decider = createClockDecider(options, STOPPED_CLOCK)
    const lines = Array.from({ length: 300 }, (_, i) => `{"k":"${'x'.repeat(100_000)}${i}"}\n`)
    const [batch] = batchesOf(lines.join(''), origin)
    const { arrayBuffers } = process.memoryUsage()
    decider.decideAt(batch!, 0)
    t.equal(decider.counts[PASS], 300)
    t.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 1e6)
  }
})

t.test('a line that is no valid UTF-8 is read with replacement characters', async t => {
  const { origin, options } = deciderOf({ limit: 1, window: '1h', key_field: '.k' })
  const decider = createClockDecider(options, STOPPED_CLOCK)
  const raw = (...bytes: number[]) => Buffer.concat([Buffer.from('{"k":"'), Buffer.from(bytes), Buffer.from('"}\n')])
  const lines = [
    raw(0xff),
    raw(0xfe),
    raw(0xef, 0xbf, 0xbd),
    raw(0x61),
    raw(0xc3, 0xa9),
    raw(0xed, 0xa0, 0xbd),
    raw(0x61),
  ]
  const [batch] = batchesOf(Buffer.concat(lines), origin)
  t.same(
    lines.map((_, i) => decider.decideOne(batch!, i, 0)),
    [PASS, DISCARD, DISCARD, PASS, PASS, PASS, DISCARD],
  )
})

t.test('lines of text, and lines that are no JSON objects, have fields too', async t => {
  for (const decode of ['text', 'json'] as const) {
    const origin = originOf(decode, '/var/log/x')
    const of = (path: string) => new FieldReader(parseFieldPath(path), origin.wanted)
    const readers = {
      '.message': of('.message'),
      '.file': of('.file'),
      '.host': of('.host'),
      '.nothing': of('.nothing'),
    }
    const [batch] = batchesOf('one\ntwo\n[1]\none\r\n\n\xff\n\n', origin)
    const decisions = (keyField: FieldReader) => {
      const decider = createClockDecider(
        {
          limits: [{ limit: 1, windowMs: 1000, mode: 'fixed', unit: 'events' }],
          maxKeys: 10,
          seed: 1,
          onMaxKeys: 'pass',
          keyFields: [keyField],
        },
        STOPPED_CLOCK,
      )
      decider.decideAt(batch!, 0)
      return [...decider.decisions.subarray(0, batch!.length)]
    }
    const [P, D] = [PASS, DISCARD]
    t.same(decisions(readers['.message']), [P, P, P, D, P, P, D], 'empty lines have no value')
    for (const path of ['.file', '.host', '.nothing'] as const)
      t.same(decisions(readers[path]), [P, D, D, D, D, D, D], path)
  }
})

t.test('beyond max_keys', async t => {
  const [P, D, F, O] = [PASS, DISCARD, FULL, FAIL_OPEN]
  for (const [onMaxKeys, expected, byDefault] of [
    ['pass', [P, P, O, O, D, P, D, P], [0, 0, 0, 0, 0, 1, 1, 0]],
    ['discard', [P, P, F, F, D, P, D, P], [0, 0, 0, 0, 0, 1, 1, 0]],
    ['default_bucket', [P, P, P, D, D, D, D, P], [0, 0, 1, 1, 0, 1, 1, 0]],
  ] as const) {
    const { origin, options } = deciderOf({
      limit: 1,
      window: '1s',
      key_field: '.k',
      max_keys: 2,
      on_max_keys: onMaxKeys,
    })
    const decider = createClockDecider(options, STOPPED_CLOCK)
    const times = [0, 0, 0, 0, 0, 0, 0, 1000]
    const keys = ['a', 'b', 'c', 'd', 'a', '', '', 'c']
    const [batch] = batchesOf(keys.map(k => `{"k":"${k}"}\n`).join(''), origin)
    const got = times.map((now, i) => {
      decider.limiter.advance(now)
      return [decider.decideOne(batch!, i, now), Number(decider.byDefault)]
    })
    t.same(
      got,
      expected.map((decision, i) => [decision, byDefault[i]]),
      onMaxKeys,
    )
  }
})

t.test('a whole batch is decided at one time and counted by decision', async t => {
  const { origin, options } = deciderOf({ limit: 3, window: '1s', key_field: '.k', max_keys: 1 })
  const condition = parseCondition('if (.x exists)')
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  const exclude = Object.assign(compileCondition(condition, field), { all: compileBatchTest(condition, field) })
  const decider = createClockDecider({ ...options, exclude }, STOPPED_CLOCK)
  const lines = Array.from({ length: 5000 }, (_, i) =>
    i % 5 === 0 ? '{"x":0,"k":"a"}\n' : `{"k":"${i % 2 ? 'a' : 'b'}"}\n`,
  )
  const [batch] = batchesOf(lines.join(''), origin)
  decider.decideAt(batch!, 0)
  t.same([...decider.counts.subarray(0, 5)], [3, 1997, 0, 1000, 2000])
  t.ok(decider.decisions.length >= 5000)
  t.same([...decider.decisions.subarray(0, 6)], [EXCLUDED, PASS, FAIL_OPEN, PASS, FAIL_OPEN, EXCLUDED])
  decider.decideAt(batch!.fork(0, 2), 1)
  t.same([...decider.counts.subarray(0, 5)], [0, 1, 0, 1, 0], 'of this batch alone')
  decider.decideAt(batch!.fork(0, 2), 1000)
  t.same([...decider.counts.subarray(0, 5)], [1, 0, 0, 1, 0])
})

t.test('live: monotonic, except that aligned windows follow a clock that is set', async t => {
  const time = { monotonic: 50, epoch: 1_700_000_000_000 }
  const clock = { now: () => time.monotonic, wall: () => time.monotonic + time.epoch }
  const of = (mode: WindowMode) => deciderOf({ limit: 1, window: '10s', key_field: '.k', window_mode: mode })
  const { origin } = of('fixed')
  const [batch] = batchesOf('{"k":"a"}\n', origin)
  const live = (mode: WindowMode) => {
    Object.assign(time, { monotonic: 50, epoch: 1_700_000_000_000 - 50 })
    return createClockDecider(of(mode).options, clock)
  }
  const passes = (decider: Decider, elapsed = 0, set = 0) => {
    time.monotonic += elapsed
    time.epoch += set
    return decider.decide(batch!).decisions[0] === PASS
  }
  for (const mode of ['fixed', 'sliding'] as const) {
    const decider = live(mode)
    t.ok(passes(decider))
    t.notOk(passes(decider, 1000, 3_600_000), `${mode}: set forward`)
    t.notOk(passes(decider, 1000, -7_200_000), `${mode}: set back`)
    t.ok(passes(decider, 8000), `${mode}: the window's end`)
    t.equal(decider.buckets, 1)
    time.monotonic += 20_000
    t.equal(decider.buckets, 0, 'idle buckets go without an event, too')
  }
  const decider = live('aligned')
  t.ok(passes(decider, 4000))
  t.notOk(passes(decider, 5999), 'until the next multiple of 10 s since the epoch')
  t.ok(passes(decider, 1))
  t.notOk(passes(decider, 0, 900), 'a little drift is not followed')
  t.notOk(passes(decider, 9500))
  t.ok(passes(decider, 500), 'by the old epoch')
  t.ok(passes(decider, 0, 10_000), 'set forward: a new window')
  t.notOk(passes(decider, 0, 500))
  t.ok(passes(decider, 0, -86_400_000), 'set back: windows begin anew')
  t.notOk(passes(decider, 1))
  t.ok(passes(decider, 10_000))
  t.equal(decider.buckets, 1)
})

t.test('one that takes over goes on with the windows that are open', async t => {
  const time = { monotonic: 50, epoch: 1_700_000_000_000 }
  const clock = { now: () => time.monotonic, wall: () => time.monotonic + time.epoch }
  const more = { limit: 2, window: '10s', key_field: '.k' }
  for (const mode of ['fixed', 'aligned', 'sliding', 'time'] as const) {
    Object.assign(time, { monotonic: 50, epoch: 1_700_000_000_000 - 50 })
    const { origin, options } = deciderOf(
      mode === 'time' ? { ...more, time_field: '.t' } : { ...more, window_mode: mode },
    )
    const [batch] = batchesOf('{"k":"a","t":1700000000000}\n', origin)
    const decides = (decider: Decider) => decider.decide(batch!).decisions[0]
    const first = createDecider(options, clock)
    t.equal(decides(first), PASS)
    time.monotonic += 1000
    const second = createDecider(options, clock, first.limiter)
    t.equal(second.buckets, 1, `${mode}: its buckets`)
    t.equal(decides(second), PASS)
    t.equal(decides(createDecider(options, clock, second.limiter)), DISCARD, `${mode}: counted in all`)
    t.equal(decides(createDecider(options, clock)), PASS, `${mode}: anew without it`)
    const other = mode === 'time' ? deciderOf(more).options : deciderOf({ ...more, time_field: '.t' }).options
    t.equal(decides(createDecider(other, clock, second.limiter)), PASS, `${mode}: not in another time`)
  }
})

t.test('a batch of events without a key is decided as its events one after the other', async t => {
  const random = seeded(12)
  for (const window_mode of ['fixed', 'aligned', 'sliding']) {
    const { origin, options } = deciderOf({
      limit: 40,
      window: '1 Seconds',
      window_mode,
    })
    const [atOnce, oneByOne] = [createClockDecider(options, STOPPED_CLOCK), createClockDecider(options, STOPPED_CLOCK)]
    let now = 0
    for (let step = 0; step < 500; step++) {
      now += Math.floor(random() * 300)
      const [batch] = batchesOf('{}\n'.repeat(1 + Math.floor(random() * 30)), origin)
      atOnce.decideAt(batch!, now)
      oneByOne.limiter.advance(now)
      const expected = Array.from({ length: batch!.length }, (_, i) => oneByOne.decideOne(batch!, i, now))
      t.same([...atOnce.decisions.subarray(0, batch!.length)], expected, `${window_mode}, step ${step}`)
      t.equal(atOnce.counts[DISCARD], expected.filter(decision => decision === DISCARD).length)
    }
  }
})
