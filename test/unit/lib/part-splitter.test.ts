import t from 'tap'
import { CONTINUES, type Frame, PIECE } from '../../../src/lib/lines/line-splitter.js'
import { PART, PartSplitter } from '../../../src/lib/lines/part-splitter.js'
import { rounds } from '../../support/long-test.js'
import { Seeded } from '../../support/seeded.js'

const ROUNDS = rounds(2000, 300)

/** A line is `o+…` or `e+…` if the event continues, `o …` or `e …` if it ends. Other lines belong to no stream. */
const readPart = (b: Buffer, start: number, end: number) => {
  const stream = start === end ? 0 : b[start] === 0x6f ? 1 : b[start] === 0x65 ? 2 : 0
  return stream > 0 && b[start + 1] === 0x2b ? stream | PART : stream
}
const splitterOf = (maxLines = 1000, maxBytes = 1000) => new PartSplitter(readPart, maxLines, maxBytes)

interface Result {
  readonly events: string[]
  /** Where each event begins in the input. */
  readonly places: number[]
  bytes: number
}

/** `before`: the bytes of the input before the frame. */
function add(result: Result, frame: Frame | undefined): void {
  if (!frame) return
  const { chunk, starts, ends, flags, read, bytes, release } = frame
  for (let i = 0; i < frame.length; i++) {
    const text = chunk.toString('latin1', starts[i], ends[i])
    result.events.push(`${flags[i]! & CONTINUES ? '…' : ''}${text}${flags[i]! & PIECE ? '…' : ''}`)
    result.places.push(result.bytes + (read?.starts ?? starts)[i]! - starts[0]!)
  }
  result.bytes += bytes
  release?.()
}

function split(input: Buffer, splitter: PartSplitter, size: () => number): Result {
  const result: Result = { events: [], places: [], bytes: 0 }
  for (let at = 0; at < input.length; ) {
    const part = input.subarray(at, at + size())
    at += part.length
    add(result, splitter.push(part, Math.max(1, part.length)))
  }
  return result
}

const events = (input: string, maxLines?: number, maxBytes?: number) => {
  const splitter = splitterOf(maxLines, maxBytes)
  const result = split(Buffer.from(input), splitter, () => input.length)
  add(result, splitter.flush())
  return result.events
}

t.test('the events of each stream are joined, in the order of their beginnings', async t => {
  t.same(events('o+1\ne+2\no 3\no 4\ne 5\n'), ['o+1\no 3', 'e+2\ne 5', 'o 4'])
  const mixed = Buffer.from('o+1\ne+2\no 3\no 4\ne 5\n')
  t.same(split(mixed, splitterOf(), () => 100).places, [0, 4, 12], 'where they begin in the input')
  t.same(events('o+1\r\nx\r\ne 2\r\no 3\r\n'), ['o+1\r\no 3', 'x', 'e 2'])
  t.same(events('o+1\ne 2\n'), ['o+1', 'e 2'], 'not finished')
  t.same(events('o+1\ne+2\no+3'), ['o+1', 'e+2', 'o+3'], 'within a line')
})

t.test('what is held is bounded, and the rest is marked', async t => {
  t.same(events('o+1\ne 2\ne 3\no 4\ne 5\n', 3), ['o+1…', 'e 2', 'e 3', '…o 4', 'e 5'])
  t.same(events(`o+${'1'.repeat(8)}\ne 2\no ${'3'.repeat(8)}\n`, 10, 20), [
    `o+${'1'.repeat(8)}…`,
    'e 2',
    `…o ${'3'.repeat(8)}`,
  ])
  const long = `e ${'2'.repeat(18)}\n`
  t.same(events(`o+1\n${long.repeat(2)}o 3\n`, 10, 20), ['o+1…', ...Array(2).fill(long.trim()), '…o 3'])
  t.same(events(`o+1\n${'2'.repeat(30)}\no 3\n`, 10, 20), ['o+1…', `${'2'.repeat(20)}…`, `…${'2'.repeat(10)}`, '…o 3'])
})

t.test('portions and restarts change nothing', async t => {
  for (let seed = 0; seed < ROUNDS; seed++) {
    const random = new Seeded(seed)
    const lines = Array.from({ length: 1 + random.below(30) }, () => {
      const head = ['o ', 'o+', 'e ', 'e+', 'x'][random.below(5)]!
      return `${head}${'é'.repeat(random.below(3) ? 0 : random.below(40))}${random.below(1000)}${random.below(9) ? '\n' : '\r\n'}`
    })
    const input = Buffer.from(lines.join(''))
    const [maxLines, maxBytes] = [1 + random.below(6), 8 + random.below(60)]
    const whole = split(input, splitterOf(maxLines, maxBytes), () => input.length)
    const parts = split(input, splitterOf(maxLines, maxBytes), () => 1 + random.below(random.below(2) ? 5 : 50))
    if (!t.strictSame(parts, whole, `seed ${seed}`, { diagnostic: true })) return
    const result: Result = { events: [], places: [], bytes: 0 }
    let splitter = splitterOf(maxLines, maxBytes)
    for (let at = 0; at < input.length; ) {
      const end = Math.min(input.length, at + 1 + random.below(60))
      add(result, splitter.push(input.subarray(at, end)))
      at = end
      if (splitter.pending > 3 * maxBytes + 8) t.fail(`seed ${seed}: ${splitter.pending} bytes`)
      if (random.below(4)) continue
      at -= splitter.pending
      splitter = new PartSplitter(readPart, maxLines, maxBytes, splitter.continues, splitter.carry)
    }
    t.strictSame(result, whole, `seed ${seed}, with restarts`)
    t.equal(new Set(whole.places).size, whole.events.length, `seed ${seed}: each event has its own place`)
  }
})

t.test('an event of many parts is as expensive as its bytes', async t => {
  // The clock of a process's CPU time is coarse, so both costs are those of the same number of bytes.
  const cost = (parts: number, times: number) => {
    const input = Buffer.from(`o+\ne+${'x'.repeat(20)}\n`.repeat(parts))
    const { user } = process.cpuUsage()
    for (let n = 0; n < times; n++) {
      const splitter = splitterOf(1e6, 1e8)
      split(input, splitter, () => input.length)
      // Other tests of this process need the memory of chunks, too.
      splitter.drop()
    }
    return process.cpuUsage().user - user
  }
  cost(10_000, 10)
  t.ok(cost(80_000, 10) < 5 * cost(10_000, 80))
})

t.test('the pending bytes are taken as they were read', async t => {
  const splitter = splitterOf()
  split(Buffer.from('x\no+1\ne+2\no 3\n'), splitter, () => 100)
  t.ok(splitter.holdsOthers)
  t.equal(splitter.take().toString(), 'o+1\ne+2\no 3\n')
  t.match(splitter, { pending: 0, carry: 0, continues: false, holdsOthers: false })
})

t.test('a carry of an earlier version says which event was cut', async t => {
  const splitter = new PartSplitter(readPart, 10, 100, false, 2 | (2 << 2))
  t.same(split(Buffer.from('o 1\ne 2\ne 3\n'), splitter, () => 100).events, ['o 1', '…e 2', 'e 3'])
})
