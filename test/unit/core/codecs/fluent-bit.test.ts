import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { readFields } from '../../../support/codecs.js'

/**
 * Lines that the parsers of Fluent Bit are documented with, or that their formats describe. `same`: fields of the same
 * name and value there and here. `named`: fields of another name, or of another form of the value, here.
 */
interface Parser {
  readonly parser: string
  readonly codec: Readonly<Record<string, unknown>>
  readonly line: string
  readonly same?: Readonly<Record<string, unknown>>
  readonly named?: Readonly<Record<string, readonly [there: unknown, name: string, here: unknown]>>
}

const NGINX =
  '192.0.2.7 - ada [28/Jul/2026:10:27:10 -0300] "GET /cgi-bin/try/?a=b HTTP/1.0" 200 3395 "http://a.example/" "curl/8.5.0"'

const PARSERS: readonly Parser[] = [
  {
    parser: 'apache',
    codec: { codec: 'apache' },
    line: '192.168.2.20 - - [28/Jul/2006:10:27:10 -0300] "GET /cgi-bin/try/ HTTP/1.0" 200 3395',
    same: { method: 'GET', path: '/cgi-bin/try/' },
    named: {
      host: ['192.168.2.20', 'client', '192.168.2.20'],
      user: ['-', 'user', undefined],
      time: ['28/Jul/2006:10:27:10 -0300', 'timestamp', '2006-07-28T13:27:10.000Z'],
      code: ['200', 'status', 200],
      size: ['3395', 'bytes', 3395],
    },
  },
  {
    parser: 'nginx',
    codec: { codec: 'nginx' },
    line: NGINX,
    same: { user: 'ada', method: 'GET', path: '/cgi-bin/try/?a=b', referer: 'http://a.example/' },
    named: {
      remote: ['192.0.2.7', 'client', '192.0.2.7'],
      code: ['200', 'status', 200],
      size: ['3395', 'bytes', 3395],
      agent: ['curl/8.5.0', 'user_agent', 'curl/8.5.0'],
    },
  },
  {
    parser: 'json',
    codec: { codec: 'json' },
    line: '{"key1":12345,"key2":"abc","time":"2006-07-28T13:22:04Z"}',
    same: { key1: 12345, key2: 'abc', time: '2006-07-28T13:22:04Z' },
  },
  {
    parser: 'docker',
    codec: { codec: 'docker_json' },
    line: '{"log":"{\\"status\\": \\"up\\"}\\r\\n","stream":"stdout","time":"2018-03-09T01:01:44.851160855Z"}',
    same: { stream: 'stdout' },
    named: {
      log: ['{"status": "up"}\r\n', 'message', '{"status": "up"}'],
      time: ['2018-03-09T01:01:44.851160855Z', 'timestamp', '2018-03-09T01:01:44.851160855Z'],
    },
  },
  {
    parser: 'cri',
    codec: { codec: 'cri' },
    line: '2020-10-10T00:10:00.333333333Z stdout F Hello',
    same: { message: 'Hello', stream: 'stdout' },
    named: {
      time: ['2020-10-10T00:10:00.333333333Z', 'timestamp', '2020-10-10T00:10:00.333333333Z'],
      logtag: ['F', 'partial', undefined],
    },
  },
  {
    parser: 'syslog-rfc5424',
    codec: { codec: 'syslog' },
    line: '<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su 77 ID47 - it failed',
    same: { message: 'it failed' },
    named: {
      time: ['2003-10-11T22:14:15.003Z', 'timestamp', '2003-10-11T22:14:15.003Z'],
      host: ['mymachine.example.com', 'host', 'mymachine.example.com'],
      ident: ['su', 'app', 'su'],
      pid: ['77', 'pid', '77'],
      msgid: ['ID47', 'msgid', 'ID47'],
    },
  },
  {
    parser: 'syslog-rfc3164',
    codec: { codec: 'syslog' },
    line: '<34>Oct 11 22:14:15 mymachine su[230]: it failed',
    same: { host: 'mymachine', message: 'it failed' },
    named: { ident: ['su', 'app', 'su'], pid: ['230', 'pid', '230'] },
  },
  {
    parser: 'logfmt',
    codec: { codec: 'logfmt' },
    line: 'key1=val1 key2=val2 key3',
    same: { key1: 'val1', key2: 'val2', key3: true },
  },
  {
    parser: 'ltsv',
    codec: { codec: 'key_value', key_value_delimiter: ':', field_delimiter: '\t' },
    line: 'host:127.0.0.1\tident:-\ttime:[10/Jul/2018:13:27:05 +0200]\treq:GET / HTTP/1.1\tsize:16218\treferer:http://127.0.0.1/\tua:curl (x; y: 59.0)',
    same: {
      ...{ host: '127.0.0.1', ident: '-', time: '[10/Jul/2018:13:27:05 +0200]', req: 'GET / HTTP/1.1', size: '16218' },
      ...{ referer: 'http://127.0.0.1/', ua: 'curl (x; y: 59.0)' },
    },
  },
  {
    parser: 'regex with named groups',
    codec: { codec: 'regex', pattern: '^(?<INT>[^ ]+) (?<FLOAT>[^ ]+) (?<BOOL>[^ ]+) (?<STRING>.+)$' },
    line: '100 0.5 true This is example',
    same: { INT: '100', FLOAT: '0.5', BOOL: 'true', STRING: 'This is example' },
  },
]

t.test('what the documented parsers of Fluent Bit find, our codecs find', async t => {
  for (const { parser, codec, line, same = {}, named = {} } of PARSERS) {
    const { codec: name, ...options } = codec as { codec: string }
    const found = readFields(codecOf(name, options)!, Buffer.from(line)) as Record<string, unknown>
    for (const [field, value] of Object.entries(same)) t.equal(found[field], value, `${parser}: ${field}`)
    for (const [field, [, here, value]] of Object.entries(named))
      t.equal(found[here], value, `${parser}: ${field} is ${here} here`)
  }
})
