import { parse } from 'yaml'
import type { Codec } from '../../src/core/codec.js'
import { encodeLines, RawEncoder } from '../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import { codecOf, codecs } from '../../src/core/codecs/list.js'
import { FramedSplitter } from '../../src/lib/lines/framed-splitter.js'
import { batchOf } from './batches.js'
import { readFields } from './codecs.js'
import { Seeded } from './seeded.js'

export interface CodecFuzz {
  readonly seed: number
  /** Batches of damaged lines of each example. */
  readonly rounds: number
  /** Of each long line of a bad shape. */
  readonly longBytes: number
  /** How many shapes of each example; undefined: all of them. */
  readonly shapes?: number
}

const LINES_OF_BATCH = 50
/** For 1 MB, and at least for any line. A step back for each byte takes minutes. */
const MOST_CPU_MS_PER_MB = 400
const LEAST_CPU_MS = 300
const SPECIAL = [
  ...'"\\{}[]<>:;,= %\t\0\x7f-0',
  '\xff',
  '\xc3',
  '\xef\xbb\xbf',
  '\\u',
  '""',
  '\\"',
  '1e999',
  ' stdout P ',
]
const UNITS = ['"', '\\', '\\"', '{"a":', '[', ' ', ',', '=', 'a=', '<1>', '%', '\\u0000', '1', '[a b="c"]', '"",']

/** What a stream of records may consist of. */
const RECORD_UNITS = [
  '\x80',
  '\x81\xa1a',
  '\x91',
  '\xdf\xff\xff\xff\xff',
  '\x81\xa1a\xdb\x00\x0f',
  '\x0a',
  '\x02\x0a\x00',
  '\x00',
]

const subjects = () =>
  codecs.flatMap(({ name, examples }) =>
    examples.map(({ yaml, line }): [Codec, string] => [codecOf(name, parse(yaml) ?? {})!, line]),
  )

/** Gives damaged lines and long lines of bad shapes to every codec. Returns what went wrong, and how many lines it were. */
export function fuzzCodecs({ seed, rounds, longBytes, shapes }: CodecFuzz): { problems: string[]; lines: number } {
  const random = new Seeded(seed)
  const all = subjects()
  const texts = all.map(([, line]) => line)
  const problems: string[] = []
  let lines = 0
  const run = (what: string, work: () => void) => {
    try {
      work()
    } catch (error) {
      problems.push(`${what}: ${(error as Error).stack}`)
    }
  }
  for (const [codec, example] of all) {
    for (let round = 0; round < rounds; round++) {
      const damaged = Array.from({ length: LINES_OF_BATCH }, () => damage(random, example, texts))
      lines += damaged.length
      run(`${codec}, seed ${seed}, round ${round}`, () => readBatch(codec, damaged))
      if (codec.framing)
        run(`${codec}, seed ${seed}, records of round ${round}`, () => readRecords(codec, damaged, random))
      for (const line of damaged) run(`${codec} ${line.toString('base64')}`, () => readAlone(codec, line, random))
    }
    const heads = ['', example.slice(0, example.length / 2), example]
    const bad = heads.flatMap(head => UNITS.map(unit => head + unit.repeat(Math.ceil(longBytes / unit.length))))
    for (const line of shapes === undefined ? bad : Array.from({ length: shapes }, () => random.pick(bad))) {
      lines++
      run(`${codec} ${line.slice(0, 200)}`, () => readLong(codec, line))
    }
    for (const unit of codec.framing && shapes !== 1 ? RECORD_UNITS : []) {
      const bytes = Buffer.alloc(longBytes, unit, 'latin1')
      run(`${codec}, ${unit} again and again`, () => readStream(codec, bytes, () => 65_536))
    }
  }
  return { problems, lines }
}

/** One to four changes: a byte, a part that is gone, comes twice, is of another line, or something special. */
function damage(random: Seeded, example: string, others: readonly string[]): Buffer {
  let line = Buffer.from(example)
  for (let left = 1 + random.below(4); left > 0; left--) {
    const at = random.below(line.length + 1)
    const end = at + random.below(Math.min(20, line.length - at) + 1)
    const other = Buffer.from(random.pick(others))
    const put = random.pick([
      Buffer.from([random.below(256)]),
      Buffer.alloc(0),
      Buffer.concat([line.subarray(at, end), line.subarray(at, end)]),
      other.subarray(random.below(other.length)),
      Buffer.from(random.pick(SPECIAL), 'latin1'),
    ])
    line = Buffer.concat([line.subarray(0, at), put, line.subarray(end)])
  }
  return line
}

function readBatch(codec: Codec, damaged: readonly Buffer[]): void {
  const lines = damaged.map(line => line.map(byte => (byte === 0x0a ? 0x20 : byte))) as Buffer[]
  const batch = batchOf(lines, { decode: codec, path: '/x', receivedAt: 1e12 })
  batch.scan()
  const json = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).toString()
  const events = json.split('\n').slice(0, -1)
  if (events.length !== lines.length) throw new Error(`${events.length} events of ${lines.length} lines`)
  for (const event of events) JSON.parse(event)
  const raw = Buffer.concat(new RawEncoder().encode([batch]).parts)
  const wanted = Buffer.concat(lines.flatMap(line => [line, Buffer.from('\n')]))
  if (!raw.equals(wanted)) throw new Error('the lines are not as they were read')
}

/** Also with line ends inside, as joined lines have. What is valid UTF-8 and is read can be written again. */
function readAlone(codec: Codec, line: Buffer, random: Seeded): void {
  const text = Buffer.from(line.toString())
  const several = random.chance(0.2) ? Buffer.concat([text, Buffer.from('\n'), text]) : text
  const found = codec.form === 'message' ? undefined : readFields(codec, several)
  if (found === undefined) codec.problem?.(several, 0, several.length)
  else codec.encode?.(found as Record<string, unknown>)
}

/** Records of the codec, damaged as lines are, in portions of any size. */
function readRecords(codec: Codec, damaged: readonly Buffer[], random: Seeded): void {
  const json = '{"a":{"b":[1,-2,1.5,"c",null,true]},"message":"text","n":18446744073709551615}'
  const record = Buffer.concat(encodeLines(codec, [batchOf([json])]).parts)
  for (const [i, line] of damaged.entries()) {
    const bytes = Buffer.concat([record, record])
    bytes[random.below(bytes.length)] = random.below(256)
    const stream = i % 10 === 0 ? line : bytes
    for (const text of readStream(codec, stream, () => 1 + random.below(stream.length))) {
      if (text[0] === '{') JSON.parse(text)
      else if (!/^[A-Za-z0-9+/]*=*$/.test(text)) throw new Error(`a line that is neither JSON nor base64: ${text}`)
    }
    const found = readFields(codec, Buffer.from(stream.toString('base64')))
    if (found !== undefined) JSON.stringify(found)
  }
}

function readStream(codec: Codec, bytes: Buffer, size: () => number): string[] {
  const splitter = new FramedSplitter(codec.framing!, 1 << 20)
  const texts: string[] = []
  const before = process.cpuUsage()
  for (let at = 0; at < bytes.length && !splitter.problem; ) {
    const end = at + size()
    const frame = splitter.push(bytes.subarray(at, end))
    if (frame) texts.push(...frame.chunk.toString('utf8', 0, frame.bytes).split('\n').slice(0, -1))
    at = end
  }
  const { user, system } = process.cpuUsage(before)
  const took = (user + system) / 1000
  if (took > Math.max(LEAST_CPU_MS, (bytes.length / 1e6) * MOST_CPU_MS_PER_MB)) throw new Error(`it takes ${took} ms`)
  return texts
}

function readLong(codec: Codec, line: string): void {
  const batch = batchOf([line], { decode: codec, maxLineBytes: 2 ** 28 })
  const { chunk, starts, ends } = batch
  const before = process.cpuUsage()
  batch.scan()
  codec.problem?.(chunk, starts[0]!, ends[0]!)
  codec.definition.readPart?.(chunk, starts[0]!, ends[0]!)
  const { user, system } = process.cpuUsage(before)
  const took = (user + system) / 1000
  if (took > Math.max(LEAST_CPU_MS, (line.length / 1e6) * MOST_CPU_MS_PER_MB)) throw new Error(`it takes ${took} ms`)
}
