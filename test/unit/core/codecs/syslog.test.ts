import { execFileSync } from 'node:child_process'
import t from 'tap'
import { encodeLines, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { structuredData } from '../../../../src/core/codecs/syslog/syslog-data.js'
import { scanSyslog } from '../../../../src/core/codecs/syslog/syslog-header.js'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader, MISSING } from '../../../../src/core/event/field-reader.js'
import type { Origin } from '../../../../src/core/event/origin.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { casesOf } from '../../../support/cases.js'
import { Seeded } from '../../../support/seeded.js'

/** In the middle of a year, so that no timestamp below is nearer to another one. */
const WALL = new Date(2026, 6, 1).getTime()
const local = (month: number, day: number, ...time: number[]) =>
  new Date(2026, month - 1, day, ...(time as [number, number, number])).toISOString()
const parseSyslog = (b: Buffer, start: number, end: number, wall: number) =>
  scanSyslog(b, start, end) ? codecOf('syslog')!.fields(b, start, end, wall) : undefined
const parse = (line: string, wall = WALL) => {
  const bytes = Buffer.from(`<191>1 ${line} ]`)
  return parseSyslog(bytes, 7, bytes.length - 2, wall)
}
/** For the name of a test: in one line of ASCII. */
const shown = (line: string) => JSON.stringify(line).replace(/[^ -~]/g, '?')
const FACILITIES: Record<number, string> = { 0: 'kern', 1: 'user', 4: 'auth', 16: 'local0', 20: 'local4', 23: 'local7' }
const of = (priority: number) => ({
  facility: FACILITIES[priority >> 3],
  severity: 'emerg alert crit err warning notice info debug'.split(' ')[priority & 7],
  severity_code: priority & 7,
})

type Fields = Readonly<Record<string, unknown>>
const tables = casesOf<{ rfc5424: [string, Fields][]; rfc3164: [string, Fields][]; others: string[] }>(import.meta.url)

/** A local time in UTC, with all digits of its fraction. */
function inUtc(local: string): string {
  const [fraction = '.000'] = /\.\d+$/.exec(local) ?? []
  return new Date(local).toISOString().replace(/\.\d+Z$/, `${fraction}Z`)
}

/** The fields of a line that the table says in short. */
function expected([line, { priority, timestamp, ...rest }]: [string, Fields]): [string, Fields] {
  const time = typeof timestamp === 'string' && {
    timestamp: /(Z|[+-]\d\d:\d\d)$/.test(timestamp) ? timestamp : inUtc(timestamp),
  }
  return [line, { ...rest, ...time, ...(typeof priority === 'number' && of(priority)) }]
}

/** Lines that some test is about. */
const seen: string[] = []

t.test('RFC 5424', async t => {
  const cases = [
    ...tables.rfc5424.map(expected),
    [
      '<13>1 - - - - - [origin ip="a]b" x="\u00a0 \u3000" \u3000\u2028="y" ][__proto__ __proto__="own"] m',
      {
        message: 'm',
        ...of(13),
        structured_data: Object.fromEntries([
          ['origin', { ip: 'a]b', x: '\u00a0 \u3000', '\u3000\u2028': 'y' }],
          ['__proto__', Object.fromEntries([['__proto__', 'own']])],
        ]),
      },
    ],
  ] as [string, object][]
  for (const [line, fields] of cases) t.strictSame(parse(line), fields, shown(line))
  seen.push(...cases.map(([line]) => line))
})

t.test('RFC 3164, and what is sent in its place', async t => {
  const cases = [...tables.rfc3164.map(expected), ...tables.others.map(line => [line, undefined] as const)]
  for (const [line, fields] of cases) t.strictSame(parse(line), fields, shown(line))
  seen.push(...cases.map(([line]) => line))
})

t.test('nothing outside of the line matters', async t => {
  const behind = ['', ' ', ':', ']', '"', '1', '\ufeff', ' \ufeff'].map(text => Buffer.from(text))
  let wrong = 0
  for (const text of seen) {
    const line = Buffer.from(text)
    for (let end = 0; end <= line.length; end++) {
      const alone = JSON.stringify(parseSyslog(Buffer.from(line.subarray(0, end)), 0, end, WALL))
      for (const rest of [line.subarray(end), ...behind]) {
        const among = Buffer.concat([Buffer.from('<13>'), line.subarray(0, end), rest])
        if (JSON.stringify(parseSyslog(among, 4, 4 + end, WALL)) === alone) continue
        if (wrong++ < 5) t.fail(`${end} bytes of ${shown(text)}, then ${shown(rest.toString())}`)
      }
    }
  }
  t.equal(wrong, 0)
})

t.test('the year of a timestamp without one is the one that brings it nearest', async t => {
  const cases: [string, Date, Date | undefined][] = [
    ['Dec 31 23:59:59', new Date(2027, 0, 1), new Date(2026, 11, 31, 23, 59, 59)],
    ['Jan  1 00:00:01', new Date(2026, 11, 31, 23, 59), new Date(2027, 0, 1, 0, 0, 1)],
    ['Jun 30 00:00:00', new Date(2026, 0, 10), new Date(2026, 5, 30)],
    ['Aug 30 00:00:00', new Date(2026, 0, 10), new Date(2025, 7, 30)],
    ['Feb 29 12:00:00', new Date(2028, 1, 29, 12), new Date(2028, 1, 29, 12)],
    ['Feb 29 12:00:00', new Date(2029, 0, 5), new Date(2028, 1, 29, 12)],
    ['Feb 29 12:00:00', new Date(2026, 5, 1), undefined],
    ['Feb 30 12:00:00', new Date(2028, 5, 1), undefined],
    ['Dec 31 2020 23:59:59', new Date(2027, 0, 1), new Date(2020, 11, 31, 23, 59, 59)],
  ]
  for (const [written, wall, expected] of cases) {
    t.equal(
      parse(`<13>${written} h a: m`, wall.getTime())?.timestamp,
      expected?.toISOString(),
      `${written} in ${wall.toDateString()}`,
    )
  }
  // The zone of a process is read once.
  const module = new URL('../../../../src/core/codecs/list.js', import.meta.url).href
  const script = `import { codecOf } from ${JSON.stringify(module)}
for (const [line, wall] of [['<13>Jul  4 12:00:00 h a: m', Date.UTC(2026, 6, 5)], ['<13>Jan  4 12:00:00 h a: m', Date.UTC(2026, 0, 5)]])
  console.log(codecOf('syslog').fields(Buffer.from(line), 0, line.length, wall).timestamp)`
  const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, TZ: 'America/New_York' },
    encoding: 'utf8',
  })
  t.equal(said, '2026-07-04T16:00:00.000Z\n2026-01-04T17:00:00.000Z\n', 'local time, in summer and in winter')
})

function batchOf(
  bytes: Buffer,
  origin: Partial<Origin> = {},
  wanted = new WantedNames(),
  maxLineBytes = 1 << 20,
): EventBatch {
  const splitter = new LineSplitter(maxLineBytes)
  const frame = splitter.push(bytes) ?? splitter.flush()!
  return new EventBatch(
    frame,
    { source: 'in', host: 'here', codec: codecOf('syslog')!, wanted, ...origin },
    WALL,
    new Ack(() => {}),
  )
}

t.test('events: what a line lacks, and lines that are none', async t => {
  const lines = Buffer.from('<13>Oct 11 22:14:15 h a[1]: one\nnone\n<13>1 - - - - - - three\r\n\n')
  const at = { timestamp: new Date(WALL).toISOString() }
  const batch = batchOf(lines, { peer: '192.0.2.7' })
  t.equal(batch.scan(), 2, 'lines that are not syslog')
  const fields = [
    {
      message: 'one',
      timestamp: local(10, 11, 22, 14, 15),
      host: 'h',
      app: 'a',
      pid: '1',
      ...of(13),
      peer: '192.0.2.7',
    },
    { message: 'none', peer: '192.0.2.7', host: 'here', ...at },
    { message: 'three', ...of(13), peer: '192.0.2.7', host: '192.0.2.7', ...at },
    { message: '', peer: '192.0.2.7', host: 'here', ...at },
  ]
  t.strictSame(
    [0, 1, 2, 3].map(i => batch.fields(i)),
    fields,
  )
  t.strictSame(
    [0, 1, 2, 3].map(i => batch.fields(i)),
    fields,
  )
  const encoded = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).toString()
  t.strictSame(
    encoded
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
    fields,
    'as JSON',
  )
  t.same(Buffer.concat(new RawEncoder().encode([batch]).parts), lines, 'raw: as it was read')
  t.strictSame(batchOf(lines, { path: '/var/log/x' }).fields(2), {
    message: 'three',
    ...of(13),
    file: '/var/log/x',
    host: 'here',
    ...at,
  })
  const text = batchOf(lines, { codec: TEXT_LINES, peer: '192.0.2.7' })
  t.equal(text.scan(), 0, 'text is text')
  t.strictSame(text.fields(0), { message: '<13>Oct 11 22:14:15 h a[1]: one', peer: '192.0.2.7', host: 'here', ...at })
  t.strictSame(
    Buffer.concat(encodeLines(JSON_OBJECTS, [text]).parts)
      .toString()
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line)),
    [0, 1, 2, 3].map(i => text.fields(i)),
    'text with a peer, as JSON',
  )
  batch.modify(1, { changed: true })
  t.strictSame(batch.fields(1), { changed: true })
})

t.test('events: pieces and invalid UTF-8', async t => {
  const long = batchOf(Buffer.from(`<13>a: ${'x'.repeat(20)}<13>b: y\n`), {}, new WantedNames(), 16)
  t.equal(long.length, 3)
  t.equal(long.scan(), 2, 'only the first piece is syslog')
  t.match(long.fields(0), { app: 'a', message: 'xxxxxxxxx', partial: 'first' })
  t.match(long.fields(1), { message: 'xxxxxxxxxxx<13>b', partial: 'middle' })
  t.match(long.fields(2), { message: ': y', partial: 'last' })
  t.equal(Buffer.concat(new RawEncoder().encode([long]).parts).toString(), `<13>a: ${'x'.repeat(20)}<13>b: y\n`)
  const invalid = Buffer.concat([Buffer.from('<13>a: \xc3', 'latin1'), Buffer.from('\n')])
  const batch = batchOf(invalid)
  t.match(batch.fields(0), { app: 'a', message: '\ufffd', raw: invalid.subarray(0, -1).toString('base64') })
})

t.test('every reader sees what the fields say, whatever the bytes', async t => {
  const names =
    '.message .timestamp .host .app .pid .msgid .facility .severity .severity_code .structured_data .peer .file .none .structured_data.a.b'
  const random = new Seeded(3164)
  const seeds = [
    '<34>1 2003-10-11T22:14:15.003Z host su 12 ID47 [a b="c"][d e="\\]"] \ufeffmessage',
    '<13>Oct 11 22:14:15 host app[123]: message',
    '<13>Nov  1 2:4:5 app: message',
    '2026-11-20T08:14:26.123456+01:00 web1 nginx[4]: GET /',
    '<1>1 - - - - - -',
  ].map(line => Buffer.from(line))
  const bytes = Buffer.from('<>[]"\\=: -1aT.Z+\xef\xbb\xbf\xc3', 'latin1')
  for (let round = 0; round < 3000; round++) {
    const line = Buffer.from(random.pick(seeds))
    for (let n = random.below(5); n > 0; n--) line[random.below(line.length)] = bytes[random.below(bytes.length)]!
    const cut = line.subarray(0, random.chance(0.3) ? random.below(line.length + 1) : line.length)
    const wanted = new WantedNames()
    const readers = names.split(' ').map(name => new FieldReader(parseFieldPath(name), wanted))
    const batch = batchOf(Buffer.concat([cut, Buffer.from('\n')]), { peer: 'p' }, wanted)
    const fields = JSON.parse(Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).toString())
    const [syslog, structured] = [fields, fields.structured_data?.a?.b]
    for (const [n, name] of names.split(' ').entries()) {
      const reader = readers[n]!
      const expected = n === 13 ? structured : syslog[name.slice(1)]
      const kind = reader.load(batch, 0)
      const value = kind === MISSING ? undefined : reader.value()
      if (JSON.stringify(value) !== JSON.stringify(expected))
        t.strictSame(value, expected, `${name} of ${cut.toString('latin1')}`)
    }
    if (!Buffer.concat(new RawEncoder().encode([batch]).parts).equals(Buffer.concat([cut, Buffer.from('\n')])))
      t.fail(`raw: ${cut.toString('latin1')}`)
  }
  t.pass('3000 lines')
})

t.test('a parameter that comes a hundred thousand times is read in time', async t => {
  const text = `[a${' b="c"'.repeat(150_000)}]`
  const before = process.cpuUsage()
  t.equal(structuredData(text).a!.b!.length, 150_000)
  t.ok(process.cpuUsage(before).user < 5_000_000)
})
