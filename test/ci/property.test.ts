import t from 'tap'
import { stringify } from 'yaml'
import { components } from '../../src/components/list.js'
import { parseConfig } from '../../src/engine/config/load.js'
import { MODES, NAMES, REFUSED, TIMES } from '../property/throttle/features.js'
import type { Options } from '../property/throttle/model.js'
import { run } from '../property/throttle/run.js'
import { ALL_PAIRS, ALL_RUNS, PAIRS, type Scenario, scenarioOf } from '../property/throttle/scenario.js'
import { shrunken } from '../property/throttle/shrink.js'

/** A short run of `npm run fuzz throttle`. */

/** Those with all pairs, and more where few show what is wrong: at the ends of sliding windows, and of rules in a row. */
function seeds(): number[] {
  const more: number[] = []
  const add = (most: number, is: (scenario: Scenario) => boolean) => {
    for (let seed = ALL_PAIRS, n = 0; n < most; seed++) {
      if (!is(scenarioOf(seed))) continue
      more.push(seed)
      n++
    }
  }
  add(80, ({ mode, time }) => mode === 'sliding' && time === 'clock')
  add(80, ({ features }) => features.includes('limits:key'))
  return [...Array.from({ length: ALL_PAIRS }, (_, seed) => seed), ...more]
}

t.test('throttles with any two options do what a simple model of them does', async t => {
  const refused = new Set<string | undefined>()
  for (const seed of seeds()) {
    const result = await run(scenarioOf(seed))
    refused.add(result.refused)
    if (result.problems.length > 0) {
      const { steps, ...smallest } = await shrunken(scenarioOf(seed))
      const history = [smallest, ...steps].map(part => JSON.stringify(part)).join('\n')
      t.fail(`seed ${seed}: ${result.problems[0]}\n${history}`)
    }
  }
  t.same([...refused].filter(Boolean).sort(), REFUSED.map(({ path }) => path).sort())
})

t.test('what is live need not wait for backlog whose bucket was not asked yet', async t => {
  const backlog = (...events: Options[]) => ({ do: 'send', source: 's1', isBacklog: true, events }) as const
  const { problems } = await run({
    ...scenarioOf(0),
    // With a limits file, what waits is asked about every half a second.
    options: {
      limit: 1,
      window: '10s',
      key_field: '.k',
      limits_file: 'limits.yaml',
      on_backlog: 'pace',
      max_delay: '1m',
    },
    fileRules: [],
    steps: [
      backlog({ n: 1 }, { n: 2 }),
      { do: 'advance', ms: 1 },
      backlog({ n: 3 }),
      { do: 'advance', ms: 500 },
      // It comes when the one before it is due, and has its turn a few milliseconds later.
      backlog({ n: 4, k: 'a' }),
      { do: 'send', source: 's2', isBacklog: false, events: [5, 6].map(n => ({ n, k: 'a' })) },
    ],
  })
  t.same(problems, [])
})

t.test('runs try every two options with every mode, on the clock and in event time', async t => {
  const tried = new Map<string, number>()
  const note = (name: string) => tried.set(name, (tried.get(name) ?? 0) + 1)
  const pairsOf = (features: readonly string[]) => PAIRS.filter(pair => pair.every(name => features.includes(name)))
  for (let seed = 0; seed < ALL_RUNS; seed++) {
    const { mode, time, features } = scenarioOf(seed)
    for (const [a, b] of pairsOf(features)) note(`${mode} ${time} ${a} ${b}`)
  }
  t.ok(ALL_RUNS <= 10_000)
  t.ok(NAMES.length > 30)
  t.equal(tried.size, MODES.length * TIMES.length * PAIRS.length)
})

/** An example of each combination that is refused, and the option with the error. */
const EXAMPLES: Record<string, Options> = {
  burst: { limit: 1, window: '1s', burst: 2 },
  cost: { limit_bytes: 10, window: '1s', cost: '.c' },
  window_mode: { limit: 1, window: '1s', window_mode: 'gcra', time_field: '.t' },
  'limits[0].window_mode': {
    limit: 1,
    window: '1s',
    time_field: '.t',
    limits: [{ when: 'if (.a exists)', window_mode: 'sliding' }],
  },
  'also[0].window_mode': {
    limit: 1,
    window: '1s',
    time_field: '.t',
    also: [{ limit: 5, window: '1m', window_mode: 'sliding' }],
  },
  over_limit: { limit: 1, window: '1s', time_field: '.t', over_limit: { wait: '1s' } },
  max_delay: { limit: 1, window: '1s', max_delay: '1s' },
  allowed_lateness: { limit: 1, window: '1s', allowed_lateness: '1s' },
  on_late: { limit: 1, window: '1s', on_late: 'pass' },
  'limits[0].key': { limit: 1, window: '1s', limits: [{ key: 'a', limit: 2 }] },
  'limits[0].window': {
    limit: 1,
    window: '1s',
    limits: [{ when: 'if (.a exists)', limit: 'unlimited', window: '2s' }],
  },
  'limits[0].burst': { limit: 1, window: '1s', limits: [{ when: 'if (.a exists)', burst: 2 }] },
  limit: { window: '1s' },
  window: { limit: 1 },
  'quota.limit': { quota: { per: 'day' } },
}

t.test('combinations without a meaning are errors with their place', async t => {
  for (const { path, name } of REFUSED) t.ok(EXAMPLES[path], name)
  for (const [path, options] of Object.entries(EXAMPLES)) {
    const limit = stringify({ processors: { limit: { type: 'throttle', inputs: ['in'], ...options } } })
    const text = `${limit}sources: { in: { type: stdin } }\ndestinations: { out: { type: blackhole, inputs: [limit] } }\n`
    const refused = new RegExp(`^c\\.yaml:\\d+:\\d+: processors\\.limit\\.${path.replace(/[.[\]]/g, '\\$&')}: `, 'm')
    t.throws(
      () => parseConfig(text, 'c.yaml', { env: {}, components, onThisMachine: false }),
      { message: refused },
      path,
    )
  }
})
