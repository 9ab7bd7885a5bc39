import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { SourceLag } from '../../../../src/engine/flow/source-lag.js'
import { batchOf } from '../../../support/batches.js'

function setUp() {
  const clock = { now: () => time.ms, wall: () => 1_000_000 + time.ms }
  const time = { ms: 0 }
  const lag = new SourceLag(clock)
  /** Since when the source is behind, for a batch that is sent now. */
  const since = (isBacklog: boolean) => {
    const batch: EventBatch = batchOf([{}], { isBacklog })
    lag.mark(batch)
    return batch.behind?.since
  }
  return { time, lag, since }
}

t.test('backlog is behind since the source had last nothing left to read', t => {
  const { time, lag, since } = setUp()
  t.equal(since(true), undefined, 'a first start knows of no such moment')
  lag.caughtUp(5, 0, 0)
  time.ms = 900
  t.equal(since(false), undefined)
  t.equal(since(true), 5)
  t.equal(since(false), 5, 'also what comes before the source has caught up')
  const batch = batchOf([{}], { isBacklog: true })
  lag.mark(batch)
  t.equal(batch.behind?.isOver, false)
  lag.caughtUp(950, 3, 1)
  t.equal(batch.behind?.isOver, true)
  t.equal(since(true), 950)
  t.end()
})

t.test('the saved moment has nothing undelivered before it', t => {
  const { time, lag, since } = setUp()
  t.equal(lag.settledAt, undefined)
  lag.caughtUp(10, 0, 0)
  time.ms = 500
  t.equal(lag.settledAt, 1_000_010)
  lag.caughtUp(100, 4, 2)
  lag.caughtUp(200, 6, 4)
  lag.caughtUp(300, 9, 7)
  lag.settled(3)
  t.equal(lag.settledAt, 1_000_010)
  lag.settled(4)
  t.equal(lag.settledAt, 1_000_100)
  lag.settled(8)
  t.equal(lag.settledAt, 1_000_100)
  lag.settled(9)
  t.equal(lag.settledAt, 1_000_300)
  lag.caughtUp(400, 12, 3)
  lag.gaveBack()
  t.equal(since(true), 300, 'what was given back is read again')
  lag.settled(12)
  t.equal(lag.settledAt, 1_000_300)
  t.end()
})

t.test('another run goes on with the saved moment', t => {
  const { time, lag, since } = setUp()
  time.ms = 60_000
  lag.resume(1_050_000)
  t.equal(since(false), 50_000, 'its first read may find newer lines only')
  t.equal(lag.settledAt, 1_050_000)
  lag.resume(1_000_000)
  t.equal(lag.settledAt, 1_050_000, 'only once')
  const early = setUp()
  early.lag.resume(1_999_999_999)
  t.equal(early.since(true), 0, 'a clock that was set back makes no future')
  t.end()
})

t.test('a source without positions is behind while it is blocked, and for as long again', t => {
  const { time, lag, since } = setUp()
  time.ms = 900
  lag.sent(0)
  t.equal(since(false), undefined, 'not for less than a second')
  time.ms = 5000
  lag.sent(1000)
  // Another connection waited as well.
  lag.sent(2000)
  t.equal(since(false), 1000)
  time.ms = 8999
  t.equal(since(false), 1000)
  time.ms = 9000
  t.equal(since(false), undefined)
  time.ms = 12_000
  lag.sent(10_000)
  time.ms = 13_000
  lag.sent(12_000)
  t.equal(since(false), 10_000, 'blocked once more before it ended')
  time.ms = 14_999
  t.equal(since(false), 10_000)
  time.ms = 15_000
  t.equal(since(false), undefined)
  t.end()
})

t.test('a paused process was behind with all that came meanwhile', t => {
  const { time, lag, since } = setUp()
  lag.beat()
  lag.caughtUp(0, 0, 0)
  for (time.ms = 500; time.ms <= 60_000; time.ms += 500) lag.beat()
  t.equal(since(false), undefined, 'a source that was idle for long is not behind')
  lag.caughtUp(60_000, 1, 0)
  time.ms = 75_000
  t.equal(since(false), 60_500, 'also if a batch comes before the next beat')
  lag.beat()
  time.ms = 75_100
  t.equal(since(false), 60_500)
  lag.caughtUp(75_200, 3, 0)
  t.equal(since(false), undefined)
  const other = setUp()
  other.lag.beat()
  other.time.ms = 4000
  other.lag.beat()
  t.equal(other.since(false), 0, 'a source without positions, too')
  for (other.time.ms = 4500; other.time.ms < 8000; other.time.ms += 500) other.lag.beat()
  other.time.ms = 8000
  t.equal(other.since(false), undefined)
  t.end()
})
