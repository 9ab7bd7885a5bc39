import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { sample } from '../../../../src/components/processors/sample.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { problemsOf } from '../../../support/problems.js'
import { loadedStageOf } from '../../../support/stage.js'

async function sampled(options: object, events: readonly object[], perBatch = 100) {
  const { stage, wanted, counters } = await loadedStageOf(sample, options)
  const batches = []
  for (let n = 0; n < events.length; n += perBatch) batches.push(batchOf(events.slice(n, n + perBatch), { wanted }))
  const lines: string[] = []
  await pipeline(Readable.from(batches), stage, collectLines(lines))
  t.equal(lines.length + (counters.discards.get('sampled')?.events ?? 0), events.length)
  return lines.map(line => JSON.parse(line))
}

const numbered = (count: number, more: (n: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, n) => ({ n, ...more(n) }))

t.test('without a key every so many-th event passes', async t => {
  const off = { rate_field: false }
  const read = async (options: object, count: number) =>
    (await sampled({ ...options, ...off }, numbered(count), 7)).map(({ n }) => n)
  t.same(await read({ one_in: 10 }, 45), [0, 10, 20, 30, 40])
  t.same(await read({ ratio: 0.4 }, 11), [0, 3, 5, 8, 10])
  t.equal((await read({ ratio: 0.3 }, 10_000)).length, 3000)
  t.equal((await read({ one_in: 1 }, 20)).length, 20)
  t.equal((await read({ ratio: 1 }, 20)).length, 20)
})

t.test('with a key all of its events pass or none, about as many as asked for, and the same in every run', async t => {
  const events = numbered(40_000, n => ({ trace: `trace-${n % 10_000}` }))
  const options = { one_in: 10, key_field: '.trace', rate_field: false }
  const passed = await sampled(options, events)
  const keys = new Set<string>(passed.map(({ trace }) => trace))
  t.equal(passed.length, keys.size * 4)
  t.ok(Math.abs(keys.size - 1000) < 100, `${keys.size} of 10,000 keys`)
  const tighter = await sampled({ ...options, one_in: 20 }, events)
  t.ok(tighter.length > 0 && tighter.every(({ trace }) => keys.has(trace)), 'a higher rate keeps a part of these')
  t.same([...keys].slice(0, 5), ['trace-10', 'trace-19', 'trace-21', 'trace-24', 'trace-27'], 'for good')
  const without = await sampled(options, numbered(30))
  t.equal(without.length, 3, 'events without a key are counted')
})

t.test('the rate is written into what passed by chance', async t => {
  const events = [{ n: 0 }, { n: 1, keep: 1 }, { n: 2 }, { n: 3 }, { n: 4, sample_rate: 5 }]
  t.same(await sampled({ one_in: 2, keep: 'if (.keep exists)' }, events), [
    { n: 0, sample_rate: 2 },
    { n: 1, keep: 1 },
    { n: 3, sample_rate: 2 },
  ])
  t.same(await sampled({ one_in: 4, keep: 'if (.keep exists)', rate_field: '.meta.rate' }, events.slice(4)), [
    { n: 4, sample_rate: 5, meta: { rate: 4 } },
  ])
  t.same(await sampled({ ratio: 0.25 }, events.slice(4)), [{ n: 4, sample_rate: 20 }], 'on top of another sampler')
})

t.test('options', async t => {
  const problems = (options: string) => {
    const text = `sources: { in: { type: stdin } }
processors: { s: { type: sample, inputs: [in], ${options} } }
destinations: { out: { type: stdout, inputs: [s] } }`
    return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components }))
  }
  t.same(problems('one_in: 2, rate_field: .x'), [])
  t.match(problems('keep: if (.message exists)'), [/one_in: is missing; give one_in or ratio/])
  t.match(problems('one_in: 2, ratio: 0.5'), [/ratio: cannot be used with one_in/])
  t.match(problems('ratio: 1.5'), [/ratio/])
  t.match(problems('one_in: 2, rate_field: x'), [/rate_field/])
})
