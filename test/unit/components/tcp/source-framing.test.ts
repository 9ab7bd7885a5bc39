import t from 'tap'
import { type FramingMode, framerOf } from '../../../../src/components/tcp/framer.js'
import type { Framer } from '../../../../src/components/tcp/octet-splitter.js'
import { RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import type { Origin } from '../../../../src/core/event/origin.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { CONTINUES, type Frame, LINE_END, PIECE } from '../../../../src/lib/lines/line-splitter.js'
import { Seeded } from '../../../support/seeded.js'

interface Line {
  readonly text: string
  readonly end: number
  readonly mark: number
}

/** What the frames say, copied at once: later bytes must not change what was given out. */
class Seen {
  readonly lines: Line[] = []
  readonly framer: Framer
  readonly #frames: { frame: Frame; copy: Buffer }[] = []

  constructor(framing: FramingMode, maxLineBytes = 1 << 20, json = false, endsWithNull = false) {
    const tidy = json ? JSON_OBJECTS.flatten!.bind(JSON_OBJECTS) : undefined
    this.framer = framerOf({ framing, maxLineBytes, endsWithNull, tidy })
  }

  #take(frame: Frame | undefined): this {
    if (!frame) return this
    let bytes = 0
    for (let i = 0; i < frame.length; i++) {
      const [start, stop, flags] = [frame.starts[i]!, frame.ends[i]!, frame.flags[i]!]
      const end = flags & LINE_END
      bytes += stop - start + end
      this.lines.push({ text: frame.chunk.toString('latin1', start, stop), end, mark: flags & ~LINE_END })
      if (frame.chunk.toString('latin1', stop, stop + end) !== ['', '\n', '\r\n'][end]) throw new Error('a line end')
    }
    if (bytes !== frame.bytes) throw new Error(`${bytes} bytes in a frame that says ${frame.bytes}`)
    this.#frames.push({ frame, copy: Buffer.from(frame.chunk.subarray(0, frame.ends.at(-1)! + 2)) })
    return this
  }

  push(...portions: (string | Buffer)[]): this {
    for (const portion of portions) this.#take(this.framer.push(Buffer.from(portion as string, 'latin1')))
    return this
  }

  /** All of them in one call. */
  pushTogether(portions: Iterable<string>): this {
    return this.push([...portions].join(''))
  }

  end(): this {
    this.#take(this.framer.flush(true))
    for (const { frame, copy } of this.#frames) {
      const last = frame.ends.at(-1)! + (frame.flags.at(-1)! & LINE_END)
      if (!frame.chunk.subarray(0, last).equals(copy.subarray(0, last))) throw new Error('a frame was written over')
    }
    return this
  }

  get texts(): string[] {
    return this.lines.map(({ text }) => text)
  }
}

const counted = (...messages: string[]) => messages.map(message => `${message.length} ${message}`).join('')

t.test('a null byte ends a message where the codec says so, whatever portions it comes in', async t => {
  for (const portions of [['a\0b\0\0c\nd'], [...'a\0b\0\0c\nd']])
    t.same(new Seen('newline', 1 << 20, false, true).push(...portions).end().texts, ['a', 'b', '', 'c', 'd'])
  t.same(new Seen('newline').push('a\0b\n').end().texts, ['a\0b'])
})

t.test('a byte order mark at the beginning of a connection is not part of the first line', async t => {
  for (const framing of ['newline', 'auto'] as const)
    t.same(new Seen(framing).push('\xef\xbb\xbfa\n', '\xef\xbb\xbfb\n').end().texts, ['a', '\xef\xbb\xbfb'])
})

t.test('octet counting', async t => {
  const cases: [name: string, input: string, texts: string[], broken?: number][] = [
    ['one after the other', counted('a', 'bc', 'def'), ['a', 'bc', 'def']],
    ['line ends inside', counted('a\nb', '\n\nc'), ['a\nb', '\n\nc']],
    ['line ends at the end go', counted('a\n', 'b\r\n', 'c\n\n'), ['a', 'b', 'c\n']],
    ['nothing but line ends', counted('\n', '\r\n'), ['', '']],
    ['line ends between messages', `${counted('a')}\n${counted('b')}\r\n\n${counted('c')}`, ['a', 'b', 'c']],
    ['digits and spaces inside', counted('1 2', '3 4 5 '), ['1 2', '3 4 5 ']],
    ['a message that looks like one', counted('12 <1>x'), ['12 <1>x']],
    ['cut off', '10 abc', ['abc'], 1],
    ['cut off before its first byte', '10 ', [], 1],
    ['cut off in the length', '10', ['10'], 1],
    ['no length at all', 'hello\n5 world', ['hello', 'world'], 1],
    ['no length, CRLF', 'hello\r\n', ['hello'], 1],
    ['no length and no end', 'hello', ['hello'], 1],
    ['zero is no length', '0 \n2 ab', ['0 ', 'ab'], 1],
    ['nor is a number with a zero before', '02 ab\n', ['02 ab'], 1],
    ['digits, then something else', '12x\n1 a', ['12x', 'a'], 1],
    ['digits, then a line end', '12\n1 a', ['12', 'a'], 1],
    ['too many digits', '1234567890 a\n1 b', ['1234567890 a', 'b'], 1],
    ['a space first', ' 1 a\n1 b', [' 1 a', 'b'], 1],
    ['a length too small', '2 abc\n1 d', ['ab', 'c', 'd'], 1],
    ['a length too large', '4 abc1 d\n', ['abc1', ' d'], 1],
    ['NUL bytes', counted('\0', 'a\0b'), ['\0', 'a\0b']],
  ]
  for (const [name, input, texts, broken = 0] of cases) {
    const whole = new Seen('octet_counted').push(input).end()
    t.same(whole.texts, texts, name)
    t.equal(whole.framer.broken, broken, `${name}: counted`)
    for (let at = 0; at <= input.length; at++) {
      const { lines, framer } = new Seen('octet_counted').push(input.slice(0, at), input.slice(at)).end()
      t.same([lines, framer.broken], [whole.lines, broken], `${name}, split at ${at}`)
    }
    t.same(new Seen('octet_counted').push(...input).end().lines, whole.lines, `${name}, byte by byte`)
  }
  const released = new Seen('octet_counted').push('12')
  released.framer.release()
  t.same(released.end().texts, ['12'])
  const unfinished = new Seen('octet_counted').push('3 ab')
  t.equal(unfinished.framer.pending, 2)
  t.same(new Seen('octet_counted').push(counted('a', 'b\r\n')).lines, [
    { text: 'a', end: 1, mark: 0 },
    { text: 'b', end: 2, mark: 0 },
  ])
  t.same(new Seen('octet_counted').push('2 a').end().lines, [{ text: 'a', end: 0, mark: 0 }], 'cut off: no line end')
})

t.test('which framing the first bytes mean', async t => {
  const cases: [string, string[]][] = [
    ['5 <1>ab5 <1>cd', ['<1>ab', '<1>cd']],
    ['<1>ab\n5 <1>cd\n', ['<1>ab', '5 <1>cd']],
    ['5 apples\n<1>x\n', ['5 apples', '<1>x']],
    ['5\n<1>x\n', ['5', '<1>x']],
    ['1234567890 <1>\n', ['1234567890 <1>']],
    ['999999999 <1>\n', ['<1>\n']],
    ['0 <1>\n', ['0 <1>']],
    ['\n5 <1>ab', ['', '5 <1>ab']],
    ['12', ['12']],
    ['12 ', ['12 ']],
    ['', []],
  ]
  for (const [input, texts] of cases) {
    t.same(new Seen('auto').push(input).end().texts, texts, JSON.stringify(input))
    for (let at = 1; at < input.length; at++) {
      t.same(
        new Seen('auto').push(input.slice(0, at), input.slice(at)).end().texts,
        texts,
        `${JSON.stringify(input)} at ${at}`,
      )
    }
  }
  const undecided = new Seen('auto').push('12')
  t.equal(undecided.framer.pending, 2)
  t.same([undecided.framer.pieces, undecided.framer.broken], [0, 0])
  undecided.framer.release()
  t.same(undecided.push(' <34>1 xxxxx').end().texts, ['<34>1 xxxxx'])
  t.equal(new Seen('auto').push('9 <1>').end().framer.broken, 1, 'cut off')
  t.same(new Seen('newline').push('5 <1>ab\nc').end().texts, ['5 <1>ab', 'c'])
})

t.test('JSON messages of several lines become lines', async t => {
  const messages = ['{"a":\n[1,\r\n2]}', '{"a":"b"}\n', '{"a":"\n"}', '[\n]', '{"a":1}\n{"b":2}']
  t.same(new Seen('octet_counted', 1 << 20, true).push(counted(...messages)).texts, [
    '{"a": [1,  2]}',
    '{"a":"b"}',
    '{"a":"\n"}',
    '[\n]',
    '{"a":1}\n{"b":2}',
  ])
  const pieces = new Seen('octet_counted', 8, true).push(counted('xxxxxxxx{"a":\n1}'))
  t.same(pieces.texts, ['xxxxxxxx', '{"a":\n1}'], 'the last piece of something else is no message')
})

const ORIGIN: Origin = { source: 'in', host: 'h', codec: TEXT_LINES, wanted: new WantedNames() }

/** Joins pieces; throws when they are not marked as such. */
function joined(lines: readonly Line[]): string[] {
  const texts: string[] = []
  let open = false
  for (const { text, end, mark } of lines) {
    if (((mark & CONTINUES) !== 0) !== open) throw new Error('a piece that does not continue what was before')
    if (open) texts.push(texts.pop()! + text)
    else texts.push(text)
    open = (mark & PIECE) !== 0
    if (open && end !== 0) throw new Error('a piece with a line end')
  }
  return texts
}

t.test('10,000 random streams in random portions: every byte, in order', async t => {
  const random = new Seeded(6587)
  const alphabet = ['a', '7', ' ', '\n', '\r', '<', '\0', 'é', '€', '😀']
  for (let round = 0; round < 10_000; round++) {
    const messages = Array.from({ length: random.below(6) }, () => {
      const size = 1 + random.below(random.chance(0.2) ? 60 : 8)
      const text = Array.from({ length: size }, () => random.pick(alphabet)).join('')
      return Buffer.from(text).toString('latin1')
    })
    const stream = counted(...messages)
    const max = random.chance(0.5) ? 4 + random.below(12) : 1 << 20
    const seen = new Seen('octet_counted', max)
    const portions: string[] = []
    for (let at = 0; at < stream.length; ) {
      const size = 1 + random.below(random.chance(0.5) ? 3 : 40)
      portions.push(stream.slice(at, at + size))
      at += size
    }
    for (const portion of portions) {
      seen.push(portion)
      if (random.chance(0.1)) seen.framer.release()
    }
    seen.end()
    const expected = messages.map(message => message.replace(/\r?\n$/, ''))
    const problem = JSON.stringify(joined(seen.lines)) !== JSON.stringify(expected) || seen.framer.broken !== 0
    const long = seen.lines.some(({ text }) => text.length > max)
    const torn = max >= 4 && seen.lines.some(({ text }) => Buffer.from(text, 'latin1').toString().includes('\ufffd'))
    if (problem || long || torn) {
      t.same(joined(seen.lines), expected, `round ${round}: ${JSON.stringify(portions)}, at most ${max}`)
      t.notOk(long || torn, 'pieces that are short enough and whole characters')
      break
    }
  }
  t.pass('all of them')
})

t.test('random garbage loses nothing', async t => {
  const random = new Seeded(514)
  for (let round = 0; round < 3000; round++) {
    const framing = random.pick(['octet_counted', 'auto', 'newline'] as const)
    const input = Array.from({ length: random.below(40) }, () =>
      random.pick(['1', '2', '0', ' ', '<', '\n', 'x', '\r']),
    ).join('')
    const whole = new Seen(framing, 6).push(input).end()
    const portions = new Seen(framing, 6)
    for (const byte of input) portions.push(byte)
    if (JSON.stringify(portions.end().lines) !== JSON.stringify(whole.lines))
      t.fail(`${framing}: ${JSON.stringify(input)}`)
    const together = new Seen(framing, 6).pushTogether(input).end()
    if (JSON.stringify(together.lines) !== JSON.stringify(whole.lines))
      t.fail(`${framing}, together: ${JSON.stringify(input)}`)
    // What is left out are lengths and line ends only.
    const letters = (text: string) => text.replace(/[\d \r\n]/g, '')
    if (letters(whole.texts.join('')) !== letters(input)) t.fail(`${framing} lost of ${JSON.stringify(input)}`)
  }
  t.pass('3000 streams')
})

t.test('a message is given up in the middle, and goes on', async t => {
  const seen = new Seen('octet_counted').push('6 abc')
  const piece = seen.framer.flush()!
  seen.lines.push({ text: piece.chunk.toString('latin1', piece.starts[0], piece.ends[0]), end: 0, mark: 0 })
  t.equal(seen.framer.broken, 0, 'that is no mistake of the sender')
  seen.push('def1 x')
  t.same(seen.lines, [
    { text: 'abc', end: 0, mark: 0 },
    { text: 'def', end: 1, mark: CONTINUES },
    { text: 'x', end: 1, mark: 0 },
  ])
})

t.test('raw: messages as lines', async t => {
  const { framer } = new Seen('octet_counted', 16)
  const bytes = Buffer.from(counted('<1>a', `<2>${'é'.repeat(20)}`.replaceAll('é', '\xc3\xa9'), '<3>b\n'), 'latin1')
  const batch = new EventBatch(framer.push(bytes)!, ORIGIN, 0, new Ack(() => {}))
  t.equal(Buffer.concat(new RawEncoder().encode([batch]).parts).toString(), `<1>a\n<2>${'é'.repeat(20)}\n<3>b\n`)
  t.equal(framer.pieces, 2)
})

t.test('many small portions of a large message take linear time, and memory is let go of', async t => {
  const { framer } = new Seen('octet_counted', 4 << 20)
  const size = 2 << 20
  framer.push(Buffer.from(`${size} `))
  const portion = Buffer.alloc(64, 'x')
  const before = process.cpuUsage()
  for (let at = 0; at < size - 64; at += 64) framer.push(portion)
  t.equal(framer.pending, size - 64)
  const frame = framer.push(portion)!
  t.equal(frame.ends[0]! - frame.starts[0]!, size)
  const { user } = process.cpuUsage(before)
  t.ok(user < 3e6, `in linear time: ${user / 1e6} s`)
  framer.release()
  const next = framer.push(Buffer.from('1 x'))!
  t.ok(next.chunk.length < 64, 'a chunk of its own size')
})
