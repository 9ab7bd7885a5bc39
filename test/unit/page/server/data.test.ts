import { pino } from 'pino'
import t from 'tap'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import type { PageSources } from '../../../../src/daemon/run/page-wing.js'
import type { Config } from '../../../../src/engine/config/load.js'
import type { Tap } from '../../../../src/engine/flow/fan-out.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { PageData } from '../../../../src/page/server/data.js'
import { batchOf } from '../../../support/batches.js'
import { ManualTime } from '../../../support/manual-time.js'

t.test('the events before the first second of the page ends decide about the next second', async t => {
  const time = new ManualTime()
  const metrics = new Metrics(pino({ enabled: false }))
  const counters = metrics.component('in', 'source', 'stdin')
  const config = { sources: [{ id: 'in', kind: 'source' }], processors: [], destinations: [] } as unknown as Config
  const taps: Tap[] = []
  const links = { tap: (_id: string, tap: Tap) => void taps.push(tap) }
  const follow = (follower: (...all: unknown[]) => void) => {
    follower(links, config)
    return () => {}
  }
  const from = { reports: { metrics }, pipeline: { follow }, config: () => config, clock: time }
  const page = new PageData(from as unknown as PageSources, 1e6)
  t.teardown(() => page.close())
  let at = 0
  const read = (events: number) => {
    const batch = batchOf(Array.from({ length: events }, (_, n) => ({ n })))
    batch.sentOffsets = new SentOffsets(0, { reading: '0123456789abcdef', at })
    at += batch.bytes
    counters.read(events, batch.bytes, false)
    for (const tap of taps) tap(batch)
  }
  const kept = async () =>
    (await page.watch.find('n', () => undefined)).looked_at.find(({ kind }) => kind === 'passed')?.kept
  read(1000)
  t.equal(await kept(), 100)
  await time.advance(1500)
  read(1000)
  const more = (await kept())! - 100
  t.ok(more > 0 && more < 50, `a sample: ${more}`)
})
