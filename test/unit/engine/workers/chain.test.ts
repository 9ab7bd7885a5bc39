import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
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

t.test('the time in which a run has to end at once does not end the next run of the same thread', async t => {
  const folder = testFolder(t, { 'a.log': '{"n":1}\n' })
  const text = `
workers: 1
sources: { a: { type: file, include: [${folder}/a.log], scan_interval: 50ms } }
destinations: { out: { type: blackhole, inputs: [a] } }
`
  const config = parseConfig(text, 'sluice.yaml', { env: {}, components })
  const [part] = planParts(config)
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

  await chain.build(part!, settings)
  const first = chain.run(new Map([['a', fanOut]]))
  await eventually(() => got.length === 1)
  chain.leave(new Set(), [])
  chain.abort()
  await first
  await chain.build(part!, settings)
  const second = chain.run(new Map([['a', fanOut]]))
  await eventually(() => got.length === 2)
  got[1]!.ack.settle('delivered')
  await clock.advance(5000)
  writeFileSync(join(folder, 'a.log'), '{"n":2}\n', { flag: 'a' })
  await eventually(() => got.length === 3)
  got[2]!.ack.settle('delivered')
  t.same(logged, [])
  chain.stop()
  await second
})
