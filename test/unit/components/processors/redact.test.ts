import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { redact } from '../../../../src/components/processors/redact.js'
import { eventText, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { Ack } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { BatchDecoder, encodeBatch } from '../../../../src/engine/flow/disk-buffer/record.js'
import { encodeLetters } from '../../../../src/engine/run/dead-letter/record.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { type BatchOptions, batchOf, linesOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { testFolder } from '../../../support/folder.js'
import { Seeded } from '../../../support/seeded.js'
import { loadedStageOf } from '../../../support/stage.js'

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

/** `length` characters of `alphabet` behind the mark of a key. Nothing here is a key of anybody. */
const key = (mark: string, length: number, alphabet = 'aB3dE5gH7') =>
  mark + alphabet.repeat(Math.ceil(length / alphabet.length)).slice(0, length)
const HEX = '0a1b2c3d4e5f'
const JWT = ['eyJhbGciOiJIUzI1NiJ9', 'eyJzdWIiOiIxMjM0In0', 'dozjgNryP4J3'].join('.')
const PEM = ['RSA ', '', 'ENCRYPTED '].map(
  kind => `-----BEGIN ${kind}PRIVATE KEY-----\nMIIEow+/=\nAAAA\n-----END ${kind}PRIVATE KEY-----`,
)

type Texts = Readonly<Record<string, readonly string[]>>
const TABLES = casesOf<{ found: Texts; not_found: Texts; ordinary: readonly string[] }>(import.meta.url)

/** What each preset promises to find. `behind`: only there. */
const FOUND: Readonly<Record<string, { behind?: string; secrets: readonly string[] }>> = {
  ...Object.fromEntries(Object.entries(TABLES.found).map(([preset, secrets]) => [preset, { secrets }])),
  jwt: { secrets: [JWT, 'eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.', 'eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn'] },
  bearer: {
    behind: 'Authorization: Bearer ',
    secrets: ['abcdef0123', 'AbCdEfGhIjKlMnOpQrSt+/==', JWT, 'sekret', 'a', '1|a.b$c!d*e~'],
  },
  private_key: { secrets: PEM },
  api_key: {
    secrets: [
      'AKIAIOSFODNN7EXAMPLE',
      ...['ASIA', 'ABIA', 'ACCA', 'AROA', 'AIDA', 'A3TX'].map(mark => key(mark, 16, 'IOSFODNN7')),
      ...['ABSK', 'bedrock-api-key-'].map(mark => `${key(mark, 100)}+/==`),
      ...['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'].map(mark => key(mark, 36)),
      ...[`${key('ghs_', 6, '123456')}_${JWT}`, `${key('github_pat_', 22)}_${key('', 59)}`],
      ...['glpat-', 'gloas-', 'gldt-', 'glrt-', 'glrtr-', 'glcbt-', 'glptt-'].map(mark => key(mark, 20)),
      ...['glft-', 'glimt-', 'glagent-', 'glwt-', 'glsoat-', 'glffct-', 'GR1348941'].map(mark => key(mark, 20)),
      ...[`${key('glpat-', 27)}.${key('', 9, 'a1')}`, `${key('glrt-t1_', 27)}.${key('', 9, 'a1')}`],
      ...[key('AIza', 35, 'Sy0-_'), key('GOCSPX-', 28), key('ya29.', 60)],
      ...['a', 'b', 'c', 'd', 'e', 'o', 'p', 'r', 's'].map(letter => key(`xox${letter}-`, 24, '12345-')),
      ...[key('xapp-', 40, '1-AB'), key('xwfp-', 40, '1-AB')],
      ...['services', 'workflows', 'triggers'].map(kind => key(`hooks.slack.com/${kind}/`, 40, 'T0A/B1C')),
      ...['sk', 'rk'].flatMap(kind => ['live', 'test', 'prod'].map(mode => key(`${kind}_${mode}_`, 24))),
      ...[key('whsec_', 32), key('sk-', 48), key('sk-proj-', 40), key('sk-ant-api03-', 95)],
      ...['dop_v1_', 'doo_v1_', 'dor_v1_'].map(mark => key(mark, 64, HEX)),
      ...[key('hf_', 34, 'aBcDe'), key('api_org_', 34, 'aBcDe'), key('npm_', 36), key('pypi-AgE', 60)],
      ...['shpat_', 'shpca_', 'shppa_', 'shpss_', 'shpua_'].map(mark => key(mark, 32, HEX)),
      `${key('SG.', 22)}.${key('', 43)}`,
    ],
  },
}

/** What looks like what a preset finds, and is not. */
const NOT_FOUND: Readonly<Record<string, readonly string[]>> = TABLES.not_found

/** What logs are full of, and no preset finds. */
const ORDINARY = TABLES.ordinary

/** How a log carries a text: what is before and behind it, and how it is written. */
const same = (text: string) => text
const each = (pattern: RegExp, write: (code: number) => string) => (text: string) =>
  text.replace(pattern, char => write(char.charCodeAt(0)))
const inHex = (code: number, length: number) => code.toString(16).padStart(length, '0')
const inJson = (text: string) => JSON.stringify(text).slice(1, -1)
const inUrl = encodeURIComponent
const WRITTEN: Readonly<Record<string, readonly [before: string, write: (text: string) => string, behind: string]>> = {
  'as it is': ['x ', same, ', y'],
  'with soft hyphens': ['x ', text => text.replace(/\w\w(?=\w\w)/g, '$&\u00ad'), ', y'],
  'with spaces without a width': ['x ', text => text.replace(/\w\w(?=\w\w)/g, '$&\u200b'), ', y'],
  'with marks of the direction': ['x ', text => text.replace(/\w\w(?=\w\w)/g, '$&\u200f\u202d\u2061'), ', y'],
  'in wide letters': ['x ', each(/[0-9A-Za-z@.-]/g, code => String.fromCharCode(code + 0xfee0)), ', y'],
  'in quotes': ['a="', same, '"'],
  'in parentheses': ['a (', same, ')'],
  'in markup': ['<a>', same, '</a>'],
  'behind an encoded =': ['a%3D', same, '%26b%3D'],
  'behind an encoded = in lower case': ['a%3d', same, '%26b'],
  'behind an = that is encoded twice': ['a%253D', same, '%2526b'],
  'behind an encoded space': ['a%20', same, '%20b'],
  'behind an encoded quote': ['%7B%22a%22%3A%22', same, '%22%7D'],
  'behind an escaped line end': ['at\\n', same, '\\n at'],
  'behind an escaped line end and tab': ['at\\r\\n\\t', same, '\\r\\nat'],
  'behind a line end that is escaped twice': ['at\\\\n', same, '\\\\nat'],
  'behind an escape of JSON': ['a\\u003d', same, '\\u0026b'],
  'behind an escape of JSON that is escaped': ['a\\\\u003d', same, '\\\\u0026b'],
  'behind an escape of nginx': ['\\x22a\\x22: \\x22', same, '\\x22'],
  'behind an octal escape': ['at\\012', same, '\\012'],
  'behind an escape of rsyslog': ['at#012', same, '#012#011at'],
  'in color': ['\x1b[1;31m', same, '\x1b[0m'],
  'in color, escaped': ['\\u001b[31m', same, '\\u001b[0m'],
  'in color, by rsyslog': ['#033[31m', same, '#033[0m'],
  'with a color within': ['x ', text => text.replace(/\w\w(?=\w\w)/g, '$&\x1b[01;31m\x1b[K'), '\x1b[0m, y'],
  'with a color within, escaped': ['x ', text => text.replace(/\w\w(?=\w\w)/g, '$&\\u001b[31m'), '\\u001b[0m, y'],
  'in a URL': ['/p?a=', inUrl, '&b=1'],
  'in a URL in a URL': ['/p?u=%2Fq%3Fa%3D', text => inUrl(inUrl(text)), '%26b%3D1'],
  'in a form': ['a=', text => `${new URLSearchParams({ a: text })}`.slice(2), '&b=1'],
  'in escapes of JSON': ['a ', each(/./gsu, code => `\\u${inHex(code, 4)}`), ' b'],
  'in escapes of nginx': [
    'a ',
    each(/[^ -~]|["\\@:+=]/g, code => (code < 256 ? `\\x${inHex(code, 2)}` : String.fromCharCode(code))),
    ' b',
  ],
  'in references of HTML': ['<a b="', each(/[^\w\s]/g, code => `&#${code};`), '">'],
  'in references of XML': ['<a b="', each(/[^\w\s]/g, code => `&#x${inHex(code, 2)};`), '">'],
  'in JSON in JSON': ['{"a":"', inJson, '"}'],
  'in JSON in JSON in JSON': ['{"a":"{\\"b\\":\\"', text => inJson(inJson(text)), '\\"}"}'],
  'in JSON in a URL': ['?q=%7B%22a%22%3A%22', text => inUrl(inJson(text)), '%22%7D'],
}

/** Texts of which the presets must make others, in a member of JSON and in a line. Returns those that are wrong. */
async function wrongly(presets: readonly string[], cases: readonly (readonly [text: string, wanted: string])[]) {
  const inMembers = await redacted(
    { presets },
    cases.map(([m]) => ({ m })),
  )
  const oneLine = cases.filter(([text]) => !text.includes('\n'))
  const inLines = await redacted(
    { presets },
    oneLine.map(([text]) => text),
    { decode: 'text' },
  )
  const members = inMembers.lines.map(line => JSON.parse(line).m as string)
  const lines = inLines.raw.split('\n')
  return [
    ...cases.flatMap(([text, wanted], n) => (members[n] === wanted ? [] : [{ text, wanted, got: members[n] }])),
    ...oneLine.flatMap(([text, wanted], n) => (lines[n] === wanted ? [] : [{ line: text, wanted, got: lines[n] }])),
  ]
}

t.test('each preset finds what it promises, however a log carries it, and nothing that looks like it', async t => {
  t.same(Object.keys(FOUND).sort(), ALL.toSorted())
  for (const preset of ALL) {
    const { behind = '', secrets } = FOUND[preset]!
    const cases = Object.entries(WRITTEN).flatMap(([how, [before, write, after]]) => [
      ...secrets.map(secret => {
        const lead = before + write(behind)
        return [lead + write(secret) + after, `${lead}***${after}`] as const
      }),
      // A color may also divide digits, and some of them are a card then.
      ...(/color within/.test(how) ? [] : NOT_FOUND[preset]!)
        .map(text => before + write(text) + after)
        .map(text => [text, text] as const),
    ])
    t.same(await wrongly([preset], cases), [], preset)
  }
})

t.test('what logs are full of stays', async t => {
  const random = new Seeded(1)
  const hex = (length: number) => Array.from({ length }, () => random.below(16).toString(16)).join('')
  const ids = Array.from({ length: 4000 }, (_, n) => (n % 2 === 0 ? hex(64) : [8, 4, 4, 4, 12].map(hex).join('-')))
  const written = Object.entries(WRITTEN).flatMap(([how, parts]) => (/color within/.test(how) ? [] : [parts]))
  const texts = written.flatMap(([before, write, after]) => ORDINARY.map(text => before + write(text) + after))
  t.same(
    await wrongly(
      ALL,
      [...texts, ...ids].map(text => [text, text] as const),
    ),
    [],
  )
})

t.test('the mark of a magnetic stripe and the number after it are no escape', async t => {
  const cases = [
    ['%B4111111111111111^DOE/JOHN^2512', '%B***^DOE/JOHN^2512'],
    ['a%C3%A4 %B4111111111111112^DOE', 'a%C3%A4 %B4111111111111112^DOE'],
  ] as const
  t.same(await wrongly(['card'], cases), [])
})

t.test('a letter behind a backslash may be one of an escape, or of a path', async t => {
  const texts = ['\\\\127.0.0.1\\share', 'C:\\new\\10.0.0.1', 'CORP\\nick@b.io', `C:\\${key('npm_', 36)}\\x`]
  const { lines } = await redacted(
    { presets: ['ipv4', 'email', 'api_key'] },
    texts.map(m => ({ m })),
  )
  t.same(
    lines.map(line => JSON.parse(line).m),
    ['\\\\***\\share', 'C:\\new\\***', 'CORP\\n***', 'C:\\***\\x'],
  )
})

t.test('a name and a colon may be before an address or a token', async t => {
  const cases = [
    ['addr:2001:db8::1 node:2001:db8::2', 'addr:*** node:***'],
    ['mac:00:1a:2b:3c:4d:5e', 'mac:***'],
    ['aa:00:1a:2b:3c:4d:5e', 'aa:00:1a:2b:3c:4d:5e'],
    [`token_${JWT}`, 'token_***'],
    ['from +49 30 901820 0049 30 901821', 'from *** 30 901821'],
  ] as const
  t.same(await wrongly(['ipv6', 'mac', 'jwt', 'phone'], cases), [])
})

/** Lines with credentials, and what must become of them. */
const CREDENTIALS = [
  ['Authorization: Basic dXNlcjpwYXNz', 'Authorization: Basic ***'],
  ['authorization: bearer sekret, next', 'authorization: bearer ***, next'],
  ['Proxy-Authorization: Bearer sekret status=200', 'Proxy-Authorization: Bearer *** status=200'],
  ['authorization : Token abc next', 'authorization : *** next'],
  ['Authorization: abc', 'Authorization: ***'],
  ['x Authorization: Digest username="a", realm="b c", uri="/", opaque="" next="d"', 'x Authorization: *** next="d"'],
  ['Authorization: AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=a;b, Signature=c d', 'Authorization: *** d'],
  ['{"authorization":"Basic dXNlcjpwYXNz","n":1}', '{"authorization":"Basic ***","n":1}'],
  ['{"authorization":"Digest a=\\"b\\", c=\\"d\\"","n":1}', '{"authorization":"***","n":1}'],
  ['{"authorization":"","n":"a"}', '{"authorization":"","n":"a"}'],
  ["{'Authorization': 'Token sekret', 'n': 1}", "{'Authorization': '***', 'n': 1}"],
  ['map[Authorization:[Bearer sekret] Host:[a]]', 'map[Authorization:[Bearer ***] Host:[a]]'],
  ['"Authorization"=>"Token sekret", "n"=>1', '"Authorization"=>"***", "n"=>1'],
  ['curl -H "Authorization: Token sekret" https://a', 'curl -H "Authorization: ***" https://a'],
  ['http_authorization="Token sekret" status=200', 'http_authorization="***" status=200'],
  ['proxyAuthorization=sekret status=200', 'proxyAuthorization=*** status=200'],
  ['authorization=Token sekret== status=200', 'authorization=*** status=200'],
  ['upstream: Basic dXNlcjpwYXNz', 'upstream: Basic ***'],
  ['{"authorization":["Token a","", "Basic b"],"n":["c"]}', '{"authorization":["***","", "Basic ***"],"n":["c"]}'],
  ['map[Authorization:[Token a Bearer b] Host:[a]]', 'map[Authorization:[*** Bearer ***] Host:[a]]'],
  ['Authorization: SharedAccessSignature sr=x&sig=a%3d&se=1 b', 'Authorization: *** b'],
  ['authorization: type%3dmaster%26ver%3d1.0%26sig%3da b', 'authorization: *** b'],
  ['Authorization: Token token=a&x=b', 'Authorization: ***'],
  ['/p?authorization=a&b=c', '/p?authorization=***&b=c'],
  ["{b'Authorization': b'Token a', b'n': b'c'}", "{b'Authorization': b'***', b'n': b'c'}"],
  ['Authorization: Bearer\r\n a1\r\nHost: b', 'Authorization: Bearer\r\n ***\r\nHost: b'],
  ['Authorization:\r\n Token\r\n a\r\nHost: b', 'Authorization:\r\n ***\r\nHost: b'],
] as const

t.test('after the name of the header, all words of the credentials are found', async t => {
  t.same(await wrongly(['bearer'], CREDENTIALS), [])
  const members = [
    [{ headers: { Authorization: 'Digest a="b", c="d"', b: 'c' } }, { headers: { Authorization: '***', b: 'c' } }],
    [
      { authorization: ['Bearer sekret more'], n: 'Bearer news' },
      { authorization: ['Bearer ***'], n: 'Bearer news' },
    ],
    [
      { 'proxy-authorization': 'sekret', n: 'a@b.io' },
      { 'proxy-authorization': '***', n: '***' },
    ],
    [
      { authorization: 12345, preauthorization: 'no' },
      { authorization: '***', preauthorization: 'no' },
    ],
    [
      { authorization: ['Token a', 'Bearer b', ['c']], n: ['d'], o: [{ authorization: 'e' }, 'f'] },
      { authorization: ['***', 'Bearer ***', ['c']], n: ['d'], o: [{ authorization: '***' }, 'f'] },
    ],
    [
      { authorization: '', n: 'x=' },
      { authorization: '', n: 'x=' },
    ],
    [
      { authorization: 'dXM=', n: 'a@b.io', o: 'authorization: a="', p: 'a@b.io' },
      { authorization: '***', n: '***', o: 'authorization: ***"', p: '***' },
    ],
  ] as const
  const { lines } = await redacted(
    { presets: ['bearer', 'email'] },
    members.map(([member]) => member),
  )
  t.same(
    lines.map(line => JSON.parse(line)),
    members.map(([, wanted]) => wanted),
  )
})

t.test('the value of a member whose name says that it is a key is found', async t => {
  const secret = key('wJalrXUtnFEMI/', 26)
  const { lines } = await redacted({ presets: ['api_key'] }, [
    { aws_secret_access_key: secret, a: secret },
    `{"SecretAccessKey" : "${secret}"}`,
    { m: `{"SecretAccessKey":"${secret}"}` },
    { m: `AWS_SECRET_ACCESS_KEY=${secret} x` },
    { m: `aws configure set aws_secret_access_key ${secret}` },
    { m: '_authToken=sekret secretaccessKey: a' },
    { secretaccessKey: 'a', SecretAccessKey: '' },
    { m: `//registry.npmjs.org/:_authToken=${'01234567-89ab-4cde-8f01-23456789abcd'}` },
    { m: `Cookie: _gitlab_session=${key('', 32, HEX)}; a=b` },
  ])
  t.same(lines, [
    `{"aws_secret_access_key":"***","a":"${secret}"}`,
    '{"SecretAccessKey":"***"}',
    '{"m":"{\\"SecretAccessKey\\":\\"***\\"}"}',
    '{"m":"AWS_SECRET_ACCESS_KEY=*** x"}',
    '{"m":"aws configure set aws_secret_access_key ***"}',
    '{"m":"_authToken=*** secretaccessKey: ***"}',
    '{"secretaccessKey":"***","SecretAccessKey":""}',
    '{"m":"//registry.npmjs.org/:_authToken=***"}',
    '{"m":"Cookie: _gitlab_session=***; a=b"}',
  ])
})

t.test('a secret has the same hash however it is written, and counts once', async t => {
  const options = { presets: ['email'], action: { hash: { key: 'k' } } }
  const { lines, counters } = await redacted(options, [
    { m: 'a=a@b.io' },
    { m: 'a%3Da%40b.io' },
    { m: 'a\\u003da@b.io' },
  ])
  const hash = createHmac('sha256', 'k').update('a@b.io').digest('hex')
  t.same(lines, [`{"m":"a=${hash}"}`, `{"m":"a%3D${hash}"}`, `{"m":"a\\\\u003d${hash}"}`])
  t.equal(counters.counter('sluice_redact_matches_total', '', { rule: 'email' }).value, 3)
})

t.test('a pattern finds what is behind an escape, also beside bytes that are not UTF-8 without it', async t => {
  const options = { patterns: [{ name: 'ticket', pattern: '\\bT-\\d+' }] }
  const { lines } = await redacted(options, [{ m: 'a%3DT-17%20%FF%20%C3%BCT-18' }, { m: 'über\\nT-19' }])
  t.same(lines, ['{"m":"a%3D***%20%FF%20%C3%BCT-18"}', '{"m":"über\\\\n***"}'])
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

t.test('a long run of what begins like a secret takes a time proportional to its length', async t => {
  const runs = [
    'sk-',
    'glpat-',
    'eyJ.',
    'aws_secret_access_key',
    '%25',
    '%4',
    '&#',
    '#01',
    '\x1b[',
    '4-',
    '+1',
    'a.',
    'de89 ',
    'authorization: ',
    'authorization="',
    'authorization=a b="',
    'authorization: a b=c, ',
    'authorization:[a,',
    'authorization',
    'x:2001:',
    '4111 ',
    '12345 12345 ',
  ]
  const before = process.cpuUsage()
  await redacted(
    { presets: ALL },
    runs.map(run => run.repeat(100_000)),
    { decode: 'text', maxLineBytes: 1 << 22 },
  )
  const { user, system } = process.cpuUsage(before)
  t.ok(user + system < 10e6)
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
  const batch = batchOf([Buffer.from('{"a":"a@example.com \xff"}', 'latin1'), '{"b":"a@example.com"}'], { wanted })
  t.intercept(batch.origin.codec, 'writeEvent', {
    value: () => {
      throw new Error('a@example.com')
    },
  })
  const left: EventBatch[] = []
  await pipeline(Readable.from([batch]), stage, async all => {
    for await (const one of all) left.push(one as EventBatch)
  })
  t.same(linesOf(left[0]!), ['{"message":"***"}', '{"b":"***"}'])
  t.equal(counters.counter('sluice_redact_failed_events_total', '').value, 1)
})
