import { parse } from 'yaml'
import { encodeLines, RawEncoder } from '../../src/codecs/encode.js'
import { JSON_OBJECTS } from '../../src/codecs/json.js'
import { codecOf, codecs } from '../../src/codecs/list.js'
import type { Codec } from '../../src/core/codec.js'
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
      for (const line of damaged) run(`${codec} ${line.toString('base64')}`, () => readAlone(codec, line, random))
    }
    const heads = ['', example.slice(0, example.length / 2), example]
    const bad = heads.flatMap(head => UNITS.map(unit => head + unit.repeat(Math.ceil(longBytes / unit.length))))
    for (const line of shapes === undefined ? bad : Array.from({ length: shapes }, () => random.pick(bad))) {
      lines++
      run(`${codec} ${line.slice(0, 200)}`, () => readLong(codec, line))
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

function readLong(codec: Codec, line: string): void {
  const batch = batchOf([line], { decode: codec, maxLineBytes: 2 ** 28 })
  const { chunk, starts, ends } = batch
  const before = process.cpuUsage()
  batch.scan()
  codec.problem?.(chunk, starts[0]!, ends[0]!)
  if (codec.definition.joiner) {
    codec.definition.joiner.judge(0, chunk, starts[0]!, ends[0]!)
    codec.definition.joiner.ends?.(chunk, starts[0]!, ends[0]!)
  }
  const { user, system } = process.cpuUsage(before)
  const took = (user + system) / 1000
  if (took > Math.max(LEAST_CPU_MS, (line.length / 1e6) * MOST_CPU_MS_PER_MB)) throw new Error(`it takes ${took} ms`)
}
