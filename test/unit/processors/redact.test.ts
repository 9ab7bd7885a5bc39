import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { eventText, RawEncoder } from '../../../src/codecs/encode.js'
import { DeliveryError } from '../../../src/core/errors.js'
import { Ack } from '../../../src/core/event/ack.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { encodeLetters } from '../../../src/engine/dead-letter/record.js'
import { BatchDecoder, encodeBatch } from '../../../src/flow/disk-buffer/batch-record.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { redact } from '../../../src/processors/redact.js'
import { type BatchOptions, batchOf, linesOf } from '../../support/batches.js'
import { testFolder } from '../../support/folder.js'
import { Seeded } from '../../support/seeded.js'
import { loadedStageOf } from '../../support/stage.js'

type Lines = readonly (string | Buffer | object)[]

/** What becomes of lines. */
async function redacted(options: object, lines: Lines, more: BatchOptions = {}) {
  const { stage, wanted, counters } = await loadedStageOf(redact, options)
  const batch = batchOf(lines, { ...more, wanted })
  counters.arrived(batch.length, batch.bytes)
  const left: EventBatch[] = []
  await pipeline(Readable.from([batch]), stage, async all => {
    for await (const one of all) left.push(one as EventBatch)
  })
  const raw = Buffer.concat(new RawEncoder().encode(left).parts).toString()
  return { batch: left[0]!, counters, lines: linesOf(left[0]!), raw }
}

t.test('a reason that quotes a value is redacted, whatever the fields are', async t => {
  const message = '.pan should be an integer, and is "4111 1111 1111 1111"'
  const event = { pan: '4111 1111 1111 1111', other: '4111111111111111', processing_error: { component: 'p', message } }
  const { lines } = await redacted({ fields: ['.pan'], presets: ['card'] }, [event])
  t.same(JSON.parse(lines[0]!), {
    pan: '***',
    other: '4111111111111111',
    processing_error: { component: 'p', message: '.pan should be an integer, and is "***"' },
  })
})

const ALL = redact.options.shape.presets.unwrap().element.options

t.test('presets find what they are named after, and nothing that looks like it', async t => {
  const found: Record<string, readonly string[]> = {
    card: [
      '4111111111111111',
      '4111 1111 1111 1111',
      '5500-0000-0000-0004',
      '378282246310005',
      '3782 822463 10005',
      '6011.1111.1111.1117',
      '30569309025904',
      '3530111333300000',
      '2223003122003222',
      '6304000000000000',
    ],
    email: ['a@b.io', 'first.last+tag@mail.example.co.uk', 'müller@exämple.de', 'a%40b.com', 'a@[192.0.2.1]'],
    ipv4: ['192.0.2.7', '10.0.0.255', '0.0.0.0'],
    ipv6: ['2001:db8::1', '::1', 'fe80::1%eth0', '2001:db8:0:0:0:0:2:1', '::ffff:192.0.2.1'],
    mac: ['00:1a:2b:3c:4d:5e', '00-1A-2B-3C-4D-5E', '00:11:22:33:44:55:66:77'],
    jwt: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.'],
    bearer: ['abcdef0123', 'AbCdEfGhIjKlMnOpQrStUv==', 'dXNlcjpwYXNzd29yZA=='],
    private_key: ['-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----'],
    api_key: [
      'AKIAIOSFODNN7EXAMPLE',
      'ghp_0123456789abcdefghijABCDEFGHIJ012345',
      `AIza${'Sy0-_'.repeat(7)}`,
      'xoxb-123456789012-abcdefghij',
      'sk_live_0123456789abcdef',
      `sk-proj-${'a1'.repeat(20)}`,
      'glpat-0123456789abcdefghij',
    ],
    iban: ['DE89370400440532013000', 'GB82 WEST 1234 5698 7654 32', 'NO9386011117947'],
    phone: ['+49 30 901820', '+1 (555) 010-0199', '555-234-5678', '(555) 234-5678', '+442071838750'],
  }
  const other: Record<string, readonly string[]> = {
    card: ['4111111111111112', '1763000000000', '0.4111111111111111', '2026-11-22 10:00:00', '41111111111111110000000'],
    email: ['a@b', '@example.com', 'user@', 'x @ y.de', 'a@1.2'],
    ipv4: ['1.2.3', '256.1.1.1', '1.2.3.4.5', '1234.1.1.1'],
    ipv6: ['10:24:29', 'std::string', '::', 'a::b::c', 'key:value'],
    mac: ['00:1a:2b:3c:4d', '00:1a:2b:3c:4d:5e:6f', '2026-11-22-10-24'],
    jwt: ['eyJhbGciOiJIUzI1NiJ9', 'eyJ', 'keyJab.cd.ef'],
    bearer: ['Bearer of news', 'basic things', 'bearer token'],
    private_key: ['-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----', '-----', '----- BEGIN'],
    api_key: ['AKIA', 'ghp_short', 'sk_live_', 'risk-management-of-all-things-in-the-world', 'a_b'],
    iban: ['DE89370400440532013001', 'XX89370400440532013000', 'DE893704'],
    phone: ['2026-11-22', '+1', '12:00:00+0100', '1-555-1234', '10.0.0.1'],
  }
  for (const preset of ALL) {
    const prefix = preset === 'bearer' ? 'Authorization: Bearer ' : ''
    for (const secret of found[preset]!) {
      const { lines } = await redacted({ presets: [preset] }, [{ m: `x ${prefix}${secret}, y` }])
      t.same(lines, [JSON.stringify({ m: `x ${prefix}***, y` })], `${preset}: ${secret}`)
    }
    for (const text of other[preset]!) {
      const line = JSON.stringify({ m: `x ${text}, y` })
      t.same((await redacted({ presets: [preset] }, [line])).lines, [line], `${preset}: not ${text}`)
    }
  }
})

const SECRETS = [
  '4111 1111 1111 1111',
  'jane.doe@example.com',
  '203.0.113.77',
  '2001:db8::beef',
  'AKIAIOSFODNN7EXAMPLE',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3',
  'DE89370400440532013000',
  'T-471147',
]
const EVERY = { presets: ALL, patterns: [{ name: 'ticket', pattern: 'T-\\d+' }] }

t.test('no secret is left, however deep and however written, and everything else is', async t => {
  const random = new Seeded(4711)
  const below = (n: number) => random.below(n)
  const pick = <T>(all: readonly T[]) => all[below(all.length)]!
  const words = ['order', 'ünïcode', '"quoted"', 'a\\b', 'tab\there', '😀', '']
  let wantedSecrets = SECRETS
  const text = () => {
    const parts = Array.from({ length: below(4) }, () => pick(words))
    if (below(2) === 0) {
      const secret = pick(SECRETS)
      parts.splice(below(parts.length + 1), 0, secret)
    }
    return parts.join(' ')
  }
  const value = (depth: number): unknown => {
    const kind = below(depth > 0 ? 8 : 5)
    if (kind < 3) return text()
    if (kind === 3) return below(3) > 0 ? below(100000) / 8 : 4111111111111111
    if (kind === 4) return pick([true, false, null])
    if (kind < 6) return Array.from({ length: below(4) }, () => value(depth - 1))
    return Object.fromEntries(Array.from({ length: below(4) }, (_, n) => [`k${n}`, value(depth - 1)]))
  }
  /** The JSON of a value, in which any character may be written as an escape, with white space. */
  const written = (one: unknown): string => {
    const space = () => pick(['', '', '', ' ', '\t'])
    if (Array.isArray(one)) return `[${space()}${one.map(written).join(`${space()},${space()}`)}]`
    if (typeof one === 'object' && one !== null) {
      return `{${space()}${Object.entries(one)
        .map(([name, inner]) => `"${name}"${space()}:${space()}${written(inner)}`)
        .join(',')}${space()}}`
    }
    if (typeof one !== 'string' || below(2) === 0) return JSON.stringify(one)
    const escaped = [...JSON.stringify(one).slice(1, -1)].join('')
    return `"${one === '' ? '' : escaped.replace(/(?<!\\)[a-z0-9@:.](?![^"]*\\u$)/g, char => (below(5) > 0 ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`))}"`
  }
  const masked = (one: unknown): unknown => {
    if (one === 4111111111111111) return '***'
    if (typeof one === 'string') return wantedSecrets.reduce((all, secret) => all.replaceAll(secret, '***'), one)
    if (Array.isArray(one)) return one.map(masked)
    return typeof one === 'object' && one !== null
      ? Object.fromEntries(Object.entries(one).map(([name, inner]) => [name, masked(inner)]))
      : one
  }
  for (let n = 0; n < 400; n++) {
    // With patterns, every value is searched; without, only those in which something was seen.
    const options = n % 2 === 0 ? EVERY : { presets: ['card', 'email', 'ipv4', 'ipv6', 'jwt', 'iban'] }
    wantedSecrets = n % 2 === 0 ? SECRETS : SECRETS.filter(secret => !/^(AKIA|T-)/.test(secret))
    const event = { id: n, a: value(4), b: value(2) }
    const line = written(event)
    if (JSON.stringify(JSON.parse(line)) !== JSON.stringify(event)) continue
    const { lines, counters } = await redacted(options, [line])
    const wanted = masked(event)
    if (JSON.stringify(wanted) === JSON.stringify(event)) t.equal(lines[0], line, 'its bytes are the same')
    else if (JSON.stringify(JSON.parse(lines[0]!)) !== JSON.stringify(wanted)) t.same(lines[0], wanted, line)
    if (JSON.stringify(counters.imbalance()) !== '{"events":0,"bytes":0}') t.fail('bytes are missing')
  }
})

t.test('a line that is text is another line afterwards, for every reader', async t => {
  const bad = Buffer.concat([Buffer.from([0xff, 0x20]), Buffer.from('card 4111111111111111')])
  const input = ['by a@example.com', 'nothing', bad, 'T-471147 für 203.0.113.77']
  const { batch, counters, raw } = await redacted(EVERY, input, { decode: 'text' })
  const wanted = ['by ***', 'nothing', '\ufffd card ***', '*** für ***']
  t.equal(raw, `${wanted.join('\n')}\n`)
  t.equal(Buffer.byteLength(raw), batch.bytes)
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  t.same(
    [0, 1, 2, 3].map(i => batch.fields(i).message),
    wanted,
  )
  t.notMatch(Buffer.from(String(batch.fields(2).raw ?? ''), 'base64').toString('latin1'), /4111/)
  t.same(
    [0, 1, 2, 3].map(i => eventText('raw', batch, i).replace(/.*"message":"([^"]*)".*/, '$1')),
    wanted,
  )
})

t.test('nothing of a secret is in disk buffers and dead letters', async t => {
  const lines = ['{"m":"a@example.com","n":"203.0.113.77"}', 'no object, T-471147', '{"m":"\\u0061@example.com"}']
  for (const decode of ['json', 'text', 'logfmt']) {
    const { batch } = await redacted(EVERY, lines, { decode })
    const record = encodeBatch(batch)
    const letters = encodeLetters([batch], new DeliveryError('no', { failure: 'reject', reason: 'x' }), {
      destination: 'd',
      wall: 0,
    })
    const again = new BatchDecoder(new WantedNames()).decode(record, new Ack(() => {}))
    for (const bytes of [record, letters, Buffer.from(JSON.stringify(linesOf(again)))]) {
      t.notMatch(bytes.toString('latin1'), /example\.com|203\.0|471147/, decode)
    }
    t.same(linesOf(again), linesOf(batch))
  }
})

t.test('what was read from elsewhere, or changed before, is covered as well', async t => {
  const { lines } = await redacted({ presets: ['ipv4'] }, ['text'], { decode: 'text', peer: '203.0.113.77:5140' })
  t.match(JSON.parse(lines[0]!), { message: 'text', peer: '***:5140' })
  const { stage, wanted } = await loadedStageOf(redact, EVERY)
  const batch = batchOf(['{"a":1}', '{"a":2}'], { wanted })
  batch.modify(0, { raw: Buffer.from('from a@example.com').toString('base64'), message: 'm' })
  batch.changeTo(1, Buffer.from('{"x":["a@example.com"]}'))
  const left: EventBatch[] = []
  await pipeline(Readable.from([batch]), stage, async all => {
    for await (const one of all) left.push(one as EventBatch)
  })
  t.same(linesOf(left[0]!), ['{"raw":"***","message":"m"}', '{"x":["***"]}'])
})

t.test('a secret in two pieces of a line is in neither', async t => {
  const line = `${'x '.repeat(100)}4111 1111 1111 1111${' y'.repeat(100)}`
  for (const maxLineBytes of [205, 210, 215]) {
    const { lines, counters } = await redacted({ presets: ['card'] }, [line], { decode: 'text', maxLineBytes })
    t.ok(lines.length > 1)
    t.notMatch(lines.join('\n'), /1111/)
    t.match(lines[0], /^(x )+\*\*\*$/)
    t.equal(counters.counter('sluice_redact_matches_total', '', { rule: 'divided_line' }).value, 2 * (lines.length - 1))
  }
})

t.test('fields are those at the paths, with all that is in them, under each name of the same', async t => {
  const line =
    '{"message":"a@b.io","message":{"x":["a@b.io",1]},"\\u006dessage":"a@b.io","to":"a@b.io","list":["a@b.io",{"y":"a@b.io"}]}'
  const { lines, raw } = await redacted({ fields: ['.message', '.list[1].y'], presets: ['email'] }, [line])
  t.equal(
    raw,
    '{"message":"***","message":{"x":["***",1]},"\\u006dessage":"***","to":"a@b.io","list":["a@b.io",{"y":"***"}]}\n',
  )
  t.equal(lines.length, 1)
  const csv = { codec: 'csv', columns: ['a', 'b'] }
  const { lines: fromCsv } = await redacted({ fields: ['.a'], presets: ['email'] }, ['"x ""a@b.io""",a@b.io'], {
    decode: csv,
  })
  t.match(JSON.parse(fromCsv[0]!), { a: 'x "***"', b: 'a@b.io' })
  const { lines: texts } = await redacted({ fields: ['.other'], presets: ['email'] }, ['a@b.io'], { decode: 'text' })
  t.same(texts, ['a@b.io'], 'the text of a line is its message')
})

t.test('a value is searched as its readers will read it', async t => {
  const all = { presets: ['card', 'email'] }
  const of = async (lines: Lines, more: BatchOptions = {}) => (await redacted(all, lines, more)).raw.trim().split('\n')
  t.same(await of(['{"n":4.111111111111111e15,"d":-4111111111111111,"f":0.4111111111111111,"x":1e3}']), [
    '{"n":"***","d":"-***","f":0.4111111111111111,"x":1e3}',
  ])
  const nested = '{"log":"{\\"to\\":\\"a\\\\u0040b.io, c@d.io\\"}","n":"\\u0041"}'
  t.same(await of([nested]), ['{"log":"{\\"to\\":\\"***, ***\\"}","n":"\\u0041"}'])
  t.same(await of(['{"to":"a\\u0040b.io"}'], { decode: 'text' }), ['{"to":"***"}'])
  const [bad] = await of([Buffer.from('{"a":"\xff","to":"a@b.io"}', 'latin1')])
  t.same(JSON.parse(bad!), { a: '\ufffd', to: '***', raw: '***' }, 'its bytes would show it')
})

t.test('a word of a line that its codec takes for a name is covered as well', async t => {
  const of = async (line: string, decode: string) =>
    (await redacted({ presets: ['card', 'email'] }, [line], { decode })).raw
  for (const decode of ['logfmt', 'key_value']) {
    t.match(await of('paid 4111111111111111 ok=1', decode), /^\{"paid":true,"\*{3}":true,"ok":"1",/)
    t.match(await of('msg=by a@b.io a@c.io=2', decode), /^\{"msg":"by","\*{3}":true,"\*{3}":"2",/)
  }
  t.equal(await of('{"a@b.io":"a@b.io"}', 'json'), '{"a@b.io":"***"}\n')
})

t.test('a long run of backslashes takes a time proportional to its length', async t => {
  const run = '\\'.repeat(500_000)
  const before = process.cpuUsage()
  const { raw } = await redacted({ presets: ['email'] }, [`${run}u0061${run}u0040b.io${run}`], { decode: 'text' })
  const { user, system } = process.cpuUsage(before)
  t.ok(user + system < 10e6)
  t.ok(raw.startsWith('***'))
})

t.test('many matches of several rules take a time proportional to their number', async t => {
  const message = 'a@b.io 12 '.repeat(100_000)
  const { user } = process.cpuUsage()
  const options = {
    presets: ['email'],
    patterns: [
      { name: 'n', pattern: '\\d+' },
      { name: 'b', pattern: '.(?=io)' },
    ],
  }
  const { lines } = await redacted(options, [{ message }])
  t.equal(lines[0], JSON.stringify({ message: '*** *** '.repeat(100_000) }))
  t.ok((process.cpuUsage().user - user) / 1000 < 3000)
})

t.test('actions', async t => {
  const of = async (action: unknown, text = 'by a@example.com;') =>
    JSON.parse(
      (
        await redacted({ presets: ['email'], patterns: [{ name: 'x', pattern: 'q"+é', ignore_case: true }], action }, [
          { m: text },
        ])
      ).lines[0]!,
    ).m
  const file = `${testFolder(t)}/key`
  writeFileSync(file, 'secret\n')
  const digest = createHmac('sha256', 'secret').update('a@example.com').digest('hex')
  t.equal(await of('mask'), 'by ***;')
  t.equal(await of({ mask: { keep_last: 4 } }), 'by ***.com;')
  t.equal(await of({ mask: { keep_last: 2 } }, 'Q"""é'), '***"é')
  t.equal(await of({ mask: { keep_last: 3 } }, 'Q"""é'), '***')
  t.equal(await of({ replace: '["x"]' }), 'by ["x"];')
  t.equal(await of({ hash: { key_file: file } }), `by ${digest};`)
  await t.rejects(loadedStageOf(redact, { presets: ['email'], action: { hash: { key_file: `${file}s` } } }), {
    message: /keys:1:1: cannot read the key of hashes: .*/,
  })
  for (const options of [
    {},
    { presets: ['email'], patterns: [{ name: 'email', pattern: 'a' }] },
    { presets: ['email'], action: { hash: {} } },
    { presets: ['email'], fields: [] },
    { patterns: [{ name: 'a b', pattern: 'x' }] },
    { patterns: [{ name: 'a', pattern: '(a)\\1' }] },
  ]) {
    t.notOk(redact.options.safeParse(options).success, JSON.stringify(options))
  }
})

t.test('a private key without its first or last line reaches to the end of the value', async t => {
  const lines = [
    '{"m":"a -----BEGIN EC PRIVATE KEY-----\\\\nMHc","n":"kept"}',
    '{"m":"MHc\\n-----END EC PRIVATE KEY----- b"}',
  ]
  t.same((await redacted({ presets: ['private_key'] }, lines)).lines, ['{"m":"a ***","n":"kept"}', '{"m":"*** b"}'])
})

t.test('each rule counts what it has found', async t => {
  const { counters } = await redacted(EVERY, ['{"m":"a@example.com b@example.com T-1","n":203.0}', '{}'])
  const count = (rule: string) => counters.counter('sluice_redact_matches_total', '', { rule }).value
  t.same(['email', 'ticket', 'card'].map(count), [2, 1, 0])
  const patterns = ['x.*y', 'b', 'y z'].map((pattern, n) => ({ name: `p${n}`, pattern }))
  t.same(
    (await redacted({ patterns }, ['{"m":"a x b y z"}'])).lines,
    ['{"m":"a ***"}'],
    'what overlaps is replaced once',
  )
})

t.test('an event that cannot be redacted is not passed as it is', async t => {
  const { stage, wanted, counters } = await loadedStageOf(redact, EVERY)
  const batch = batchOf(['{"a":1}', '{"b":"a@example.com"}'], { wanted })
  const fields = Object.defineProperty({ secret: 'a@example.com' }, 'toJSON', {
    value: () => {
      throw new Error('a@example.com')
    },
  })
  batch.modify(0, fields)
  const left: EventBatch[] = []
  await pipeline(Readable.from([batch]), stage, async all => {
    for await (const one of all) left.push(one as EventBatch)
  })
  t.same(linesOf(left[0]!), ['{"message":"***"}', '{"b":"***"}'])
  t.equal(counters.counter('sluice_redact_failed_events_total', '').value, 1)
})
