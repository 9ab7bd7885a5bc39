import { inspect, isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { codecOf, codecs } from '../../../../src/core/codecs/list.js'
import { FACILITIES, SEVERITIES } from '../../../../src/core/codecs/syslog/syslog-header.js'
import type { Fields } from '../../../../src/core/event/event-fields.js'
import { parseIsoTime } from '../../../../src/lib/formats/iso-time.js'
import { batchOf } from '../../../support/batches.js'
import { fuzzCodecs } from '../../../support/codec-fuzz.js'
import { Seeded } from '../../../support/seeded.js'

const PARTS = [...'ab =,;"\'\\/\t\r\0\x7f', 'é', '\u2028', '\u{1f600}', '\\n', 'true', 'null', '{}', '1.5']
const RUNS = 500

type Make = (random: Seeded) => unknown

const text =
  (parts: readonly string[], least = 0): Make =>
  random =>
    Array.from({ length: least + random.below(5) }, () => random.pick(parts)).join('')
const anyText = text([...PARTS, '\n'])
const number: Make = random => random.pick([0, 1, -1.5, 1e21, 2 ** 53, 1e-9, random.below(1e9)])

const anyValue: Make = random => {
  const kind = random.below(6)
  if (kind === 0) return random.pick([null, true, false])
  if (kind === 1) return number(random)
  if (kind === 2) return Array.from({ length: random.below(3) }, () => anyValue(random))
  return kind === 3 ? object(anyText, anyValue)(random) : anyText(random)
}

/** Up to six members with these names and values. */
function object(name: Make, value: Make): (random: Seeded) => Fields {
  return random =>
    Object.fromEntries(Array.from({ length: random.below(6) }, () => [String(name(random)), value(random)]))
}

const name = text([...'abc_-.0'], 1)
const word = text([...'ab"\\=],/.0'], 1)
const level: Make = random => random.below(8)
const time: Make = random => new Date(random.below(2e12)).toISOString()

/** What each codec can say: its options, and events that it reads as it writes them. */
const SAYS: Record<string, { options?: object; event: (random: Seeded) => Fields }> = {
  json: { event: object(anyText, anyValue) },
  msgpack: { event: object(anyText, anyValue) },
  protobuf: {
    options: {
      descriptor: codecs.find(({ name }) => name === 'protobuf')!.examples[0].yaml.split(/\s/)[1],
      message: 'Event',
    },
    event: object(anyText, anyValue),
  },
  // A line needs a value, and values are text.
  logfmt: {
    event: random => ({
      ...object(text([...'aé/\\{}.,0'], 1), anyText)(random),
      z: anyText(random),
    }),
  },
  csv: {
    options: { columns: ['a', 'b', 'c'], delimiter: ';' },
    event: random => ({ a: text(PARTS)(random), b: text(PARTS)(random), c: text(PARTS)(random) }),
  },
  syslog: {
    event: random => {
      const line = text(PARTS.filter(part => part !== '\r'))
      const code = random.below(8)
      const data = random.chance(0.5) && { [String(text([...'ab_.@'], 1)(random))]: object(name, line)(random) }
      return {
        message: line(random),
        facility: random.pick(FACILITIES),
        severity: SEVERITIES[code],
        severity_code: code,
        ...(random.chance(0.5) && { timestamp: time(random) }),
        ...(random.chance(0.5) && { host: word(random), app: word(random), pid: word(random), msgid: word(random) }),
        ...(data && { structured_data: data }),
      }
    },
  },
  gelf: {
    event: random => {
      const others = Object.entries(object(name, r => (r.chance(0.3) ? number(r) : anyText(r)))(random))
      return {
        ...Object.fromEntries(others.map(([key, value]) => [`x${key}`, value])),
        message: text(PARTS, 1)(random),
        host: text(PARTS, 1)(random),
        ...(random.chance(0.5) && { timestamp: time(random) }),
        ...(random.chance(0.5) && { level: level(random) }),
        ...(random.chance(0.5) && { full_message: anyText(random) }),
      }
    },
  },
}

t.test('what a codec can say, it reads as it has written it', t => {
  for (const definition of codecs) {
    const says = SAYS[definition.name]
    const codec = codecOf(definition.name, says?.options)
    if (!definition.contentType || codec?.name !== definition.name) continue
    if (!says) t.fail(`${definition.name} has events of its own in this table`)
    const random = new Seeded(1)
    let wrong: unknown
    for (let n = 0; n < RUNS && !wrong; n++) {
      const event = says!.event(random)
      const line = codec.encode!(event)
      const bytes = Buffer.from(line)
      const found = codec.fields(bytes, 0, bytes.length, 0)
      if (!isDeepStrictEqual({ ...found }, { ...event })) wrong = { event, line, found }
    }
    t.equal(wrong && inspect(wrong).replaceAll('\u2028', '?'), undefined, definition.name)
  }
  t.end()
})

t.test('no damaged line is too much for a codec', async t => {
  t.same(fuzzCodecs({ seed: 14, rounds: 4, longBytes: 100_000, shapes: 5 }).problems, [])
})

t.test('a line of 10 MB of a bad shape is read in a time that grows with its length alone', async t => {
  t.same(fuzzCodecs({ seed: 7, rounds: 0, longBytes: 10_000_000, shapes: 1 }).problems, [])
})

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
