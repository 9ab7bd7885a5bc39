import t, { type Test } from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { casesOf } from '../../../support/cases.js'
import { agreesWithFields, fuzz, readFields } from '../../../support/codecs.js'

type Case = readonly [line: string, fields: Readonly<Record<string, unknown>> | string]
const cases = casesOf<Record<'nginx' | 'apache', readonly Case[]>>(import.meta.url)

function check(t: Test, name: 'nginx' | 'apache'): void {
  const codec = codecOf(name)!
  for (const [line, wanted] of cases[name]) {
    const bytes = Buffer.from(line)
    const found = readFields(codec, bytes)
    if (typeof wanted === 'string') {
      t.equal(found, undefined, line)
      t.match(codec.problem!(bytes, 0, bytes.length), new RegExp(wanted), line)
    } else {
      const iso = new Date(String(wanted.timestamp)).toISOString()
      const micros = /\.\d{3}(\d{3})$/.exec(String(wanted.timestamp))?.[1] ?? ''
      t.same(found, { ...wanted, timestamp: iso.replace('Z', `${micros}Z`) }, line)
    }
  }
  t.end()
}

t.test('nginx: what its access log and its error log say', t => {
  check(t, 'nginx')
})

t.test('apache: common, combined, vhost_combined, and its error log', t => {
  check(t, 'apache')
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
