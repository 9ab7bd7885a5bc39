import type { Seeded } from './seeded.js'

/** Lines of formats, in every form that programs write, nearly so, or not at all. */

const HOSTS = ['', '', '', 'www.example.com:443 ', '[::1]:80 ', '::1:80 ', 'a:123456 ', ':80 ', 'a:080 ', 'a"b:8 ']
const CLIENTS = [
  '192.0.2.7',
  '192.0.2.7',
  '2001:db8::1',
  '-',
  '',
  'é',
  'a"b',
  'a:80',
  '[x',
  '\ufeff192.0.2.7',
  '/////////',
]
const USERS = ['-', '-', '-', 'ada', 'Ada Lovelace', 'a [b', '"', '', 'ü', '--', ' ']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec', 'jan', 'Foo']
const ACCESS_ZONES = ['+0000', '+0000', '+0100', '-0730', '+2359', '-2359', '+2400', '+0160', '+01:00', 'Z', '0000']
const REQUESTS = [
  ...[
    'GET /a?b=1 HTTP/1.1',
    'GET /api/v1/orders/293 HTTP/2.0',
    'POST / HTTP/1.0',
    'GET /a b HTTP/1.1',
    'GET - HTTP/1.1',
  ],
  ...['', '-', 'GET', 'GET /', 'GET  HTTP/1.1', ' HTTP/1.1', 'GET / HTTP/', 'M-SEARCH * HTTP/1.1', 'É / HTTP/1.1', 'x'],
  ...['\\x16\\x03', 'GET /\\" HTTP/1.1', 'GET /é HTTP/1.1', 'GET /\u007f HTTP/1.1', 'G\u007f / HTTP/1.1', '"'],
]
const NUMBERS = [
  '200',
  '200',
  '404',
  '0',
  '00',
  '007',
  '-',
  '',
  '--',
  '1.5',
  '123456789012345',
  '1234567890123456',
  'x',
  ' 1',
]
const QUOTED = [
  ...[
    '"-"',
    '"-"',
    '-',
    '""',
    '"curl/8.5.0"',
    '"Mozilla/5.0 (X11; Linux x86_64) Firefox/147.0"',
    '"https://example.com/"',
  ],
  ...['"é"', '"a\\"b"', '"\\x22"', 'x', '"', '', '"a"b', '--', '-x', 'rt=0.1 uct="0.2"', '"😀"', '"\t"'],
]
const DAMAGES = [' ', '"', '\\', '[', ']', '-', '\t', '\u0000', '\u007f', 'é', '', '', '  ', '/', ':', '\r', '\\u0041']
const ACCESS_OTHERS = [
  '',
  ' ',
  '-',
  '- - - [',
  '{"a":1}',
  '2026/01/31 12:00:00 [error] 31#31: *7 open() failed, client: 192.0.2.7',
]

export function accessLine(random: Seeded): Buffer {
  if (random.chance(0.02)) return Buffer.from(random.pick(ACCESS_OTHERS))
  // Most parts of most lines are the usual ones.
  const strange = random.pick([0, 0, 0.05, 0.3])
  const pick = (choices: readonly string[]) => (random.chance(strange) ? random.pick(choices) : choices[0]!)
  let line = `${random.chance(0.1) ? random.pick(HOSTS) : ''}${pick(CLIENTS)} ${pick(USERS)} ${pick(USERS)} `
  line += `[${accessTime(random, strange)}] "${random.chance(0.5) ? REQUESTS[1] : pick(REQUESTS)}" ${pick(NUMBERS)} ${random.below(1e6)}`
  for (let n = random.below(5); n > 0; n--) line += ` ${random.chance(0.5) ? random.pick(QUOTED) : QUOTED[4]}`
  if (random.chance(0.2)) line = damaged(random, line)
  const bytes = Buffer.from(line.replaceAll('\n', ''))
  if (random.chance(0.0002) && bytes.length > 0) bytes[random.below(bytes.length)] = 0xff
  return bytes
}

function accessTime(random: Seeded, strange: number): string {
  const two = (end: number) => {
    const value = random.chance(strange) ? random.pick([0, end, 61, 99]) : random.below(end)
    return String(value).padStart(2, '0')
  }
  const month = MONTHS[random.below(random.chance(strange) ? MONTHS.length : 12)]
  const year = random.chance(0.2) ? String(random.below(10_000)).padStart(4, '0') : '2026'
  const zone = random.chance(0.3) ? random.pick(ACCESS_ZONES) : ACCESS_ZONES[0]
  return `${two(32)}/${month}/${year}:${two(24)}:${two(60)}:${two(random.chance(0.01) ? 62 : 60)} ${zone}`
}

/** The line with something else at some place. */
function damaged(random: Seeded, line: string): string {
  const at = random.below(line.length + 1)
  return line.slice(0, at) + random.pick(DAMAGES) + line.slice(at + random.below(3))
}

const SECONDS = [
  '2026-01-31T12:00:00',
  '2026-01-31T12:00:01',
  '2024-02-29T23:59:59',
  '2023-02-29T00:00:00',
  '0000-02-29T00:00:00',
]
const STRANGE_SECONDS = [
  '2026-13-01T00:00:00',
  '2026-00-01T00:00:00',
  '2026-04-31T00:00:00',
  '2026-01-31T24:00:00',
  '2026-01-31T12:00:60',
]
const OTHER_SECONDS = ['2026-01-31 12:00:00', '20260131T120000', '2026-01-31T12:00', '2026-01-31t12:00:00', '']
const FRACTIONS = ['.123456789', '.123456789', '.5', '', '.', ',5']
const CRI_ZONES = ['Z', 'Z', '+01:00', '-07:30', '+24:00', '+0100', 'z', '', '+01:60']
const CRI_STREAMS = ['stdout', 'stdout', 'stderr', 'stdin', 'stdour', 'STDOUT']
const TAGS = ['F', 'F', 'P', 'F:x', 'P:x', 'FF', 'X', '']
const CRI_PARTS = [
  ...[
    '{"level":"info","msg":"done"}',
    'a text of some length, with words',
    '\u001b[32mok\u001b[0m',
    'a\tb',
    '\\',
    '"',
    ' ',
  ],
  ...['é', '😀', '\u0000\u0001\u001f', '\b\f\r', '\u007f', 'C:\\temp\\', '\u2028'],
]

export function criLine(random: Seeded): Buffer {
  const strange = random.pick([0, 0, 0.1])
  const pick = (choices: readonly string[], usual = 3) =>
    random.chance(strange) ? random.pick(choices) : choices[random.below(usual)]!
  const second = random.chance(strange) ? random.pick([...STRANGE_SECONDS, ...OTHER_SECONDS]) : random.pick(SECONDS)
  let line = `${second}${pick(FRACTIONS)}${pick(CRI_ZONES)} ${pick(CRI_STREAMS)} ${pick(TAGS, 2)} `
  for (let n = random.below(6); n > 0; n--) line += random.pick(CRI_PARTS)
  if (random.chance(0.1)) line = damaged(random, line)
  return Buffer.from(line.replaceAll('\n', ''))
}

const DOCKER_PARTS = [
  ...[
    'a text of some length, with words',
    '"',
    '\\',
    '\\n',
    '\n',
    '\t',
    '\u001b[32mok\u001b[0m',
    '{"a":"b"}',
    'é',
    '😀',
    ' ',
  ],
  ...['\u0000', '<b>', '\r', '\\"'],
]
const DOCKER_LINE_ENDS = ['\n', '\n', '\n', '\n', '\r\n', '', 'n', '\\n', '\r']
const DOCKER_STREAMS = ['stdout', 'stdout', 'stderr', '', 'st"d']
const DOCKER_TIMES = ['2026-01-31T12:00:00.123456789Z', '2026-01-31T12:00:01.5Z', '', 'no time']

export function dockerLine(random: Seeded): Buffer {
  let log = ''
  for (let n = random.below(6); n > 0; n--) log += random.pick(DOCKER_PARTS)
  const text = JSON.stringify(log + random.pick(DOCKER_LINE_ENDS))
  const members = [
    `"log":${random.chance(0.3) ? text.replace('<', '\\u003c') : text}`,
    `"stream":${JSON.stringify(random.pick(DOCKER_STREAMS))}`,
    `"time":${JSON.stringify(random.pick(DOCKER_TIMES))}`,
  ]
  if (random.chance(0.1)) members.splice(random.below(4), random.below(2), '"attrs":{"app":"shop"}')
  let line = `{${members.join(random.chance(0.05) ? ', ' : ',')}}`
  if (random.chance(0.1)) line = damaged(random, line)
  return Buffer.from(line.replaceAll('\n', ''))
}

const KLOG_LEVELS = ['I', 'I', 'W', 'E', 'F', 'D', '', ' I', '\tE']
const KLOG_DATES = ['0101', '1231', '0630', '0701', '0131', '0228', '0229', '0431', '1301', '0100', '0001', '032']
const KLOG_IDS = ['1', '28133', '0', '007', '-', 'x', '']
const KLOG_FILES = ['file.go:12', 'a/b.go:1', 'a:b:2', ':3', 'file.go', 'é.go:4', 'f:05', 'f:-']
const KLOG_TEXTS = [
  'started',
  '"a" and \\b',
  'é\t',
  'two\r',
  '',
  ' led by a space',
  '] [',
  '\u001b[0m',
  'over the usual length of 32',
]
const KLOG_ENDS = ['', '', ' ', '\t ', '\n']

export function klogLine(random: Seeded): Buffer {
  const strange = random.pick([0, 0, 0.2])
  const pick = (choices: readonly string[], usual: number) =>
    random.chance(strange) ? random.pick(choices) : choices[random.below(usual)]!
  const two = (end: number) => {
    const value = random.chance(strange) ? random.pick([0, end, 61, 99]) : random.below(end)
    return String(value).padStart(2, '0')
  }
  const time = `${two(24)}:${two(60)}:${two(60)}.${String(random.below(1e6)).padStart(6, '0')}`
  const pid = `${' '.repeat(random.below(4))}${pick(KLOG_IDS, 2)}`
  let line = `${pick(KLOG_LEVELS, 5)}${pick(KLOG_DATES, 6)} ${time} ${pid} ${pick(KLOG_FILES, 3)}] ${random.pick(KLOG_TEXTS)}`
  line += random.pick(KLOG_ENDS)
  if (random.chance(0.1)) line = damaged(random, line)
  return Buffer.from(line.replaceAll('\n', ''))
}
