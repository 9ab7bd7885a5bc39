import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { explain } from '../../../../src/cli/check/explain/explain.js'
import { test } from '../../../../src/cli/check/test.js'
import { components } from '../../../../src/components/list.js'
import { route } from '../../../../src/components/processors/route.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { stageOf } from '../../../support/stage.js'
import { problemsOf } from '../../../support/problems.js'

const ROUTES = { errors: "if (.level equal 'error')", slow: 'if (.ms greater 9)', all: 'if (.ms exists)' }
const LINES = ['{"level":"error","ms":10}', '{"ms":1}', '{"level":"error"}', '{}', '{"ms":11}', 'no json']

async function routed(options: object): Promise<Record<string, string[]>> {
  const { stage, wanted, counters } = stageOf(route, options)
  const lines: Record<string, string[]> = {}
  const reading = [...stage.outputs].map(([name, side]) => {
    side.connected = true
    lines[name] = []
    return pipeline(side, collectLines(lines[name]))
  })
  const batch = batchOf(LINES, { wanted })
  counters.arrived(batch.length, batch.bytes)
  stage.resume()
  await Promise.all([pipeline(Readable.from([batch]), stage), ...reading])
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return lines
}

t.test('an event goes to the first route whose condition holds, or to all of them', async t => {
  const [both, small, error, empty, slow, other] = LINES
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

const problemsIn = (text: string) => problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components }), { warns: true })

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
  t.match(io.out, /\n +nothing reads r\.slow: what goes there is discarded \(unrouted\)\n/)
  t.match(io.out, /→ out \(stdout\): would be delivered, by r\.errors\n/)
  t.match(io.out, /→ out \(stdout\): not reached, it reads r\.else/)
})
