import t from 'tap'
import { kneeOf, MARKS, startText, timeTicks, valueTicks } from '../../../src/simulate/report/charts.js'
import { reportPage } from '../../../src/simulate/report/page.js'
import type { KeyResult, SimulationResult, TrialResult } from '../../../src/simulate/result.js'
import { contrast } from '../../support/contrast.js'
import { longTest } from '../../support/long-test.js'
import { seeded } from '../../support/seeded.js'

interface MadeTrial {
  readonly limit: number
  readonly windowMs?: number
  readonly keyField?: string | null
}

const SLOTS = { start: 1_760_000_000_000, slot_ms: 65_536, count: 240 }
const EVENT_BYTES = 200
const MOST_KEYS = 1000
const MOST_KEYS_OVER_TIME = 12

/** The result of a simulation of made-up events, whose numbers add up: those of the first keys are the largest. */
function madeResult(keys: readonly (string | null)[], trials: readonly MadeTrial[]): SimulationResult {
  const results = trials.map(trial => madeTrial(keys, trial))
  const { passed, discarded, by_key, others } = results[0]!
  const excluded = by_key.reduce((sum, key) => sum + key.excluded, others?.excluded ?? 0)
  const events = passed + discarded + excluded
  return {
    component: 'limit_app',
    config: 'sluice.yaml',
    changed: [],
    settings: [{ name: 'simulated', text: 'limit_app of sluice.yaml' }],
    inputs: ['app.log'],
    time: '.timestamp',
    complete: true,
    events,
    bytes: events * EVENT_BYTES,
    excluded,
    excluded_bytes: excluded * EVENT_BYTES,
    from: SLOTS.start,
    to: SLOTS.start + SLOTS.count * SLOTS.slot_ms - 1,
    slots: SLOTS,
    notes: [],
    results,
    yaml: 'limit_app:\n  type: throttle\n',
  }
}

function madeTrial(keys: readonly (string | null)[], made: MadeTrial): TrialResult {
  const { limit, windowMs = 1000, keyField = '.app' } = made
  const random = seeded(limit)
  const zeros = () => Array.from({ length: SLOTS.count }, () => 0)
  const over_time = { passed: zeros(), discarded: zeros(), excluded: zeros(), others: zeros() }
  const spread = (slots: number[], events: number, peak: number) => {
    for (let left = events; left > 0; left -= 10) {
      const slot = Math.floor(peak + (random() + random() - 1) * 60)
      slots[Math.min(SLOTS.count - 1, Math.max(0, slot))]! += Math.min(10, left)
    }
  }
  const counts = keys.map((key, k): KeyResult & { discardedOverTime: number[] } => {
    const events = 10 + Math.round(20_000 / (k + 1))
    const discarded = Math.round((events - 10) / (1 + (limit * (k + 1)) / 50))
    const excluded = k % 3
    const passed = events - discarded - excluded
    const discardedOverTime = zeros()
    spread(over_time.passed, passed, SLOTS.count / 2)
    spread(over_time.excluded, excluded, SLOTS.count / 2)
    spread(discardedOverTime, discarded, (k * 67) % SLOTS.count)
    for (const [slot, value] of discardedOverTime.entries()) {
      over_time.discarded[slot]! += value
      if (k >= MOST_KEYS_OVER_TIME) over_time.others[slot]! += value
    }
    const bytes = { passed_bytes: passed * EVENT_BYTES, discarded_bytes: discarded * EVENT_BYTES }
    const window = { busiest: Math.ceil(events / 40), busiest_at: SLOTS.start + k * 1000 }
    return { key, passed, discarded, excluded, ...bytes, ...window, discardedOverTime }
  })
  const sum = (from: number, name: 'passed' | 'discarded' | 'excluded' | 'passed_bytes' | 'discarded_bytes') =>
    counts.slice(from).reduce((sum, key) => sum + key[name], 0)
  const rest = (name: Parameters<typeof sum>[1]) => sum(MOST_KEYS, name)
  return {
    key_field: keyField,
    limit,
    unit: 'events',
    window_ms: windowMs,
    window_mode: 'fixed',
    passed: sum(0, 'passed'),
    discarded: sum(0, 'discarded'),
    passed_bytes: sum(0, 'passed_bytes'),
    discarded_bytes: sum(0, 'discarded_bytes'),
    keys: keys.length,
    more_keys: false,
    losing_keys: keys.length,
    by_key: counts.slice(0, MOST_KEYS).map(({ discardedOverTime: _, ...key }) => key),
    others:
      keys.length <= MOST_KEYS
        ? null
        : {
            keys: keys.length - MOST_KEYS,
            passed: rest('passed'),
            discarded: rest('discarded'),
            excluded: rest('excluded'),
            passed_bytes: rest('passed_bytes'),
            discarded_bytes: rest('discarded_bytes'),
          },
    over_time: {
      ...over_time,
      by_key: counts
        .slice(0, MOST_KEYS_OVER_TIME)
        .map(({ key, discardedOverTime }) => ({ key, discarded: discardedOverTime })),
    },
  }
}

const LIMITS = [10, 20, 50, 100, 200, 500, 1000]

t.test('the knee is where a curve of loss against limit bends most', async t => {
  const knee = (losses: readonly number[], limits: readonly number[] = LIMITS) =>
    limits[kneeOf(losses.map((loss, i) => ({ limit: limits[i]!, loss }))) ?? -1]
  t.equal(knee([0.9, 0.8, 0.3, 0.05, 0.04, 0.03, 0.02]), 100)
  t.equal(knee([0.9, 0.1, 0.08, 0.06, 0.04, 0.02, 0]), 20)
  t.equal(knee([0.9, 0.6, 0.3, 0, 0, 0, 0]), 100, 'where nothing is lost any more')
  t.equal(knee([1, 0.5, 0], [1, 10, 10_000]), 10, 'limits are on a logarithmic scale')
  t.equal(knee([0.009, 0.008, 0.003, 0.0005, 0.0004, 0.0003, 0.0002]), 100, 'the height of the curve does not matter')
  t.equal(knee([0.9, 0.8, 0.3, 0.05, 0.35, 0.03, 0.02]), 100, 'a point above its neighbours does not matter')
})

t.test('a curve without a bend has no knee', async t => {
  const knee = (losses: readonly number[], limits: readonly number[] = LIMITS) =>
    kneeOf(losses.map((loss, i) => ({ limit: limits[i]!, loss })))
  t.equal(knee([]), undefined)
  t.equal(knee([0.5]), undefined)
  t.equal(knee([0.5, 0.1]), undefined, 'two limits')
  t.equal(knee([0.6, 0.4, 0.2], [1, 10, 100]), undefined, 'a straight line')
  t.equal(knee([0.6, 0.5, 0.1], [1, 10, 100]), undefined, 'bent the other way')
  t.equal(knee([0, 0, 0], [1, 10, 100]), undefined, 'nothing is lost')
  t.equal(knee([0.2, 0, 0.2], [1, 10, 100]), undefined, 'the loss does not fall')
})

t.test('axes have few ticks with round values', async t => {
  t.same(valueTicks(7, 1), [0, 2, 4, 6, 8])
  t.same(valueTicks(0, 1), [0, 1])
  t.same(valueTicks(1, 1), [0, 1])
  t.same(valueTicks(123_456, 1), [0, 50_000, 100_000, 150_000])
  t.same(
    valueTicks(0.06, 0.001).map(value => value.toFixed(3)),
    ['0.000', '0.020', '0.040', '0.060'],
  )
  const labels = (from: string, ms: number) => timeTicks(Date.parse(from), ms).map(({ label }) => label)
  t.same(labels('2026-01-01T23:59:58Z', 4000), ['23:59:58', '23:59:59', '2026-01-02', '00:00:01', '00:00:02'])
  t.same(labels('2026-01-01T10:10:00Z', 3_600_000), ['10:10', '10:20', '10:30', '10:40', '10:50', '11:00', '11:10'])
  t.same(labels('2026-01-01T00:00:00.100Z', 200), [
    '00:00:00.100',
    '00:00:00.150',
    '00:00:00.200',
    '00:00:00.250',
    '00:00:00.300',
  ])
  t.same(labels('2026-01-01T10:00:00Z', 4 * 86_400_000), ['2026-01-02', '2026-01-03', '2026-01-04', '2026-01-05'])
  t.ok(timeTicks(8.64e15 - 10, 100).length > 0, 'up to the last date that there is')
  t.ok(timeTicks(-8.64e15 - 10, 100).length > 0, 'from the first one on')
  t.equal(startText({ start: -8.64e15 - 10, slot_ms: 20, count: 2 }, 0), '-271821-04-20T00:00:00.000Z')
  t.equal(startText({ start: -8.64e15 - 10, slot_ms: 20, count: 2 }, 1), '-271821-04-20T00:00:00.010Z')
})

/** The colours of the page by name: those of light, and of dark. */
function palettes(): ReadonlyMap<string, string>[] {
  const [, style = ''] = /<style>(.*)<\/style>/s.exec(reportPage(madeResult([], [{ limit: 1 }]), 0))!
  return [...style.matchAll(/:root \{([^}]*--back:[^}]*)\}/g)].map(
    ([, rules = '']) => new Map([...rules.matchAll(/--(\w+): (#\w{6});/g)].map(([, name, colour]) => [name!, colour!])),
  )
}

t.test('all colours have contrast, in light and dark', async t => {
  const [light, dark, ...more] = palettes()
  t.same(more, [])
  t.same([...dark!.keys()], [...light!.keys()])
  for (const palette of [light!, dark!]) {
    const colour = (name: string) => palette.get(name)!
    for (const ground of ['back', 'panel'])
      for (const text of ['text', 'faint', 'link']) t.ok(contrast(colour(text), colour(ground)) >= 4.5)
    for (const shape of ['border', 'passed', 'discarded', 'excluded', 'rest', ...SERIES])
      t.ok(contrast(colour(shape), colour('back')) >= 3, shape)
    t.ok(contrast(colour('line'), colour('back')) < 2, 'lines of the grid stay in the background')
  }
})

const SERIES = Array.from({ length: 7 }, (_, i) => `s${i}`)

t.test('what is stacked, and curves, differ in more than their colours', async t => {
  for (const palette of palettes())
    for (const stack of [
      ['passed', 'discarded', 'excluded'],
      [...SERIES, 'rest'],
    ])
      for (const [i, name] of stack.slice(1).entries())
        t.ok(contrast(palette.get(name)!, palette.get(stack[i]!)!) >= 1.6, `${stack[i]} and ${name}`)
  t.equal(new Set(MARKS).size, MARKS.length)
})

t.test('nothing from events becomes markup', async t => {
  const hostile = [
    '</script><script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'`&<b>",
    '\u202e\u0000\ud800',
  ]
  const page = reportPage(
    {
      ...madeResult(hostile, [
        { limit: 10, keyField: '."<b>"' },
        { limit: 20, keyField: '."<b>"' },
      ]),
      component: '<b>',
      inputs: ['<b>.log'],
      settings: [{ name: '<b>', text: '<b>' }],
      notes: [{ name: '<b>', text: '<b>' }],
      yaml: '</pre><b>',
    },
    0,
  )
  t.notMatch(page, /<img|<b>[^\d]|alert\(1\)<\/script>|\u202e|\u0000/)
  t.equal(page.match(/<script/g)!.length, 1)
  t.match(page, '&#60;/script&#62;&#60;script&#62;alert(1)')
  t.ok(page.isWellFormed())
})

longTest('the page is bounded, and what it leaves out is in an exact sum', async t => {
  const hostile = '<'.repeat(300)
  const keys = Array.from({ length: 100_000 }, (_, n) => `${n}${hostile}`)
  const one = madeResult(keys, [{ limit: 10 }])
  const page = reportPage(one, 0)
  t.ok(page.length < 2_000_000, `${page.length}`)
  const [, foot = ''] = /<tfoot>(.*?)<\/tfoot>/s.exec(page)!
  const cells = [...foot.matchAll(/<td>([^<]*)<\/td>/g)].map(([, text]) => Number(text!.replaceAll(',', '')))
  const named = one.results[0]!.by_key.reduce((sum, { discarded }) => sum + discarded, 0)
  t.match(foot, 'other (99,000 keys)')
  t.equal(cells[2], one.results[0]!.discarded - named)

  const many = Array.from({ length: 60 }, (_, n) => ({ limit: n + 1, windowMs: 1000 }))
  const grid = madeResult(keys.slice(0, 2000), many)
  const gridPage = reportPage(grid, 0)
  t.ok(gridPage.length < 6_000_000, `${gridPage.length}`)
  t.match(gridPage, 'Details follow for 12 of the 60 results.')
  const sections = gridPage.split('<section class="result"').slice(1)
  t.equal(sections.length, 12)
  const number = (text: string) => Number(text.replaceAll(',', ''))
  for (const section of sections) {
    const discarded = [...section.matchAll(/<tr><th scope="row">(?:<bdi>|other).*?<\/tr>/g)].map(([row]) =>
      number([...row.matchAll(/<td>([^<]*)<\/td>/g)][2]![1]!),
    )
    const [, total = ''] = /class="discarded"><span>discarded<\/span> <b>([\d,]+)/.exec(section)!
    t.ok(discarded.length < 200)
    t.equal(
      discarded.reduce((sum, value) => sum + value, 0),
      number(total),
    )
  }
})

t.test('a limit that was searched for comes first, with its goal and the next limit', async t => {
  const result = madeResult(['a'], [{ limit: 1234 }])
  const search = {
    goal: 'keeps 99 % where <b>',
    kind: 'lowest',
    does: 'keeps 99.2 %',
    figures: {},
    needed: true,
    next: { limit: 1233, does: 'keeps 98.9 %' },
  } as const
  const page = reportPage({ ...result, limit: 1234, results: [{ ...result.results[0]!, search }] }, 0)
  const [, main = ''] = page.split('<main>')
  t.match(main.trim(), /^<section aria-labelledby="found">/)
  t.match(main, 'limit 1,234 in 1 second by .app is the lowest that keeps 99 % where &#60;b&#62;: keeps 99.2 %')
  t.match(main, 'limit 1,233 keeps 98.9 %')
})

t.test('of many inputs the first are named', async t => {
  const inputs = Array.from({ length: 10_000 }, (_, n) => `/var/log/app/${n}.log`)
  const settings = [{ name: 'input', text: inputs.join(', ') }]
  const page = reportPage({ ...madeResult(['a'], [{ limit: 1 }]), inputs, settings }, 0)
  t.match(page, 'Events of /var/log/app/0.log, /var/log/app/1.log, /var/log/app/2.log and 9,997 other inputs, from')
  t.ok(page.length < 200_000, `${page.length}`)
})

t.test('without events, or times, or with a single limit, the page says so', async t => {
  const none = madeResult([], [{ limit: 10 }])
  t.match(reportPage({ ...none, slots: null, from: null, to: null }, 0), 'No event had a time of its own.')
  t.match(reportPage(none, 0), 'Nothing is discarded.')
  t.match(reportPage(none, 0), 'There is one limit, so there is no curve and no knee.')
  t.match(reportPage({ ...none, complete: false }, 0), 'interrupted before the end')
})
