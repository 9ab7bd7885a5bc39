import t from 'tap'
import { parseIsoTime } from '../../../../src/lib/formats/iso-time.js'
import { batchOf } from '../../../support/batches.js'

const RECEIVED = Date.UTC(2017, 0, 1, 0, 1)
const UTC = Date.UTC(2017, 0, 1)
/** Of a line without a zone. */
const LOCAL = new Date(2017, 0, 1).getTime()

t.test('a leap second is the first second of the next minute, whichever codec reads it', t => {
  for (const [decode, line, time] of [
    ['json', '{"timestamp":"2016-12-31T23:59:60Z"}', UTC],
    ['logfmt', 'timestamp=2016-12-31T23:59:60Z a=b', UTC],
    ['cri', '2016-12-31T23:59:60.5Z stdout F a', UTC + 500],
    ['docker_json', '{"log":"a\\n","stream":"stdout","time":"2016-12-31T23:59:60.5Z"}', UTC + 500],
    ['gelf', '{"version":"1.1","host":"h","short_message":"m","timestamp":"2016-12-31T23:59:60Z"}', UTC],
    ['klog', 'I1231 23:59:60.500000 1 a.go:7] x', UTC + 500],
    ['nginx', '192.0.2.1 - - [31/Dec/2016:23:59:60 +0000] "GET / HTTP/1.1" 200 1 "-" "-"', UTC],
    ['apache', '192.0.2.1 - - [31/Dec/2016:23:59:60 +0000] "GET / HTTP/1.1" 200 1', UTC],
    ['apache', '[Sat Dec 31 23:59:60.500000 2016] [core:error] [pid 1] m', LOCAL + 500],
    ['syslog', '<13>Dec 31 23:59:60 h a: m', LOCAL],
    ['syslog', '<13>1 2016-12-31T23:59:60Z h a - - - m', UTC],
  ] as const) {
    const { timestamp } = batchOf([line], { decode, receivedAt: RECEIVED }).fields(0)
    const text = Buffer.from(String(timestamp))
    t.equal(parseIsoTime(text, 0, text.length), time, `${decode}: ${line}: ${text}`)
  }
  t.end()
})
