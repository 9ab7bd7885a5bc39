import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { explain } from '../../../../src/cli/check/explain/explain.js'
import { test } from '../../../../src/cli/check/test.js'
import { components } from '../../../../src/components/list.js'
import { filter } from '../../../../src/components/processors/filter.js'
import { routeProcessor } from '../../../../src/components/processors/route.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { problemsOf } from '../../../support/problems.js'
import { stageOf } from '../../../support/stage.js'

const filterOf = (condition: string) => stageOf(filter, { condition })

const LINES = ['{"level":"error"}', '{"level":"info"}', 'no json at all', '{"level":"error","n":2}', '{}']

t.test('keeps what matches, in order, and counts the rest', async t => {
  const { stage, wanted, counters } = filterOf("if (.level equal 'error')")
  const settled: AckStatus[] = []
  const onSettled = (status: AckStatus) => settled.push(status)
  const batches = [LINES, ['{}', '{"level":1}'], ['{"level":"error"}']].map(lines =>
    batchOf(lines, { wanted, onSettled }),
  )
  const kept: string[] = []
  await pipeline(Readable.from(batches), stage, collectLines(kept))
  t.same(kept, [LINES[0], LINES[3], LINES[0]])
  t.same(settled, ['delivered', 'delivered', 'delivered'], 'an emptied batch is settled too')
  t.same(counters.discards.get('filtered'), { events: 5, bytes: 17 + 15 + 3 + 3 + 12 })
  t.same(counters.passed, { events: 3, bytes: 18 + 24 + 18 })
})

t.test('what it discards comes out at its own output, where somebody reads that', async t => {
  const { stage, wanted, counters } = filterOf("if (NOT .level equal 'error')")
  const settled: AckStatus[] = []
  const batches = Array.from({ length: 20 }, () =>
    batchOf(LINES, { wanted, onSettled: status => settled.push(status) }),
  )
  const kept: string[] = []
  const discarded: string[] = []
  const output = stage.outputs.get('discarded')!
  output.connected = true
  await Promise.all([
    pipeline(Readable.from(batches), stage, collectLines(kept)),
    pipeline(output, collectLines(discarded)),
  ])
  t.same(
    kept,
    batches.flatMap(() => [LINES[1], LINES[2], LINES[4]]),
  )
  t.same(
    discarded,
    batches.flatMap(() => [LINES[0], LINES[3]]),
  )
  t.same(
    settled,
    batches.map(() => 'delivered'),
  )
  t.equal(counters.discards.get('filtered')?.events, 2 * batches.length)
})

t.test('options', async t => {
  t.notOk(filter.options.safeParse({}).success, 'a condition is needed')
  t.notOk(filter.options.safeParse({ condition: '.a' }).success)
  t.notOk(filter.options.safeParse({ condition: 'if (.a exists)', keep: true }).success)
  for (const { title, yaml, input = [], output } of filter.examples) {
    const { stage, wanted } = filterOf(yaml.replace(/^condition: /, '').trim())
    const kept: string[] = []
    await pipeline(Readable.from([batchOf(input, { wanted })]), stage, collectLines(kept))
    t.same(kept, output, title)
  }
})

const ROUTES = { errors: "if (.level equal 'error')", slow: 'if (.ms greater 9)', all: 'if (.ms exists)' }
const ROUTED = ['{"level":"error","ms":10}', '{"ms":1}', '{"level":"error"}', '{}', '{"ms":11}', 'no json']

async function routed(options: object): Promise<Record<string, string[]>> {
  const { stage, wanted, counters } = stageOf(routeProcessor, options)
  const lines: Record<string, string[]> = {}
  const reading = [...stage.outputs].map(([name, side]) => {
    side.connected = true
    lines[name] = []
    return pipeline(side, collectLines(lines[name]))
  })
  const batch = batchOf(ROUTED, { wanted })
  counters.arrived(batch.length, batch.bytes)
  stage.resume()
  await Promise.all([pipeline(Readable.from([batch]), stage), ...reading])
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return lines
}

t.test('an event goes to the first route whose condition holds, or to all of them', async t => {
  const [both, small, error, empty, slow, other] = ROUTED
  t.same(await routed({ routes: ROUTES }), {
    errors: [both, error],
    slow: [slow],
    all: [small],
    else: [empty, other],
  })
  t.same(await routed({ routes: ROUTES, match: 'all' }), {
    errors: [both, error],
    slow: [both, slow],
    all: [both, small, slow],
    else: [empty, other],
  })
})

const config = (inputs: string, options = '') => `sources: { in: { type: stdin, decode: json } }
processors:
  r:
    type: route
    inputs: [in]
    match: all${options}
    routes:
      errors: if (.level equal 'error')
      slow: if (.ms greater 9)
destinations:
  out: { type: stdout, inputs: [${inputs}] }
tests:
  - name: both
    steps: [{ into: in, events: [{ level: error, ms: 10 }, { ms: 1 }] }]
    expect: { r.errors: 1, r.slow: [{ ms: 10 }], r.else: 1 }
`

const problemsIn = (text: string) =>
  problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components }), { warns: true })

t.test('validate knows its outputs', async t => {
  t.same(problemsIn(config('r.errors, r.slow, r.else')), [])
  const lost = 'so its events are discarded (unrouted)'
  t.same(problemsIn(config('r.errors')), [
    `c.yaml:7:5: processors.r.routes: nobody reads r.else, ${lost}: add r.else to the inputs of a component`,
    `c.yaml:9:13: processors.r.routes: nobody reads r.slow, ${lost}: add r.slow to the inputs of a component`,
  ])
  t.match(problemsIn(config('r')), [/r \(type route\) has no main output; it has r\.errors, r\.slow, r\.else$/])
  t.match(problemsIn(config('r.errors, r.fast')), [/r \(type route\) has no side output of this name; it has r\.err/])
  t.match(problemsIn(config('r.errors').replace('r.slow: ', 'r: ')), [/has no main output/])
  t.match(problemsIn(config('r.errors').replace('slow:', 'else:')), [/two outputs named else; rename one of them/])
  t.match(problemsIn(config('r.errors').replace('slow:', 'Slow:')), [/must be made of a-z, 0-9 and _/])
  const many = Array.from({ length: 128 }, (_, n) => `\n      r${n}: if (.a exists)`).join('')
  t.match(problemsIn(config('r.errors').replace("'error')", `'error')${many}`)), [/makes 130 outputs, .* at most 127/])
})

t.test('sluice test and sluice explain follow an event to each of its outputs', async t => {
  const folder = testFolder(t, { 'c.yaml': config('r.errors, r.else') })
  const io = { out: '', stdin: Readable.from([]), env: {} }
  const to = { write: (text: string) => (io.out += text) }
  t.equal(await test(join(folder, 'c.yaml'), { ...io, stdout: to, stderr: to } as never), 0)
  io.out = ''
  const event = '{"level":"error","ms":10}'
  const options = { config: join(folder, 'c.yaml'), event, source: undefined, json: false }
  await explain(options, { ...io, stdout: to, stderr: to } as never)
  t.match(io.out, /→ r \(route\): passed, to r\.errors\n +yes {2}errors\n/)
  t.match(io.out, /\n +nothing reads r\.slow: events that go there are discarded \(unrouted\)\n/)
  t.match(io.out, /→ out \(stdout\): would be delivered, by r\.errors\n/)
  t.match(io.out, /→ out \(stdout\): not reached, it reads r\.else/)
})
