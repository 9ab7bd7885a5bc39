import t from 'tap'
import { GROK_PATTERNS } from '../../../../src/core/codecs/grok/patterns.js'
import { codecOf, createCodec } from '../../../../src/core/codecs/list.js'
import { casesOf } from '../../../support/cases.js'
import { agreesWithFields, fuzz, readFields } from '../../../support/codecs.js'

const regex = (pattern: string, line: string) => readFields(codecOf('regex', { pattern })!, Buffer.from(line))
const grok = (pattern: string, line: string, patterns?: Record<string, string>) =>
  readFields(codecOf('grok', { pattern, ...(patterns && { patterns }) })!, Buffer.from(line))

t.test('regex: named groups are fields', t => {
  t.same(regex('^(?<client>\\S+) (?<took_ms>\\d+)ms', '1.2.3.4 12ms'), { client: '1.2.3.4', took_ms: '12' })
  t.same(regex('(?P<a>x)?(?<b>y*)', 'z'), { b: '' }, 'what took no part is no field')
  t.same(regex('é(?<rest>.+)ü', 'aé€😀ü'), { rest: '€😀' }, 'not only ASCII')
  t.same(regex('(?<a>\\-\\"\\:)', '-":'), { a: '-":' }, 'escapes of other languages')
  t.equal(regex('^(?<a>x)$', 'xx'), undefined)
  t.end()
})

t.test('what cannot be a pattern is an error', t => {
  t.throws(() => createCodec('regex', { pattern: '(' }), /not a regular expression/)
  t.throws(() => createCodec('regex', { pattern: '(a)' }), /must have a group with the name of a field/)
  t.throws(() => createCodec('regex', { pattern: '(?<a>x)\\k<a>' }), /regular expression/)
  t.throws(() => createCodec('grok', { pattern: '%{NUMBR:n}' }), /there is no pattern NUMBR; did you mean NUMBER\?/)
  t.throws(() => createCodec('grok', { pattern: '%{NUMBER}' }), /must have a field/)
  const hosts = '%{IPORHOST:a} %{IPORHOST:b} %{IPORHOST:c}'
  t.throws(
    () => createCodec('grok', { pattern: hosts }),
    /is too large.*; patterns of addresses are large: .*patterns: \{ IPORHOST/,
  )
  t.same(grok(hosts, 'x y 192.0.2.1', { IPORHOST: '[\\w.:-]+' }), { a: 'x', b: 'y', c: '192.0.2.1' })
  t.throws(() => createCodec('grok', { pattern: '%{INT:n:integer}' }), /must be int, float or string/)
  t.throws(() => createCodec('grok', { pattern: '%{A:a}', patterns: { A: '%{A}' } }), /in a cycle/)
  const doubling = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`A${n}`, `%{A${n + 1}}%{A${n + 1}}`]))
  t.throws(() => createCodec('grok', { pattern: '%{A0:a}', patterns: { ...doubling, A25: 'x' } }), /longer than/)
  t.end()
})

t.test('grok: every pattern of the set can be used', t => {
  for (const name of GROK_PATTERNS.keys()) t.ok(codecOf('grok', { pattern: `%{${name}:f}` }), name)
  t.end()
})

t.test('grok: what the patterns match', t => {
  const { matches, others } = casesOf<Record<'matches' | 'others', Record<string, readonly string[]>>>(import.meta.url)
  for (const [name, texts] of Object.entries(matches)) {
    for (const text of texts)
      t.same(
        grok(`^%{${name}:f}$`, text),
        { f: text, ...(name === 'URI' && text.includes(':8443') ? { port: '8443' } : {}) },
        `${name} ${text}`,
      )
  }
  for (const [name, texts] of Object.entries(others)) {
    for (const text of texts) t.equal(grok(`^%{${name}:f}$`, text), undefined, `${name} ${text}`)
  }
  t.end()
})

t.test('grok: lines as programs write them', t => {
  t.same(
    grok(
      '%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:level} %{GREEDYDATA:message}',
      '2020-10-02T23:22:12.223222Z info Hello world',
    ),
    {
      timestamp: '2020-10-02T23:22:12.223222Z',
      level: 'info',
      message: 'Hello world',
    },
  )
  t.same(
    grok(
      '%{SYSLOGBASE} %{GREEDYDATA:text}',
      'Dec 23 12:11:43 louis postfix/smtpd[31499]: connect from unknown[95.75.93.154]',
    ),
    {
      timestamp: 'Dec 23 12:11:43',
      logsource: 'louis',
      program: 'postfix/smtpd',
      pid: '31499',
      text: 'connect from unknown[95.75.93.154]',
    },
  )
  const kibana =
    '83.149.9.216 - - [24/Feb/2015:23:13:42 +0000] "GET /presentations/kibana-search.png HTTP/1.1" 200 203023 "http://semicomplete.com/presentations/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)"'
  t.same(grok('%{COMBINEDAPACHELOG}', kibana), {
    clientip: '83.149.9.216',
    ident: '-',
    auth: '-',
    timestamp: '24/Feb/2015:23:13:42 +0000',
    verb: 'GET',
    request: '/presentations/kibana-search.png',
    httpversion: '1.1',
    response: '200',
    bytes: '203023',
    referrer: '"http://semicomplete.com/presentations/"',
    agent: '"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)"',
  })
  t.match(grok('%{COMMONAPACHELOG}', '::1 - ada [24/Feb/2015:23:13:42 +0000] "-" 408 -'), {
    ...{ clientip: '::1', auth: 'ada', rawrequest: '-', response: '408' },
  })
  t.match(
    grok(
      '%{HTTPD_ERRORLOG}',
      '[Mon Aug 31 16:27:04.163150 2015] [core:info] [pid 3820:tid 7] [client 10.0.0.1:5] AH00128: File does not exist',
    ),
    {
      module: 'core',
      loglevel: 'info',
      pid: '3820',
      tid: '7',
      clientport: '5',
      errorcode: 'AH00128',
      message: 'File does not exist',
    },
  )
  t.same(grok('%{INT:a:int} %{NUMBER:b:float} %{WORD:[c][d]} (?<e>x+) (?>y)', '12 .5 w xx y'), {
    a: 12,
    b: 0.5,
    'c.d': 'w',
    e: 'xx',
  })
  t.same(grok('%{WORD:v}=%{INT:n}|%{INT:n}', '7'), { n: '7' }, 'a field that comes twice')
  t.same(grok('%{ID:id} [[:alpha:]]+ \\"%{DATA:q}\\"', 'q-12 as "x"', { ID: '[a-z]-%{INT}' }), { id: 'q-12', q: 'x' })
  t.same(grok('^(?<a>[[:alpha:]]+)[[:space:]](?<b>[[:upper:][:digit:]]+)', 'élan Ä٣'), { a: 'élan', b: 'Ä٣' })
  t.same(grok('^(?<a>[[:alpha:]]+) \\"{%{DATA:q}}', 'é "{x}'), undefined, 'in ASCII, where JavaScript is lenient')
  t.same(grok('^(?<a>[[:alpha:]]+) \\"{%{DATA:q}}', 'e "{x}'), { a: 'e', q: 'x' })
  t.end()
})

t.test('slots, objects and JSON of random lines are the same', t => {
  const parts = ['1.2.3.4', ' ', 'é', '12', 'GET', '"', '\t', 'host']
  agreesWithFields(t, { codec: 'regex', pattern: '(?<a>\\d+)\\s+(?<host>\\S*)' }, ['a', 'host'], fuzz(1, 500, parts))
  agreesWithFields(
    t,
    { codec: 'grok', pattern: '%{IP:a} %{INT:n:int}?%{WORD:host}?' },
    ['a', 'n', 'host'],
    fuzz(2, 500, parts),
  )
  t.end()
})

t.test('hostile patterns and texts take a time in proportion', t => {
  for (const [codec, pattern, line] of [
    ['regex', '^(?<a>(a+)+)$', `${'a'.repeat(200_000)}!`],
    ['regex', '(?<a>x*)x*x*y', 'x'.repeat(200_000)],
    ['grok', '%{GREEDYDATA:a} %{GREEDYDATA:b} %{GREEDYDATA:c}!', 'a '.repeat(100_000)],
    ['grok', '%{IPORHOST:h}!', '1.2.3.'.repeat(50_000)],
  ] as const) {
    const bytes = Buffer.from(line)
    const before = process.cpuUsage().user
    readFields(codecOf(codec, { pattern })!, bytes)
    const ms = (process.cpuUsage().user - before) / 1000
    t.ok(ms < 3000, `${pattern}: ${ms} ms`)
  }
  t.end()
})
