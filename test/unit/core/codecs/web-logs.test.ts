import t, { type Test } from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { agreesWithFields, fuzz, readFields } from '../../../support/codecs.js'

type Case = readonly [line: string, fields: Record<string, unknown> | RegExp]

function check(t: Test, name: string, cases: readonly Case[]): void {
  const codec = codecOf(name)!
  for (const [line, wanted] of cases) {
    const bytes = Buffer.from(line)
    const found = readFields(codec, bytes)
    if (wanted instanceof RegExp) {
      t.equal(found, undefined, line)
      t.match(codec.problem!(bytes, 0, bytes.length), wanted, line)
    } else t.same(found, wanted, line)
  }
  t.end()
}

const local = (text: string) => new Date(text).toISOString()
const FIREFOX = 'Mozilla/5.0 (X11; Linux i686; rv:5.0) Gecko/1945-10-12 Firefox/37.0'
const GET = { method: 'GET', path: '/', protocol: 'HTTP/1.1' }

t.test('nginx: what its access log and its error log say', t => {
  check(t, 'nginx', [
    [
      '172.17.0.1 - alice [01/Apr/2021:12:02:31 +0000] "POST /not-found HTTP/1.1" 404 153 "http://localhost/somewhere" "Mozilla/5.0 (Windows NT 6.1)" "2.75"',
      {
        client: '172.17.0.1',
        user: 'alice',
        timestamp: '2021-04-01T12:02:31.000Z',
        method: 'POST',
        path: '/not-found',
        protocol: 'HTTP/1.1',
        status: 404,
        bytes: 153,
        referer: 'http://localhost/somewhere',
        user_agent: 'Mozilla/5.0 (Windows NT 6.1)',
        forwarded_for: '2.75',
      },
    ],
    [
      '172.17.0.1 - - [31/Mar/2021:12:04:07 +0000] "GET / HTTP/1.1" 200 612 "-" "curl/7.75.0" "-"',
      {
        client: '172.17.0.1',
        timestamp: '2021-03-31T12:04:07.000Z',
        ...GET,
        status: 200,
        bytes: 612,
        user_agent: 'curl/7.75.0',
      },
    ],
    [
      '0.0.0.0 - - [04/Oct/2022:04:34:49 +0000] "" 400 0 "" ""',
      { client: '0.0.0.0', timestamp: '2022-10-04T04:34:49.000Z', status: 400, bytes: 0 },
    ],
    [
      '0.0.0.0 - - [04/Oct/2022:03:07:27 +0000] "]&\\xDF\\xBDV\\x10;\\xA2b}" 400 150 "-" "-"',
      {
        client: '0.0.0.0',
        timestamp: '2022-10-04T03:07:27.000Z',
        request: ']&\\xDF\\xBDV\\x10;\\xA2b}',
        status: 400,
        bytes: 150,
      },
    ],
    [
      '::1 - john doe [29/Feb/2024:23:59:59 -0130] "GET /a b?q=\\x22\\xC3\\xA9\\x22 HTTP/2.0" 499 0 "-" "a\\"b\\\\" rt=0.5 x',
      {
        client: '::1',
        user: 'john doe',
        timestamp: '2024-03-01T01:29:59.000Z',
        method: 'GET',
        path: '/a b?q="é"',
        protocol: 'HTTP/2.0',
        status: 499,
        bytes: 0,
        user_agent: 'a"b\\',
        rest: 'rt=0.5 x',
      },
    ],
    [
      '2021/04/01 13:02:31 [error] 31#32: *1 open() "/usr/share/nginx/html/not-found" failed (2: No such file or directory), client: 172.17.0.1, server: localhost, request: "POST /not-found HTTP/1.1", upstream: "http://10.0.0.1/a, b", host: "localhost:8081", referrer: "http://x/"',
      {
        timestamp: local('2021-04-01T13:02:31'),
        severity: 'error',
        pid: 31,
        tid: 32,
        cid: 1,
        message: 'open() "/usr/share/nginx/html/not-found" failed (2: No such file or directory)',
        client: '172.17.0.1',
        server: 'localhost',
        method: 'POST',
        path: '/not-found',
        protocol: 'HTTP/1.1',
        upstream: 'http://10.0.0.1/a, b',
        http_host: 'localhost:8081',
        referer: 'http://x/',
      },
    ],
    [
      '2021/04/01 13:02:31 [notice] 1#1: signal 1 (SIGHUP) received',
      {
        timestamp: local('2021-04-01T13:02:31'),
        severity: 'notice',
        pid: 1,
        tid: 1,
        message: 'signal 1 (SIGHUP) received',
      },
    ],
    ['', /^expected the address of a client and a space at column 1$/],
    ['1.2.3.4 - - 200', /^expected the name of a user or "-", a space and "\[" at column 11$/],
    ['1.2.3.4 - - [31/Feb/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1', /a time such as .* at column 14$/],
    ['1.2.3.4 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1 200 1', /a double quote after the request/],
    ['1.2.3.4 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" OK 1', /the status, a number at column 59$/],
    ['1.2.3.4 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200', /the number of bytes or "-" at column 62$/],
    ['2021/04/01 13:02:31 [error] 31: x', /a process id and "#" at column 29$/],
    ['2021/13/01 13:02:31 [error] 31#1: x', /a time such as .* at column 1$/],
  ])
})

t.test('apache: common, combined, vhost_combined, and its error log', t => {
  const frank = { client: '127.0.0.1', user: 'frank', timestamp: '2000-10-10T20:55:36.000Z' }
  const gif = { method: 'GET', path: '/apache_pb.gif', protocol: 'HTTP/1.0', status: 200, bytes: 2326 }
  const haptic = { timestamp: '2021-03-01T12:00:19.000Z', module: 'ab', severity: 'alert', pid: 4803, tid: 3814 }
  check(t, 'apache', [
    [
      '127.0.0.1 bob frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326',
      { ...frank, identity: 'bob', ...gif },
    ],
    [
      `www.example.com:443 127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "-" "${FIREFOX}"`,
      { vhost: 'www.example.com', port: 443, ...frank, ...gif, user_agent: FIREFOX },
    ],
    [
      '2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] "-" 408 -',
      { client: '2001:db8::1', timestamp: frank.timestamp, status: 408 },
    ],
    ['127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 - -', { ...frank, ...gif }],
    [
      '[01/Mar/2021:12:00:19 +0000] [ab:alert] [pid 4803:tid 3814] [client eda7:35d::24cc:24259] I will bypass',
      { ...haptic, client: 'eda7:35d::24cc', port: 24259, message: 'I will bypass' },
    ],
    [
      '[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708] [client 72.15.99.187:1234] AH00128: File does not exist: /usr',
      {
        timestamp: local('2011-09-09T10:42:29.902'),
        module: 'core',
        severity: 'error',
        pid: 35708,
        client: '72.15.99.187',
        port: 1234,
        message: 'AH00128: File does not exist: /usr',
      },
    ],
    [
      '[Wed Oct 11 14:32:52 2000] [error] [client ::1] [x] client denied',
      { timestamp: local('2000-10-11T14:32:52'), severity: 'error', client: '::1', message: '[x] client denied' },
    ],
    [
      '[2021-06-04 15:40:27.138633] [php7:emerg] [pid 4803] PHP Parse error',
      {
        timestamp: local('2021-06-04T15:40:27.138'),
        module: 'php7',
        severity: 'emerg',
        pid: 4803,
        message: 'PHP Parse error',
      },
    ],
    ['not a common log line', /the name of a user or "-"/],
    ['- - - [1234] - - - - - ', /a time such as/],
    ['[1234] [error] x', /a time such as \[Sat/],
    ['[01/Mar/2021:12:00:19 +0000] x', /a severity such as/],
  ])
})

t.test('slots, objects and JSON of random lines are the same', t => {
  const parts = [
    '1.2.3.4 ',
    '- ',
    '- - ',
    '[31/Jan/2026:12:00:00 +0000] ',
    '"GET / HTTP/1.1" ',
    '"',
    '\\"',
    '200 ',
    '-',
    '"-" ',
    '2026/01/31 12:00:00 [error] 1#1: ',
    '*7 ',
    ', client: ',
    'host: "a"',
    '[Sat Jan 31 12:00:00 2026] ',
    '[a:error] ',
    '[pid 1:tid 2] ',
    '[client ::1:2] ',
    'é',
  ]
  const names = ['client', 'status', 'timestamp', 'message', 'path', 'user_agent', 'rest', 'host']
  const usual = ['1.2.3.4 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "\\x22" x']
  for (const codec of ['nginx', 'apache']) agreesWithFields(t, codec, names, [...usual, ...fuzz(3, 500, parts)])
  t.end()
})
