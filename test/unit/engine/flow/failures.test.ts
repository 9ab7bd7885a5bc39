import t from 'tap'
import { isReady } from '../../../../src/daemon/status/ready.js'
import { SlowWork } from '../../../../src/engine/flow/failures.js'
import { type Logged, recordingLog } from '../../../../src/engine/testing/recording-log.js'
import { batchOf } from '../../../support/batches.js'
import { ManualTime } from '../../../support/manual-time.js'

function slowWork(processor: { readonly isWaiting?: boolean } = {}) {
  const clock = new ManualTime()
  const logged: Logged[] = []
  return { clock, logged, slow: new SlowWork(processor, { clock, log: recordingLog(logged) }) }
}

t.test(
  'a batch that is not finished within a minute is logged, and makes the daemon not ready until it is',
  async t => {
    const { clock, logged, slow } = slowWork()
    const end = slow.begin(batchOf(['{}', '{}']))
    await clock.advance(59_000)
    t.equal(slow.outage, undefined)
    t.same(logged, [])
    await clock.advance(2000)
    t.match(slow.outage, { isStuck: true, reason: /2 events of/, since: new Date(1_700_000_000_000).toISOString() })
    t.notOk(isReady([{ state: 'ready' }], [], [slow.outage!]))
    t.match(logged, [{ level: 'warn', fields: { code: 'SLUICE_PROCESSOR_STUCK', events: 2 } }])
    end()
    t.equal(slow.outage, undefined)
    t.match(logged[1], { level: 'info', text: 'processor has finished with the batch' })
  },
)

t.test('who waits for a server, and who is gone, is not stuck', async t => {
  const { clock, logged, slow } = slowWork({ isWaiting: true })
  slow.begin(batchOf(['{}']))
  await clock.advance(61_000)
  t.equal(slow.outage, undefined)
  const gone = slowWork()
  gone.slow.begin(batchOf(['{}']))
  gone.slow.stop()
  t.equal(gone.clock.timers, 0)
  await gone.clock.advance(61_000)
  t.equal(gone.slow.outage, undefined)
  t.same([...logged, ...gone.logged], [])
})
