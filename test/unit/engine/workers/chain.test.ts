import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { components } from '../../../../src/components.js'
import { parseConfig } from '../../../../src/config/load.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { OwnOutputs } from '../../../../src/engine/own-outputs.js'
import { openCheckpoints } from '../../../../src/engine/state/checkpoints.js'
import { Chain } from '../../../../src/engine/workers/chain.js'
import { planParts } from '../../../../src/engine/workers/plan.js'
import { ComponentSet } from '../../../../src/flow/counters.js'
import type { FanOut } from '../../../../src/flow/fan-out.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { eventually } from '../../../support/patience.js'

/** A chain of one file source, what the main thread gets of it, and a clock that stands still. */
function around(t: Test) {
  const folder = testFolder(t, { 'a.log': '{"n":1}\n' })
  const text = `
workers: 1
sources: { a: { type: file, include: [${folder}/a.log], scan_interval: 50ms } }
destinations: { out: { type: blackhole, inputs: [a] } }
`
  const config = parseConfig(text, 'sluice.yaml', { env: {}, components })
  const part = planParts(config)[0]!
  const graph = { sources: [{ id: 'a' }], processors: [], destinations: [{ id: 'out', inputs: ['a'] }] }
  const clock = new ManualTime()
  const logged: string[] = []
  const log = pino({}, { write: line => logged.push(line) })
  const runtime = { log, clock, random: Math.random, metrics: new ComponentSet() }
  const checkpoints = openCheckpoints(folder, log, clock)
  const chain = new Chain(1, { runtime, checkpoints, outputs: new OwnOutputs(), wanted: new WantedNames() })
  t.teardown(() => chain.close())
  const got: EventBatch[] = []
  const fanOut = { write: (batch: EventBatch) => void got.push(batch), end: () => {} } as unknown as FanOut
  const settings = { graph, isOnlyCopied: true, dataDir: folder, shutdownTimeoutMs: 1000, share: 1e6 }
  return {
    ...{ folder, clock, logged, chain, got },
    build: () => chain.build(part, settings),
    run: () => chain.run(new Map([['a', fanOut]])),
  }
}

t.test('the time in which a run has to end at once does not end the next run of the same thread', async t => {
  const { folder, clock, logged, chain, got, build, run } = around(t)
  await build()
  const first = run()
  await eventually(() => got.length === 1)
  chain.leave(new Set(), [])
  chain.abort()
  await first
  await build()
  const second = run()
  await eventually(() => got.length === 2)
  got[1]!.ack.settle('delivered')
  await clock.advance(5000)
  appendFileSync(join(folder, 'a.log'), '{"n":2}\n')
  await eventually(() => got.length === 3)
  got[2]!.ack.settle('delivered')
  t.same(logged, [])
  chain.stop()
  await second
})

t.test('an output can be tapped while the thread is being built', async t => {
  const { folder, chain, build, run } = around(t)
  const tapped: EventBatch[] = []
  const built = build()
  chain.tap('a', batch => void tapped.push(batch))
  await built
  const over = run()
  await eventually(() => {
    appendFileSync(join(folder, 'a.log'), '{"n":2}\n')
    return tapped.length > 0
  })
  chain.stop()
  chain.abort()
  await over
})
