import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { conditionOnLines, streamTap, type Taps } from '../../../../src/daemon/admin/tap.js'
import { isInChunkMemory } from '../../../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../../../src/lib/lines/chunk-pool.js'
import { batchOf } from '../../../support/batches.js'
import { ManualTime } from '../../../support/manual-time.js'

/** An answer whose reader takes what it likes. */
class Answer extends Writable {
  status = 0
  text = ''
  readonly req = { socket: new EventEmitter() }
  /** While true nothing is taken. */
  slow = false
  #waiting: (() => void) | undefined

  writeHead(status: number): this {
    this.status = status
    return this
  }
  flushHeaders(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    if (this.slow) this.#waiting = done
    else done()
  }

  read(): void {
    this.slow = false
    this.#waiting?.()
  }
}

function watching(
  query: {
    limit?: number
    where?: string
    component?: string
    outputs?: string[]
    rate?: number
    most?: number
    forMs?: number
  } = {},
) {
  const answer = new Answer()
  const open = new Set<(batch: EventBatch) => void>()
  const time = new ManualTime()
  let there = true
  const taps: Taps = {
    outputs: () => query.outputs ?? ['app'],
    processor: () => undefined,
    waiting: () => undefined,
    readers: () => [],
    tap(output, tap) {
      if (output !== 'app' || !there) return undefined
      open.add(tap)
      return () => open.delete(tap)
    },
  }
  const { limit = Number.POSITIVE_INFINITY, where, component = 'app', rate, most, forMs } = query
  streamTap({ component, limit, where, rate, most, forMs }, { taps }, answer as unknown as ServerResponse, time)
  t.teardown(() => answer.destroy())
  return {
    answer,
    taps: open,
    /** Lets a second pass, at the end of which the tap reports what it skipped. */
    second: () => time.advance(1000),
    halfSecond: () => time.advance(500),
    show: (lines: object[]) => {
      for (const tap of open) tap(batchOf(lines))
    },
    goes: () => {
      there = false
    },
    events: () => answer.text.split('\n').filter(line => line.startsWith('{')),
    missed: () =>
      [...answer.text.matchAll(/^# (\d+) more were not shown$/gm)].reduce((sum, [, n]) => sum + Number(n), 0),
  }
}

const numbered = (count: number, more = {}) => Array.from({ length: count }, (_, n) => ({ n, ...more }))

t.test(
  'with a condition, events that match are shown although many others come, up to a number per second',
  async t => {
    const { answer, show, events, second } = watching({ where: '.n less 30', most: 20 })
    show(numbered(1500))
    t.equal(events().length, 20)
    show(numbered(600))
    await second()
    t.same(answer.text.match(/^#.*$/gm), ['# 100 more were not looked at', '# 40 more that match were not shown'])
    show(numbered(10))
    t.equal(events().length, 30)
  },
)

t.test('who reads slowly is told how many were missed, all of them', async t => {
  const { answer, show, events, missed, second } = watching()
  answer.slow = true
  let shown = 0
  const before = process.cpuUsage()
  for (let i = 0; i < 50; i++) {
    show(numbered(100, { text: 'x'.repeat(50_000) }))
    shown += 100
  }
  t.ok(answer.writableLength < 2 * 1024 * 1024, 'what is kept for it is bounded')
  t.ok(process.cpuUsage(before).user < 20_000_000)
  for (let i = 0; i < 3; i++) await second()
  t.equal(missed(), 0)
  answer.read()
  await second()
  t.ok(missed() > 0, 'told')
  t.equal(events().length + missed(), shown, 'every one is shown or counted')
  show(numbered(3))
  await second()
  t.equal(events().length + missed(), shown + 3, 'it goes on')
})

t.test('a condition keeps no memory of the events that it tested', async t => {
  const free = () => {
    const chunks = Array.from({ length: 64 }, () => takeChunk(300_000))
    chunks.forEach(freeChunk)
    return chunks.filter(isInChunkMemory).length
  }
  const before = free()
  const holds = conditionOnLines(".level equal 'error'")
  const line = Buffer.from(`${JSON.stringify({ level: 'info', text: 'x'.repeat(150_000) })}\n`)
  for (let n = 0; n < 100; n++) t.notOk(holds(line))
  t.equal(free(), before)
})

t.test('a limit, a condition, and the end', async t => {
  const limited = watching({ limit: 3, where: 'if (.n greater 1)' })
  limited.show(numbered(10))
  t.same(limited.events(), ['{"n":2}', '{"n":3}', '{"n":4}'])
  t.equal(limited.taps.size, 0, 'nothing is left of it')
  t.ok(limited.answer.writableEnded)

  const many = watching({ limit: 2500 })
  many.show(numbered(2400))
  t.same([many.events().length, many.missed()], [2000, 0], 'at most so many are looked at in a second')
  await many.second()
  t.equal(many.missed(), 400, 'told of the rest')
  many.show(numbered(600))
  t.same([many.events().length, many.missed()], [2500, 400])

  const large = watching({ where: '.n less 0' })
  large.show(numbered(300, { text: 'x'.repeat(10_230) }))
  await large.second()
  t.match(large.answer.text, '# 100 more were not looked at', 'one of 10 KiB counts as ten')

  const few = watching({ rate: 0.5, limit: 1.5 })
  few.show(numbered(10))
  t.same([few.events().length, few.answer.writableEnded], [1, false], 'a part of an event counts as one')
  await few.second()
  few.show(numbered(10))
  t.same([few.events().length, few.answer.writableEnded], [2, true])

  const left = watching()
  left.answer.destroy()
  await left.second()
  t.equal(left.taps.size, 0, 'it is released')

  const replaced = watching()
  replaced.goes()
  await replaced.second()
  t.ok(replaced.answer.writableEnded, 'what is watched is gone')

  t.match(watching({ component: 'other' }).answer, { status: 404, text: 'there is no other; there are app\n' })
  const none = watching({ component: 'other', outputs: [] }).answer
  t.match(none, { status: 404, text: 'there is no other; no pipeline runs now, see: sluice status\n' })
  t.match(watching({ where: 'if (x)' }).answer, { status: 400, text: /the condition/ })
})

t.test(
  'a client may ask for more events per second, up to a bound, and for an end that reports what was skipped',
  async t => {
    const tap = watching({ rate: 5000, forMs: 2500 })
    tap.show(numbered(6000))
    t.equal(tap.events().length, 5000)
    await tap.second()
    await tap.second()
    t.equal(tap.missed(), 1000)
    tap.show(numbered(5001))
    t.equal(tap.answer.writableEnded, false)
    await tap.halfSecond()
    t.equal(tap.answer.writableEnded, true)
    t.equal(tap.missed(), 1001)
    t.equal(tap.taps.size, 0)
    const most = watching({ rate: 1e9 })
    most.show(numbered(20_001))
    await most.second()
    t.equal(most.events().length, 20_000)
    t.equal(most.missed(), 1)
  },
)
