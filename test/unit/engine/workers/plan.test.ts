import t from 'tap'
import { components } from '../../../../src/components.js'
import { parseConfig } from '../../../../src/config/load.js'
import { planParts, threadsBy } from '../../../../src/engine/workers/plan.js'

const file = (id: string) => `  ${id}: { type: file, include: [${id}.log] }\n`
const filter = (id: string, inputs: string, more = '') =>
  `  ${id}: { type: filter, inputs: [${inputs}], condition: if (.n exists)${more} }\n`

function configOf(workers: number | string, sources: string, processors: string, destinations: string) {
  const text = `workers: ${workers}\nsources:\n${sources}processors:\n${processors}destinations:\n${destinations}`
  return parseConfig(text, 'sluice.yaml', { env: {}, components })
}

const out = (inputs: string, id = 'out') => `  ${id}: { type: blackhole, inputs: [${inputs}] }\n`

/** The ids on each thread, and what leaves it. */
const shown = (config: ReturnType<typeof configOf>, stays?: (id: string) => boolean) =>
  planParts(config, stays).map(({ sources, processors, exits }) => [
    [...sources, ...processors].map(({ id }) => id).join(' '),
    exits.join(' '),
  ])

t.test('sources are distributed in turn, with the processors that only they reach', async t => {
  const sources = file('a') + file('b') + file('c')
  const processors = filter('b1', 'b') + filter('a2', 'a1') + filter('a1', 'a') + filter('c1', 'c')
  t.same(shown(configOf(2, sources, processors, out('a2, b1, c1'))), [
    ['a c a2 a1 c1', 'a2 c1'],
    ['b b1', 'b1'],
  ])
  t.same(shown(configOf(8, sources, processors, out('a2, b1, c1'))).length, 3, 'no thread without a source')
  t.same(shown(configOf(1, sources, processors, out('a2, b1, c1')))[0]![1], 'a2 b1 c1')
})

t.test('what two threads share, what keeps state and all behind it stays on the main thread', async t => {
  const processors =
    filter('a1', 'a') +
    filter('b1', 'b') +
    filter('both', 'a1, b1') +
    '  limit: { type: throttle, inputs: [a1], limit: 1, window: 1s }\n' +
    filter('behind', 'limit') +
    filter('rest', 'a1.discarded')
  const config = configOf(2, file('a') + file('b'), processors, out('both, behind') + out('rest, a1', 'other'))
  t.same(shown(config), [
    ['a a1 rest', 'a1 rest'],
    ['b b1', 'b1'],
  ])
  t.same(
    [...threadsBy(planParts(config))],
    [
      ['a', 0],
      ['a1', 0],
      ['rest', 0],
      ['b', 1],
      ['b1', 1],
    ],
  )
  t.same(
    shown(config, id => id === 'a'),
    [
      ['', ''],
      ['b b1', 'b1'],
    ],
    'what stays takes its processors with it, and the others keep their threads',
  )
})

t.test('what listens, what writes dead letters, and what a published pipeline brings does not move', async t => {
  const sources = `  in: { type: stdin }\n  net: { type: tcp, listen: 127.0.0.1:1 }\n${file('a')}`
  const processors = filter('letters', 'a', ', on_error: dead_letter') + filter('net1', 'net')
  const config = configOf(4, sources, processors, out('in, letters, net1'))
  t.same(shown(config), [['a', 'a']])
  const limited = { ...config, sources: config.sources.map(source => ({ ...source, reach: {} as never })) }
  t.same(planParts(limited), [])
})

t.test('a processor that reads a side output of a destination stays', async t => {
  const processors = filter('refused', 'out.rejected') + filter('mixed', 'a, out.rejected')
  const config = configOf(1, file('a'), processors, out('a') + out('refused, mixed', 'other'))
  t.same(shown(config), [['a', 'a']])
})

t.test('auto and nothing', async t => {
  const config = configOf('auto', file('a'), filter('a1', 'a'), out('a1'))
  const { availableParallelism } = await import('node:os')
  t.equal(planParts(config).length, availableParallelism() > 1 ? 1 : 0)
  t.same(planParts({ ...config, workers: undefined }), [])
  t.throws(() => configOf('many', file('a'), filter('a1', 'a'), out('a1')), /workers: must be auto, or a number from 1/)
  t.throws(() => configOf(0, file('a'), filter('a1', 'a'), out('a1')), /workers: must be at least 1/)
})
