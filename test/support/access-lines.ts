import type { Seeded } from './seeded.js'

/** Lines of access logs, in every form that servers write, nearly so, or not at all. */

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
const ZONES = ['+0000', '+0000', '+0100', '-0730', '+2359', '-2359', '+2400', '+0160', '+01:00', 'Z', '0000']
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
const OTHERS = [
  '',
  ' ',
  '-',
  '- - - [',
  '{"a":1}',
  '2026/01/31 12:00:00 [error] 31#31: *7 open() failed, client: 192.0.2.7',
]

export class AccessLines {
  readonly #random: Seeded

  constructor(random: Seeded) {
    this.#random = random
  }

  line(): Buffer {
    const random = this.#random
    if (random.chance(0.02)) return Buffer.from(random.pick(OTHERS))
    // Most parts of most lines are the usual ones.
    const strange = random.pick([0, 0, 0.05, 0.3])
    const pick = (choices: readonly string[]) => (random.chance(strange) ? random.pick(choices) : choices[0]!)
    let line = `${random.chance(0.1) ? random.pick(HOSTS) : ''}${pick(CLIENTS)} ${pick(USERS)} ${pick(USERS)} `
    line += `[${this.#time(strange)}] "${random.chance(0.5) ? REQUESTS[1] : pick(REQUESTS)}" ${pick(NUMBERS)} ${random.below(1e6)}`
    for (let n = random.below(5); n > 0; n--) line += ` ${random.chance(0.5) ? random.pick(QUOTED) : QUOTED[4]}`
    if (random.chance(0.2)) line = damaged(random, line)
    const bytes = Buffer.from(line.replaceAll('\n', ''))
    if (random.chance(0.0002) && bytes.length > 0) bytes[random.below(bytes.length)] = 0xff
    return bytes
  }

  #time(strange: number): string {
    const random = this.#random
    const two = (end: number) => {
      const value = random.chance(strange) ? random.pick([0, end, 61, 99]) : random.below(end)
      return String(value).padStart(2, '0')
    }
    const month = MONTHS[random.below(random.chance(strange) ? MONTHS.length : 12)]
    const year = random.chance(0.2) ? String(random.below(10_000)).padStart(4, '0') : '2026'
    const zone = random.chance(0.3) ? random.pick(ZONES) : ZONES[0]
    return `${two(32)}/${month}/${year}:${two(24)}:${two(60)}:${two(random.chance(0.01) ? 62 : 60)} ${zone}`
  }
}

/** The line with something else at some place. */
export function damaged(random: Seeded, line: string): string {
  const at = random.below(line.length + 1)
  return line.slice(0, at) + random.pick(DAMAGES) + line.slice(at + random.below(3))
}
