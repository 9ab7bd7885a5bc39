import t from 'tap'
import { ReplyScanner } from '../../../../src/net/redis/reply-scanner.js'
import { seeded } from '../../../support/seeded.js'

const MOST = 1_000_000

/** Scans a text in parts of `size` bytes. Returns the error. */
function scanned(text: string, size = text.length, most = MOST): string | undefined {
  const scanner = new ReplyScanner(most)
  const bytes = Buffer.from(text, 'latin1')
  try {
    for (let p = 0; p < bytes.length; p += size) scanner.take(bytes.subarray(p, p + size))
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

const string = (text: string) => `$${text.length}\r\n${text}\r\n`
const array = (...items: string[]) => `*${items.length}\r\n${items.join('')}`

t.test('what a server announces is bounded before it is sent', async t => {
  const cases: readonly (readonly [text: string, error: RegExp | undefined])[] = [
    ['*33000000\r\n', /list/],
    ['*33000000\r\n'.repeat(30), /list/],
    ['*400000\r\n*400000\r\n*400000\r\n', /list/],
    [array('*600000\r\n'), undefined],
    [`*2\r\n*0\r\n${'*600000\r\n'.repeat(2)}`, /list/],
    ['*1\r\n'.repeat(16), undefined],
    ['*1\r\n'.repeat(17), /list/],
    [`${'*1\r\n'.repeat(16)}:1\r\n`.repeat(100), undefined],
    ['$2147483648\r\n', /reply/],
    ['$999999999\r\n', /reply/],
    [`$${MOST - 11}\r\n`, undefined],
    [`*2\r\n${string('x'.repeat(MOST / 2))}$${MOST / 2}\r\n`, /reply/],
    [string('x'.repeat(MOST / 2)).repeat(3), undefined],
    ['*99999999999999999999\r\n', /list/],
    ['*999999999999999999999\r\n', /line/],
    ['*33000000\r', /list/],
    ['$-2\r\n', /protocol/],
    ['$-\r\n', /protocol/],
    ['*1e5\r\n', /protocol/],
    ['*+1\r\n', /protocol/],
    ['*-10\r\n', /protocol/],
    ['*1-\r\n', /protocol/],
    [`:${'9'.repeat(400)}\r\n`, /line/],
    [':-9223372036854775808\r\n', undefined],
    [`+${'x'.repeat(8193)}`, /line/],
    [`-ERR ${'x'.repeat(8000)}\r\n`, undefined],
    ['+a\rX*33000000\r\n', /list/],
    ...[
      '>1\r\n',
      '%1\r\n',
      '~1\r\n',
      '|1\r\n',
      '(1\r\n',
      '=4\r\n',
      '!1\r\n',
      ',1\r\n',
      '#t\r\n',
      '_\r\n',
      'HTTP/1.1 400\r\n',
    ].map(text => [text, /protocol/] as const),
    ['*-1\r\n$-1\r\n$0\r\n\r\n*0\r\n', undefined],
  ]
  for (const [text, error] of cases)
    for (const size of [text.length, 1, 7]) {
      const found = scanned(text, size)
      if (error) t.match(found, error, `${text.slice(0, 30)} by ${size}`)
      else t.equal(found, undefined, `${text.slice(0, 30)} by ${size}`)
    }
})

t.test('any reply passes, in any parts, and the next one is found behind it', async t => {
  const random = seeded(7)
  const one = (levels: number): string => {
    const kind = Math.floor(random() * (levels > 0 ? 6 : 5))
    if (kind === 0) return '+OK\r\n'
    if (kind === 1) return `:${Math.floor(random() * 1e6) - 5e5}\r\n`
    if (kind === 2) return string('\r\n*99999999\r\n'.slice(0, Math.floor(random() * 14)))
    if (kind === 3) return random() < 0.5 ? '$-1\r\n' : '*-1\r\n'
    if (kind === 4) return '-ERR no\r\n'
    return array(...Array.from({ length: Math.floor(random() * 4) }, () => one(levels - 1)))
  }
  for (let n = 0; n < 300; n++) {
    const replies = Array.from({ length: 5 }, () => one(5)).join('')
    const size = 1 + Math.floor(random() * 20)
    t.equal(scanned(replies, size, replies.length), undefined)
    t.match(scanned(`${replies}>1\r\n`, size), /protocol/)
  }
})
