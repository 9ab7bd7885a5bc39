import { isUtf8 } from 'node:buffer'
import t from 'tap'
import { CONTINUES, type Frame, LINE_END, LineSplitter, PIECE } from '../../../src/lib/lines/line-splitter.js'
import { rounds } from '../../support/long-test.js'
import { Seeded } from '../../support/seeded.js'

interface Line {
  readonly bytes: Buffer
  readonly ending: number
  readonly piece: boolean
  readonly continues: boolean
}

/** The lines of a frame, each a copy; fails when the frame contradicts itself. */
function linesOf(frame: Frame | undefined): Line[] {
  if (!frame) return []
  if (frame.length === 0) throw new Error('an empty frame')
  let size = 0
  const lines: Line[] = []
  for (let i = 0; i < frame.length; i++) {
    const flags: number = frame.flags[i]!
    const ending = flags & LINE_END
    const start = frame.starts[i]!
    const end = frame.ends[i]!
    if (i > 0 && start !== frame.ends[i - 1]! + (frame.flags[i - 1]! & LINE_END)) throw new Error('a gap between lines')
    const after = frame.chunk.toString('latin1', end, end + ending)
    if (after !== ['', '\n', '\r\n'][ending]) throw new Error(`line end ${JSON.stringify(after)}`)
    if (flags & ~(LINE_END | PIECE | CONTINUES)) throw new Error(`flags ${flags}`)
    size += end - start + ending
    const bytes = Buffer.from(frame.chunk.subarray(start, end))
    lines.push({ bytes, ending, piece: (flags & PIECE) !== 0, continues: (flags & CONTINUES) !== 0 })
  }
  if (size !== frame.bytes) throw new Error(`${frame.bytes} bytes, not ${size}`)
  return lines
}

/** Every byte that went in, from what came out. */
function whole(lines: readonly Line[]): Buffer {
  return Buffer.concat(lines.flatMap(line => [line.bytes, Buffer.from(['', '\n', '\r\n'][line.ending]!)]))
}

/** The trivial way: everything at once, split at LF, each line cut by itself. */
function reference(input: Buffer, maxLineBytes: number): Line[] {
  const lines: Line[] = []
  let rest = input
  while (rest.length > 0) {
    const newline = rest.indexOf('\n')
    const line = newline < 0 ? rest : rest.subarray(0, newline + 1)
    rest = rest.subarray(line.length)
    const ending = newline < 0 ? 0 : line.at(-2) === 0x0d ? 2 : 1
    let bytes = line.subarray(0, line.length - ending)
    let continues = false
    while (bytes.length > maxLineBytes) {
      let cut = maxLineBytes
      while (cut > maxLineBytes - 4 && (bytes[cut]! & 0xc0) === 0x80) cut--
      if (cut === maxLineBytes - 4 || cut === 0) cut = maxLineBytes
      lines.push({ bytes: bytes.subarray(0, cut), ending: 0, piece: true, continues })
      bytes = bytes.subarray(cut)
      continues = true
    }
    lines.push({ bytes, ending, piece: false, continues })
  }
  return lines
}

const CONTENT = [
  'a',
  'b',
  'xyz',
  ' ',
  '\r',
  '\u0000',
  'é',
  '漢',
  '😀',
  '\n',
  '\r\n',
  '\r\r\n',
  '\n\n',
  'longer text without end ',
]
const BINARY = [0x80, 0xbf, 0xff, 0xc3, 0xf0, 0x9f]

function inputOf(random: Seeded): Buffer {
  const parts: Buffer[] = []
  const words = random.pick([0, 1, 3, 30, 200])
  const binary = random.chance(0.3) ? 0.2 : 0
  for (let i = 0; i < words; i++) {
    parts.push(random.chance(binary) ? Buffer.from([random.pick(BINARY)]) : Buffer.from(random.pick(CONTENT)))
  }
  return Buffer.concat(parts)
}

/** Portions of random sizes, by reserve and commit or by push, with junk in the rest of the room. */
function feed(splitter: LineSplitter, input: Buffer, random: Seeded, largest: number): Line[] {
  const lines: Line[] = []
  for (let at = 0; at < input.length; ) {
    const portion = input.subarray(at, at + 1 + random.below(largest))
    at += portion.length
    if (random.chance(0.5)) lines.push(...linesOf(splitter.push(portion)))
    else {
      // What is large lies at a place in its page that depends on where it is in the file.
      const more = random.chance(0.02) ? 64 * 1024 : random.pick([0, 1, 100])
      const room = splitter.reserve(portion.length + more, random.pick([undefined, random.below(10_000)]))
      room.fill('\n')
      portion.copy(room)
      lines.push(...linesOf(splitter.commit(portion.length)))
    }
    if (random.chance(0.1)) lines.push(...linesOf(splitter.commit(0)))
    if (random.chance(0.1)) splitter.release()
  }
  return lines
}

t.test('whatever the portions, the lines are those of a split at LF', async t => {
  const random = new Seeded(11)
  const wrong: string[] = []
  for (let round = 0; round < rounds(5000, 1000) && wrong.length < 5; round++) {
    const maxLineBytes = random.pick([4, 5, 7, 16, 40, 1 << 20])
    const input = inputOf(random)
    const splitter = new LineSplitter(maxLineBytes)
    // Another one at work in between must not disturb it.
    const other = new LineSplitter(maxLineBytes)
    const lines = feed(splitter, input, random, random.pick([1, 2, 5, 50, 1000]))
    other.push(Buffer.from('x\ny\nz'))
    const pending = splitter.pending
    const last = linesOf(splitter.flush())
    lines.push(...last)
    const problem = (text: string) =>
      wrong.push(`${text}: ${JSON.stringify(input.toString('latin1'))} at most ${maxLineBytes}`)
    const cut = reference(input, maxLineBytes)
    if (JSON.stringify(lines) !== JSON.stringify(cut)) problem('other lines')
    if (!whole(lines).equals(input)) problem('other bytes')
    if (pending !== whole(last).length) problem('pending')
    if (splitter.pending !== 0 || splitter.flush() !== undefined) problem('something left')
    if (splitter.pieces !== lines.filter(line => line.piece).length) problem('pieces')
    if (splitter.continues !== last.length > 0) problem('continues')
    for (const line of lines) {
      if (line.bytes.length > maxLineBytes) problem('too long')
      if (line.bytes.includes(0x0a)) problem('an LF inside')
      if (isUtf8(input) && !isUtf8(line.bytes)) problem('cut inside a character')
    }
  }
  t.same(wrong, [])
})

t.test('a flush gives out what is there, and the line goes on', async t => {
  const random = new Seeded(12)
  const wrong: string[] = []
  for (let round = 0; round < rounds(2000, 400) && wrong.length < 5; round++) {
    const maxLineBytes = random.pick([4, 7, 40, 1 << 20])
    const splitter = new LineSplitter(maxLineBytes, random.chance(0.3))
    const inputs: Buffer[] = []
    const lines: Line[] = []
    let continues = splitter.continues
    for (let part = 0; part < 5; part++) {
      const input = inputOf(random)
      inputs.push(input)
      const fed = feed(splitter, input, random, random.pick([1, 5, 1000]))
      if (random.chance(0.7)) fed.push(...linesOf(splitter.flush()))
      lines.push(...fed)
    }
    lines.push(...linesOf(splitter.flush()))
    const problem = (text: string) => wrong.push(`${text}: ${JSON.stringify(Buffer.concat(inputs).toString('latin1'))}`)
    if (!whole(lines).equals(Buffer.concat(inputs))) problem('other bytes')
    for (const line of lines) {
      if (line.continues !== continues) problem('continues')
      continues = line.ending === 0
      if (line.piece && line.ending !== 0) problem('a piece with a line end')
      if (line.bytes.length > maxLineBytes) problem('too long')
    }
  }
  t.same(wrong, [])
})

t.test('by example', async t => {
  const show = (line: Line) =>
    (line.continues ? '…' : '') + line.bytes + (line.piece ? '…' : ['¬', '', '\r'][line.ending]!.replace('\r', '␍'))
  const cases: readonly [
    name: string,
    max: number,
    portions: readonly (string | undefined)[],
    lines: readonly string[],
  ][] = [
    ['lines', 100, ['a\nb\n'], ['a', 'b']],
    ['CRLF', 100, ['a\r\nb\r\n'], ['a␍', 'b␍']],
    ['a CR alone is no line end', 100, ['a\rb\n'], ['a\rb']],
    ['of two CR one belongs to the line', 100, ['a\r\r\n'], ['a\r␍']],
    ['CRLF across portions', 100, ['a\r', '\nb', '\r', '\n'], ['a␍', 'b␍']],
    ['empty lines', 100, ['\n\r\n\n'], ['', '␍', '']],
    ['NUL', 100, ['a\0b\n\0\n'], ['a\0b', '\0']],
    ['a line in many portions', 100, ['a', 'b', 'c', '\n'], ['abc']],
    ['nothing until the line is whole', 100, ['abc'], []],
    ['flushed', 100, ['abc', undefined], ['abc¬']],
    ['flushed, and its line end later', 100, ['abc', undefined, '\nd\n'], ['abc¬', '…', 'd']],
    ['flushed, and more of it later', 100, ['abc', undefined, 'def\n'], ['abc¬', '…def']],
    ['flushed twice', 100, ['abc', undefined, 'd', undefined, undefined, '\n'], ['abc¬', '…d¬', '…']],
    ['flushed between CR and LF', 100, ['a\r', undefined, '\n'], ['a\r¬', '…']],
    ['exactly the longest', 4, ['abcd\nabcd\r\n'], ['abcd', 'abcd␍']],
    ['exactly the longest, in portions', 4, ['abcd', '\nabcd', '\r', '\n'], ['abcd', 'abcd␍']],
    ['exactly the longest and a CR', 4, ['abcd\r', 'e\n'], ['abcd…', '…\re']],
    ['exactly the longest and a CR, flushed', 4, ['abcd\r', undefined, '\n'], ['abcd…', '…\r¬', '…']],
    ['one too long', 4, ['abcde\nf\n'], ['abcd…', '…e', 'f']],
    ['three pieces', 4, ['abcdefghij\r\n'], ['abcd…', '…efgh…', '…ij␍']],
    ['twice the longest', 4, ['abcdefgh\n'], ['abcd…', '…efgh']],
    ['pieces come before the line end', 4, ['abcdefghi'], ['abcd…', '…efgh…']],
    ['not inside characters', 5, ['ab漢漢\n', 'abcé漢\n', 'a😀😀\n'], ['ab漢…', '…漢', 'abcé…', '…漢', 'a😀…', '…😀']],
    ['the least is one character', 1, ['😀a\n'], ['😀…', '…a']],
  ]
  for (const [name, max, portions, lines] of cases) {
    const splitter = new LineSplitter(max)
    const got = portions.flatMap(portion =>
      linesOf(portion === undefined ? splitter.flush() : splitter.push(Buffer.from(portion))),
    )
    t.same(got.map(show), lines, name)
  }
  const resumed = new LineSplitter(100, true)
  t.ok(resumed.continues)
  t.same(linesOf(resumed.push(Buffer.from('rest\nnext\n'))).map(show), ['…rest', 'next'], 'resumed inside a line')
  t.notOk(resumed.continues)
})

t.test('a byte order mark at the beginning is not part of the first line, however it is divided', async t => {
  const cases: [string, string[]][] = [
    ['\ufeffa\n\ufeffb\n', ['a', '\ufeffb']],
    ['\ufeff\ufeffa\n', ['\ufeffa']],
    ['\ufeff\na\n', ['', 'a']],
    ['\ufeff', []],
    ['a\ufeff\n', ['a\ufeff']],
    ['\n\ufeffa\n', ['', '\ufeffa']],
  ]
  const splitter = () => Object.assign(new LineSplitter(100), { mayBeMarked: true })
  for (const [input, expected] of cases) {
    const bytes = Buffer.from(input)
    for (let a = 0; a <= bytes.length; a++) {
      for (let b = a; b <= bytes.length; b++) {
        const divided = splitter()
        const portions = [bytes.subarray(0, a), bytes.subarray(a, b), bytes.subarray(b)]
        const frames = [...portions.map(portion => divided.push(portion)), divided.flush()]
        const lines = frames.flatMap(frame => linesOf(frame)).map(line => line.bytes.toString())
        if (lines.join('|') !== expected.join('|') || lines.length !== expected.length)
          t.same(lines, expected, `${JSON.stringify(input)} divided at ${a} and ${b}`)
      }
    }
  }
  const flushed = splitter()
  flushed.push(Buffer.from([0xef]))
  const frames = [flushed.flush(), flushed.push(Buffer.from('\ufeffa\n'))]
  const line = Buffer.concat(frames.flatMap(frame => linesOf(frame)).map(line => line.bytes))
  t.equal(line.toString('latin1'), Buffer.from([0xef, 0xef, 0xbb, 0xbf, 0x61]).toString('latin1'))
})

t.test('a frame keeps its bytes while more is read, and no batch of 300 lines is too many', async t => {
  const splitter = new LineSplitter(1 << 20)
  const line = (i: number) => `line ${i}`
  const frames: Frame[] = []
  let text = ''
  for (let i = 0; i < 3000; i++) text += `${line(i)}\n`
  const input = Buffer.from(text)
  let copied = 0
  for (let at = 0; at < input.length; ) {
    const room = splitter.reserve(4096)
    const read = input.copy(room, 0, at, at + 3900)
    at += read
    copied += read
    const frame = splitter.commit(read)
    if (frame) frames.push(frame)
  }
  t.equal(copied, input.length)
  const all = frames.flatMap(frame => linesOf(frame)).map(({ bytes }) => bytes.toString())
  t.same(
    all,
    Array.from({ length: 3000 }, (_, i) => line(i)),
  )
  t.ok(frames.some(frame => frame.length > 256))
})

t.test(
  'the room has the size asked for, and follows the unfinished line without a copy while there is space',
  async t => {
    const splitter = new LineSplitter(1 << 20)
    t.equal(splitter.reserve(1000).length, 1000)
    t.equal(splitter.reserve(1000).length, 1000, 'asked again')
    splitter.reserve(1000).write('abc')
    t.equal(splitter.commit(3), undefined)
    const room = splitter.reserve(900)
    t.equal(room.length, 997)
    room.write('def\n')
    const frame = splitter.commit(4)!
    t.equal(frame.chunk.toString('latin1', 0, 7), 'abcdef\n')
    t.equal(frame.chunk.length, 1000, 'still the first chunk')
    splitter.release()
    t.equal(splitter.pending, 0)
    t.not(splitter.reserve(10).buffer, frame.chunk.buffer, 'a released chunk is not written again')
  },
)

t.test('the work grows with the bytes, not with their square', async t => {
  // Copied and searched bytes are counted: time would depend on the machine.
  const work = (total: number, portion: number, lineBytes: number) => {
    const { copy, indexOf } = Buffer.prototype
    let bytes = 0
    Buffer.prototype.copy = function (this: Buffer, target: Uint8Array, at?: number, start = 0, end = this.length) {
      bytes += end - start
      return copy.call(this, target, at, start, end)
    } as typeof copy
    Buffer.prototype.indexOf = function (this: Buffer, value: number, from = 0) {
      const found = indexOf.call(this, value, from)
      bytes += (found < 0 ? this.length : found) - from
      return found
    } as typeof indexOf
    try {
      const splitter = new LineSplitter(1 << 20)
      const source = Buffer.alloc(portion, 'x')
      for (let at = 0, inLine = 0; at < total; at += portion, inLine += portion) {
        if (inLine >= lineBytes) inLine = 0
        source[0] = inLine === 0 ? 0x0a : 0x78
        splitter.push(source)
      }
    } finally {
      Object.assign(Buffer.prototype, { copy, indexOf })
    }
    return bytes / total
  }
  for (const [total, portion, lineBytes] of [
    [200_000, 1, 100_000],
    [200_000, 1, 3000],
    [400_000, 7, 4000],
    [4_000_000, 1000, 4_000_000],
    [4_000_000, 65_536, 900_000],
  ] as const) {
    const perByte = work(total, portion, lineBytes)
    t.ok(perByte < 6, `${total} bytes, ${portion} at a time, lines of ${lineBytes}: ${perByte.toFixed(1)} per byte`)
  }
})

t.test('an unfinished line that grows byte by byte does not move to other memory and back', async t => {
  class Shown extends LineSplitter {
    get memory(): ArrayBufferLike {
      return this.chunk.buffer
    }
  }
  for (const bytes of [20_000, 70_000, 100_000, 140_000, 270_000]) {
    const splitter = new Shown(1 << 20)
    splitter.push(Buffer.alloc(bytes, 'x'))
    let moves = 0
    for (let i = 0; i < 1000; i++) {
      splitter.release()
      const { memory } = splitter
      splitter.push(Buffer.from('x'))
      if (splitter.memory !== memory) moves++
    }
    t.ok(moves <= 1, `${moves} moves of ${bytes} bytes`)
  }
})
