import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { batchOf } from '../../../support/batches.js'

t.test('an event is written as a message of RFC 5424', async t => {
  const syslog = codecOf('syslog')!
  const time = '2026-01-31T12:00:00.123456+01:00'
  const cases: [string, object, string][] = [
    [
      'all fields',
      { message: 'a b', timestamp: time, host: 'h', app: 'a', pid: 7, msgid: 'm', facility: 'cron', severity: 'err' },
      `<75>1 ${time} h a 7 m - a b`,
    ],
    ['none', {}, '<14>1 - - - - - -'],
    ['a severity by another name', { message: 'm', level: 'ERROR' }, '<11>1 - - - - - - m'],
    ['the severity before the level', { message: 'm', severity: 'debug', level: 'error' }, '<15>1 - - - - - - m'],
    ['a severity by number', { message: 'm', severity: 'x', severity_code: 2 }, '<10>1 - - - - - - m'],
    ['numbers that are no severity', { message: 'm', severity_code: 8, level: 30 }, '<14>1 - - - - - - m'],
    ['another timestamp', { message: 'm', timestamp: 'Jan 31 12:00:00' }, '<14>1 - - - - - - m'],
    ['words', { message: 'm', host: 'a b\n\u00e9', app: 'x'.repeat(60) }, `<14>1 - a_b__ ${'x'.repeat(48)} - - - m`],
    ['line ends', { message: 'a\r\nb\nc\r' }, '<14>1 - - - - - - a b c '],
    [
      'structured data',
      { message: '', structured_data: { 'a@1': { 'x y=': 'q"b]\\\n', n: 1, l: ['a', 'b'] }, e: {}, s: 'text' } },
      '<14>1 - - - - - [a@1 x_y_="q\\"b\\]\\\\ " n="1" l="a" l="b"][e][s]',
    ],
    [
      'names that become the same',
      { structured_data: { 'a b': { x: 1 }, a_b: { x: 2, 'y]': 3 } } },
      '<14>1 - - - - - [a_b x="1" x="2" y_="3"]',
    ],
    ['no structured data', { message: 'm', structured_data: [1] }, '<14>1 - - - - - - m'],
    ['no message', { host: 'h', user: 'u', n: 1 }, '<14>1 - h - - - - {"user":"u","n":1}'],
    ['a message that is no text', { message: { a: 1 } }, '<14>1 - - - - - - {"a":1}'],
  ]
  for (const [what, event, line] of cases) {
    t.equal(syslog.encode!(event as never), line, what)
    const batch = batchOf([line], { decode: 'syslog' })
    t.equal(batch.scan(), 0, what)
    const read = syslog.fields(batch.chunk, batch.starts[0]!, batch.ends[0]!, 0)
    if (what !== 'none') t.equal(syslog.encode!(read), line, `${what}, read again`)
  }
})
