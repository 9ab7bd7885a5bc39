import t from 'tap'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { framesOf } from '../../../../src/net/http/events/frames.js'
import { linesOfJson } from '../../../../src/net/http/events/json-body.js'
import { Refusal } from '../../../../src/net/http/server/refusal.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { rounds } from '../../../support/long-test.js'
import { Seeded } from '../../../support/seeded.js'

/** The lines of a body, or what is wrong with it. Behind the body stands what must not be looked at. */
function linesOf(body: string | Buffer, behind = '{"beyond":1}]'): string[] | string {
  const bytes = Buffer.from(body as string)
  const room = Buffer.concat([bytes, Buffer.from(behind)])
  try {
    const size = linesOfJson(room, bytes.length)
    const text = room.toString('utf8', 0, size)
    if (size > 0 && !text.endsWith('\n')) throw new Error('no line end at the end')
    return text.split('\n').slice(0, -1)
  } catch (error) {
    if (error instanceof Refusal && error.status === 400)
      return error.message.replace('; no events of this request were accepted', '')
    throw error
  }
}

t.test('JSON bodies', async t => {
  const malformed = (line: number, element: number) =>
    `line ${line} of the body: element ${element} is not a valid JSON object`
  const cases: [string, string[] | string][] = [
    ['', []],
    [' \r\n\t', []],
    ['[]', []],
    [' [ \n ] \n', []],
    ['{}', ['{}']],
    ['[{}]', ['{}']],
    ['[{"a":1},{"b":[1,{"c":"]},{"}]} , {"d":"\\"\\\\"}]', ['{"a":1}', '{"b":[1,{"c":"]},{"}]}', '{"d":"\\"\\\\"}']],
    ['[\n  {\n    "a": [\r\n      1\n    ]\n  },\n  {"b":2}\n]\n', ['{     "a": [        1     ]   }', '{"b":2}']],
    ['{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']],
    ['{"a":1} {"b":2}\r\n\n{"c":3}', ['{"a":1}', '{"b":2}', '{"c":3}']],
    ['{"a":"é€😀"}', ['{"a":"é€😀"}']],
    ['{"a":1}{"b":2}', 'line 1 of the body: expected white space or the end after element 1'],
    ['{"a":1},{"b":2}', 'line 1 of the body: expected white space or the end after element 1'],
    ['{"a":1}\n[]', malformed(2, 2)],
    ['[{"a":1}', 'line 1 of the body: expected a comma or "]" after element 1'],
    ['[{"a":1}\n\n,', 'line 3 of the body: the array does not end'],
    ['[', 'line 1 of the body: the array does not end'],
    ['[\n\n', 'line 3 of the body: the array does not end'],
    ['[{"a":1},]', malformed(1, 2)],
    ['[,{"a":1}]', malformed(1, 1)],
    ['[{"a":1} {"b":2}]', 'line 1 of the body: expected a comma or "]" after element 1'],
    ['[{"a":1}]x', 'line 1 of the body: something follows the array'],
    ['[{"a":1}]\n[{"b":2}]', 'line 2 of the body: something follows the array'],
    ['[{"a":1}]]', 'line 1 of the body: something follows the array'],
    ['[1]', malformed(1, 1)],
    ['[[]]', malformed(1, 1)],
    ['["{}"]', malformed(1, 1)],
    ['[null]', malformed(1, 1)],
    ['null', malformed(1, 1)],
    ['"text"', malformed(1, 1)],
    ['text', malformed(1, 1)],
    ['[{"a":1},\n{"b":\n},{"c":1}]', malformed(2, 2)],
    ['[{"a":\n1},\n\n{"b":"\n"}]', malformed(4, 2)],
    ['[{"a":1},{"b"', malformed(1, 2)],
    ['{', malformed(1, 1)],
    ['{"a":1', malformed(1, 1)],
    ['[{"a":1}}', 'line 1 of the body: expected a comma or "]" after element 1'],
    ['[{"a":01}]', malformed(1, 1)],
  ]
  for (const [body, expected] of cases) {
    t.same(linesOf(body), expected, JSON.stringify(body))
    t.same(linesOf(body, '\n'), expected)
  }
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  t.same(linesOf(`[{"a":${deep}}]`), [`{"a":${deep}}`], 'of any depth')
})

/** A value as JSON text, with white space wherever it may be. */
function writeValue(random: Seeded, depth: number): string {
  const space = () => (random.chance(0.2) ? random.pick([' ', '\n', '\t', '\r\n', '  ']) : '')
  const list = (item: () => string) =>
    Array.from({ length: random.below(4) }, () => `${space()}${item()}${space()}`).join(',')
  const string = () =>
    JSON.stringify(
      Array.from({ length: random.below(6) }, () => random.pick(['a', '"', '\\', '\n', '}', ']', '{', ',', 'é'])).join(
        '',
      ),
    )
  const object = () => `{${list(() => `${string()}${space()}:${space()}${writeValue(random, depth + 1)}`) || space()}}`
  if (depth === 0) return object()
  const kind = random.below(depth > 4 ? 4 : 6)
  if (kind === 4) return object()
  if (kind === 5) return `[${list(() => writeValue(random, depth + 1)) || space()}]`
  return [string(), String(random.below(1000) / 8), 'true', 'null'][kind]!
}

const ROUNDS = rounds(20_000, 5000)

t.test('what is taken is what JSON.parse takes', async t => {
  const random = new Seeded(8259)
  const noise = [...'{}[],:"\\ \n1ae']
  let taken = 0
  for (let round = 0; round < ROUNDS; round++) {
    const objects = Array.from({ length: random.below(4) }, () => writeValue(random, 0))
    let body = `${random.pick(['', ' ', '\n'])}[${objects.map(object => `${random.pick(['', '\n'])}${object}`).join(random.pick([',', ' ,\n']))}]`
    for (let n = random.below(3); n > 0; n--) {
      const at = random.below(body.length)
      const middle = random.pick([random.pick(noise), '', body.slice(at, at + 3)])
      body = body.slice(0, at) + middle + body.slice(at + random.below(2))
    }
    let expected: string[] | undefined
    try {
      const parsed = JSON.parse(body) as unknown
      const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
      if (Array.isArray(parsed) ? parsed.every(isObject) : isObject(parsed))
        expected = [parsed].flat().map(value => JSON.stringify(value))
    } catch {}
    const lines = linesOf(body)
    // Objects after each other are taken too: JSON.parse does not say.
    if (expected === undefined && typeof lines !== 'string' && !body.trimStart().startsWith('[')) continue
    const found = typeof lines === 'string' ? undefined : lines.map(line => JSON.stringify(JSON.parse(line)))
    if (JSON.stringify(found) !== JSON.stringify(expected)) {
      t.same(found, expected, `${JSON.stringify(body)}: ${lines}`)
      break
    }
    if (expected) taken++
  }
  t.ok(taken > ROUNDS / 4 && taken < 0.95 * ROUNDS, `${taken} of ${ROUNDS} were taken`)
})

t.test('bodies become frames of moderate size', async t => {
  const frames = (body: Buffer | string, content: 'lines' | 'json' | 'text', max = 1 << 20) => {
    const bytes = Buffer.from(body as string)
    const lines: string[] = []
    let [size, pieces] = [0, 0]
    let largest = 0
    for (const { frame, pieces: more } of framesOf(
      Buffer.concat([bytes, Buffer.alloc(1)]),
      bytes.length,
      content,
      max,
    )) {
      largest = Math.max(largest, frame.chunk.length)
      pieces += more
      size += frame.bytes
      for (let i = 0; i < frame.length; i++)
        lines.push(frame.chunk.toString('latin1', frame.starts[i], frame.ends[i]! + (frame.flags[i]! & 3)))
    }
    t.equal(lines.join('').length, size, 'sizes add up')
    return { lines, pieces, largest }
  }
  t.same(frames('a\r\n\nb', 'text').lines, ['a\r\n', '\n', 'b\n'])
  t.same(frames('', 'text').lines, [])
  t.same(frames('\n', 'text').lines, ['\n'])
  t.same(frames('\n{"a":1}\n\r\n \t\n{"b":2}\n\nx\n', 'lines').lines, ['{"a":1}\n', '{"b":2}\n', 'x\n'])
  t.same(frames('\n \n', 'lines').lines, [])
  t.same(frames('\ufeff{"a":1}', 'lines').lines, ['{"a":1}\n'])
  t.same(frames('\ufeff[{"a":1}]', 'json').lines, ['{"a":1}\n'])
  t.same(frames('\ufeffx', 'text').lines, ['x\n'])
  t.same(frames('\ufeff', 'json').lines, [])
  const pieces = frames(`${'x'.repeat(2500)}\n\n${' '.repeat(3000)}\n`, 'lines', 1024)
  t.equal(pieces.pieces, 4)
  t.equal(pieces.lines.join(''), `${'x'.repeat(2500)}\n${' '.repeat(3000)}\n`, 'a blank piece is part of a line')
  const large = Buffer.from(`${'y'.repeat(99)}\n`.repeat(30_000))
  const parts = frames(large, 'text')
  t.equal(parts.lines.length, 30_000)
  t.ok(parts.largest <= CHUNK_BYTES, `${parts.largest} bytes in a chunk`)
  const bytes = Buffer.from('x\n'.repeat(200_000))
  t.equal(frames(bytes, 'text').lines.length, 200_000)
})

t.test('bodies keep no memory behind, whatever is in them and wherever their reading ends', t => {
  const before = freeChunks()
  const read = (text: string, content: 'lines' | 'text') =>
    framesOf(Buffer.from(`${text}\n`), text.length, content, 1 << 20)
  for (let n = 0; n < 3; n++) t.same([...read('\n'.repeat(600_000), 'lines')], [])
  t.equal(freeChunks(), before, 'blank lines')
  for (let n = 0; n < 3; n++) {
    for (const { frame } of read('x\n'.repeat(300_000), 'text')) {
      frame.release?.()
      break
    }
  }
  t.equal(freeChunks(), before, 'read in part')
  t.end()
})
