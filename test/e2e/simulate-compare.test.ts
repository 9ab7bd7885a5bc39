import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ComparisonResult } from '../../src/cli/check/simulate/compare-summary.js'
import { testFolder } from '../support/folder.js'
import { Seeded } from '../support/seeded.js'
import { callSimulate } from '../support/simulate.js'

const config = (processors: string, source = 'in') => `sources: { ${source}: { type: stdin, decode: json } }
processors: { ${processors} }
destinations: { out: { type: blackhole, inputs: [it] } }
`

t.test('--compare: events and bytes by key that pass one configuration and not the other', async t => {
  const random = new Seeded(7)
  const all = Array.from({ length: 3000 }, (_, n) => ({
    t: n * 20,
    app: `app-${random.below(5)}`,
    level: random.pick(['info', 'info', 'debug', 'error']),
    pad: 'x'.repeat(random.below(30)),
  }))
  const dir = testFolder(t, {
    'here.yaml': config('it: { type: throttle, inputs: [in], limit: 3, window: 1s, key_field: .app }'),
    'there.yaml': config(
      `wanted: { type: filter, inputs: [in], condition: "if (NOT .level equal 'debug')" },
  it: { type: throttle, inputs: [wanted], limit: 40, window: 10s, window_mode: aligned, exclude: "if (.level equal 'error')" }`,
    ),
  })
  const path = (name: string) => join(dir, name)
  const input = all.map(event => `${JSON.stringify(event)}\n`).join('')
  writeFileSync(path('in.ndjson'), input)
  const decide = async (name: string) => {
    const { code, stdout, stderr } = await callSimulate([path(name), '--time=.t', '--decisions'], input)
    t.equal(code, 0, stderr)
    const decisions = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as { n: number; decision: string })
    return new Set(decisions.flatMap(({ n, decision }) => (decision === 'discard' ? [] : [n])))
  }
  const [here, there] = [await decide('here.yaml'), await decide('there.yaml')]
  const args = [path('here.yaml'), '--time=.t', '--compare', path('there.yaml')]
  const { code, stdout, stderr } = await callSimulate([...args, '--json', path('in.ndjson')])
  t.equal(code, 0, stderr)
  const result = JSON.parse(stdout) as ComparisonResult
  t.equal(result.events, all.length)
  t.same(result.passed, { this: here.size, other: there.size })
  const difference = (app?: string) => {
    const sum = { only_this: 0, only_this_bytes: 0, only_other: 0, only_other_bytes: 0 }
    for (const [n, event] of all.entries()) {
      if (here.has(n) === there.has(n) || (app !== undefined && event.app !== app)) continue
      const name = here.has(n) ? 'only_this' : 'only_other'
      sum[name]++
      sum[`${name}_bytes`] += Buffer.byteLength(JSON.stringify(event)) + 1
    }
    return sum
  }
  t.same(result.total, difference())
  t.ok(result.total.only_this > 0 && result.total.only_other > 0)
  t.same(
    new Map(result.by_key.map(({ key, ...counts }) => [key, counts])),
    new Map(Array.from({ length: 5 }, (_, n) => [`app-${n}`, difference(`app-${n}`)])),
  )
  t.equal(result.others, null)
  const text = await callSimulate([...args, path('in.ndjson')])
  t.match(text.stdout, new RegExp(`^only here +${result.total.only_this} `, 'm'))
  t.match(text.stdout, new RegExp(`^${result.by_key[0]!.key} +${result.by_key[0]!.only_this} `, 'm'))
  const same = await callSimulate([path('here.yaml'), '--time=.t', '--compare', path('here.yaml')], input)
  t.match(same.stdout, /\n\nThe same events pass\.\n$/)
})

t.test('--compare refuses what it cannot compare', async t => {
  const dir = testFolder(t, {
    'here.yaml': config('it: { type: throttle, inputs: [in], limit: 3, window: 1s }'),
    'else.yaml': `sources: { a: { type: stdin, decode: json }, b: { type: http, listen: '127.0.0.1:1' } }
processors: { it: { type: throttle, inputs: [a, b], limit: 3, window: 1s } }
destinations: { out: { type: blackhole, inputs: [it] } }
`,
    'none.yaml': config('it: { type: filter, inputs: [in], condition: if (.a exists) }'),
  })
  for (const [args, code, message] of [
    [['--compare', join(dir, 'else.yaml')], 2, '--compare: it there has no source in, but a, b'],
    [['--compare', join(dir, 'none.yaml')], 2, '--component: it is a processor of type filter, not a throttle'],
    [['--compare', join(dir, 'here.yaml'), '--limit=1,2'], 2, '--compare is for one throttle'],
    [['--compare', join(dir, 'here.yaml'), '--time=.x'], 1, 'no event has a time in .x'],
  ] as const) {
    const time = args.some(arg => arg === '--time=.x') ? [] : ['--time=.t']
    const got = await callSimulate([join(dir, 'here.yaml'), ...time, ...args], '{"t":1}\n')
    t.same({ code: got.code, stdout: got.stdout }, { code, stdout: '' })
    t.match(got.stderr, message)
  }
})
