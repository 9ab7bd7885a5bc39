import t, { type Test } from 'tap'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { Batcher, halve } from '../../../../src/engine/flow/delivery/batcher.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { seeded } from '../../../support/seeded.js'

const origin = originOf('text')
const limits = { max_events: 10, max_bytes: 1000, max_wait: 100 }

const batcherOf = (of: typeof limits) => new Batcher(of, { maxBytes: of.max_bytes, ratio: 1 })

/** Batches of lines n, n + 1, ... each of a given size, and how often each batch was settled. */
function numbered(counts: readonly number[], size: () => number = () => 4) {
  const settled: AckStatus[][] = counts.map(() => [])
  let n = 0
  const batches = counts.map((count, i) => {
    let text = ''
    for (let k = 0; k < count; k++) text += `${String(n++).padEnd(size() - 1, '.')}\n`
    return batchesOf(text, origin, status => settled[i]!.push(status))[0]!
  })
  return { batches, settled }
}

function numbers(request: readonly EventBatch[]): number[] {
  return request.flatMap(batch =>
    Array.from({ length: batch.length }, (_, i) => Number.parseInt(batch.line(i).toString(), 10)),
  )
}

const bytesOf = (request: readonly EventBatch[]) => request.reduce((sum, { bytes }) => sum + bytes, 0)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

/** Takes requests until nothing is left. They have so many events, all of them in order. */
function takeAll(t: Test, batcher: Batcher, counts: readonly number[], name: string): EventBatch[][] {
  const taken: EventBatch[][] = []
  while (!batcher.empty) taken.push(batcher.take())
  t.same(
    taken.map(request => numbers(request).length),
    counts,
    name,
  )
  t.same(taken.flatMap(numbers), upTo(counts.reduce((a, b) => a + b)), name)
  return taken
}

t.test('whole batches: one is divided only if it is too large alone', async t => {
  const cases = [
    { name: 'the next one of its size would not fit', counts: [6], fullAfter: 1, requests: [6] },
    { name: 'two fit', counts: [5, 5], fullAfter: 2, requests: [10] },
    { name: 'those that waited go one by one', counts: [6, 6, 3], fullAfter: 1, requests: [6, 9] },
    { name: 'by bytes', counts: [4, 4], size: 140, fullAfter: 1, requests: [4, 4] },
    { name: 'too large alone', counts: [13, 2], fullAfter: 1, requests: [10, 5] },
  ]
  for (const { name, counts, size, fullAfter, requests } of cases) {
    const batcher = new Batcher(limits, { maxBytes: limits.max_bytes, ratio: 1 }, true)
    const { batches } = numbered(counts, () => size ?? 4)
    let full = 0
    for (const [i, batch] of batches.entries()) {
      batcher.add(batch, 0)
      if (full === 0 && batcher.full) full = i + 1
    }
    t.equal(full, fullAfter, name)
    takeAll(t, batcher, requests, name)
  }
})

t.test('merges, splits and keeps the order', async t => {
  const cases: {
    name: string
    counts: number[]
    size?: number
    limits?: Partial<typeof limits>
    requests: number[]
  }[] = [
    { name: 'small batches share a request', counts: [3, 3, 3], requests: [9] },
    { name: 'a full one is cut at the count', counts: [7, 7, 7], requests: [10, 10, 1] },
    { name: 'one large batch becomes several requests', counts: [35], requests: [10, 10, 10, 5] },
    { name: 'cut at the bytes', counts: [5, 5], size: 250, requests: [4, 4, 2] },
    { name: 'what is too large goes alone', counts: [1, 2], size: 1001, requests: [1, 1, 1] },
    { name: 'exactly the limits', counts: [10], size: 100, requests: [10] },
    { name: 'one by one', counts: [2, 1], limits: { max_events: 1 }, requests: [1, 1, 1] },
  ]
  for (const { name, counts, size, limits: changed, requests } of cases) {
    const batcher = batcherOf({ ...limits, ...changed })
    const { batches, settled } = numbered(counts, () => size ?? 4)
    for (const batch of batches) batcher.add(batch, 0)
    const taken = takeAll(t, batcher, requests, name)
    t.same(settled.flat(), [], name)
    for (const part of taken.flat()) part.ack.settle('delivered')
    t.same(
      settled,
      counts.map(() => ['delivered']),
      name,
    )
  }
})

t.test('knows what is full, what is due and what is there', async t => {
  const batcher = batcherOf(limits)
  t.equal(batcher.dueAt, Number.POSITIVE_INFINITY)
  t.same(batcher.take(), [])
  const { batches, settled } = numbered([6, 5, 2])
  batcher.add(batches[0]!, 5)
  t.notOk(batcher.full)
  t.equal(batcher.dueAt, 105)
  batcher.add(batches[1]!, 50)
  t.ok(batcher.full, 'by count')
  batcher.take()
  t.same(batcher.amount(), { events: 1, bytes: 4 })
  t.equal(batcher.dueAt, 150, 'as old as the batch it came with')
  batcher.add(batches[2]!, 60)
  t.same(batcher.giveBack(), { events: 3, bytes: 12 })
  t.ok(batcher.empty)
  t.same(batcher.amount(), { events: 0, bytes: 0 })
  t.same(settled, [[], [], ['errored']], 'the others wait for the request')
  const large = numbered([2], () => 500)
  batcher.add(large.batches[0]!, 0)
  t.ok(batcher.full, 'by bytes')
})

t.test('any batches, any limits: every event once, in order, within the limits', async t => {
  const random = seeded(7)
  const below = (n: number) => Math.floor(random() * n)
  for (let round = 0; round < 300; round++) {
    const own = { max_events: 1 + below(12), max_bytes: 10 + below(200), max_wait: 1 }
    const batcher = batcherOf(own)
    const counts = Array.from({ length: 1 + below(8) }, () => 1 + below(20))
    const { batches, settled } = numbered(counts, () => 6 + below(30))
    const requests: EventBatch[][] = []
    let left = 0
    for (const batch of batches) {
      batcher.add(batch, 0)
      left += batch.bytes
      while (random() < 0.3 && !batcher.empty) requests.push(batcher.take())
      const gone = requests.flat().reduce((sum, { bytes }) => sum + bytes, 0)
      if (batcher.amount().bytes !== left - gone) t.fail('the amount is wrong')
    }
    while (!batcher.empty) requests.push(batcher.take())
    const queue = [...requests]
    const seen: number[] = []
    for (let request = queue.shift(); request; request = queue.shift()) {
      const events = numbers(request)
      const fits = events.length <= own.max_events && (bytesOf(request) <= own.max_bytes || events.length === 1)
      if (!fits || events.length === 0) t.fail(`a request of ${events.length} events, ${bytesOf(request)} bytes`)
      if (events.length > 1 && random() < 0.3) {
        const halves = halve(request)
        if (Math.abs(numbers(halves[0]).length - numbers(halves[1]).length) > 1) t.fail('not halves')
        queue.unshift(...halves)
        continue
      }
      seen.push(...events)
      for (const part of request) part.ack.settle(part.length > 15 ? 'rejected' : 'delivered')
    }
    const all = upTo(counts.reduce((a, b) => a + b))
    if (seen.join() !== all.join()) t.same(seen, all)
    if (settled.some(statuses => statuses.length !== 1)) t.same(settled, [])
  }
  t.pass('300 rounds')
})
