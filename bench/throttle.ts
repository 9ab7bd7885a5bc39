import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { BucketKey } from '../src/components/throttle/buckets/bucket-key.js'
import { hashedKey } from '../src/components/throttle/buckets/key-table.js'
import { createClockDecider } from '../src/components/throttle/decider.js'
import { EventTiming } from '../src/components/throttle/event/timing.js'
import type { WindowMode } from '../src/components/throttle/limit.js'
import { ClockTiming, Limiter, type LimiterOptions } from '../src/components/throttle/limiter.js'
import { sealBlock } from '../src/components/throttle/persist/blocks.js'
import { SavedBuckets } from '../src/components/throttle/persist/saved-buckets.js'
import { JSON_OBJECTS } from '../src/core/codecs/json.js'
import { Ack } from '../src/core/event/ack.js'
import { EventBatch } from '../src/core/event/batch.js'
import { parseFieldPath } from '../src/core/event/field-path.js'
import { FieldReader } from '../src/core/event/field-reader.js'
import type { Origin } from '../src/core/event/origin.js'
import { WantedNames } from '../src/lib/formats/json-scan.js'
import { LineSplitter } from '../src/lib/lines/line-splitter.js'
import { STOPPED_CLOCK } from '../test/support/manual-time.js'

/** The core of the throttle by itself: decisions a second of CPU time, and memory a bucket. It prints one JSON document. */

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const MODES: readonly WindowMode[] = ['fixed', 'aligned', 'sliding', 'gcra']
const KEYS = 1000
const TAKES = 10_000_000
const MANY = 1_000_000
const ROUNDS = 5

const results: Record<string, string | number>[] = []

function limiterOptions(mode: WindowMode, windowMs = 1000, maxKeys = 10_000_000): LimiterOptions {
  return { limits: [{ limit: 100, windowMs, mode, unit: 'events' }], maxKeys, seed: 12345 }
}

/** Of this process: what others do meanwhile does not count. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

/** Takes of 1,000 keys as bytes; the time moves on by a millisecond every 2,000. */
function takes(mode: WindowMode): number {
  const limiter = new Limiter(limiterOptions(mode), new ClockTiming())
  const keys = Array.from({ length: KEYS }, (_, i) => hashedKey(Buffer.from(`app-${i}`), limiter.seed))
  let now = 0
  const begin = cpuSeconds()
  for (let n = 0; n < TAKES; ) {
    limiter.advance(++now)
    for (let i = 0; i < 2 * KEYS; i++, n++) {
      limiter.take(keys[(i * 7) % KEYS]!, now, 1, 0)
    }
  }
  return TAKES / (cpuSeconds() - begin)
}

/** The same through the Decider, which finds the key in JSON lines that were scanned before. */
function decisions(mode: WindowMode): number {
  const wanted = new WantedNames()
  const keyField = new FieldReader(parseFieldPath('.app'), wanted)
  const origin: Origin = { source: 'bench', host: 'bench', codec: JSON_OBJECTS, wanted }
  const lines = Array.from({ length: KEYS }, (_, i) => `{"level":"info","app":"app-${(i * 7) % KEYS}","message":"x"}\n`)
  const frame = new LineSplitter(1 << 20).push(Buffer.from(lines.join('')))!
  const batch = new EventBatch(frame, origin, 0, new Ack(() => {}))
  batch.scan()
  const decider = createClockDecider(
    { ...limiterOptions(mode), onMaxKeys: 'pass', keyFields: [keyField] },
    STOPPED_CLOCK,
  )
  let now = 0
  const begin = cpuSeconds()
  for (let n = 0; n < TAKES; n += KEYS) {
    if (n % (2 * KEYS) === 0) now++
    decider.decideAt(batch, now)
  }
  return TAKES / (cpuSeconds() - begin)
}

async function memory(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect()
    await new Promise(resolve => setImmediate(resolve))
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/** Bytes a bucket: when all were new in one window, and when all were used in the next one, too: then there are copies. */
async function bytesPerBucket(mode: WindowMode): Promise<{ fresh: number; worst: number }> {
  const before = await memory()
  const limiter = new Limiter(limiterOptions(mode, 1_000_000), new ClockTiming())
  const text = Buffer.alloc(11)
  const key = new BucketKey([], limiter.seed)
  const takeAll = (now: number) => {
    limiter.advance(now)
    for (let i = 0; i < MANY; i++) {
      text.write(`app-${String(i).padStart(7, '0')}`)
      key.setBytes(text)
      limiter.take(key, now, 1, 0)
    }
  }
  takeAll(0)
  const fresh = ((await memory()) - before) / MANY
  takeAll(1_000_000)
  const worst = ((await memory()) - before) / MANY
  if (limiter.keys !== MANY) throw new Error(`${limiter.keys} buckets rather than ${MANY}`)
  return { fresh, worst }
}

/** Events of a batch. */
const STEP = 1000
const ORIGIN = {}

/**
 * The CPU milliseconds of the longest batch, while the buckets are filled, used again, and all of them replaced by
 * others, for which idle ones have to make room.
 */
function longestStep(mode: WindowMode, inEventTime: boolean): number {
  const windowMs = 10_000
  const options = limiterOptions(mode, windowMs, MANY)
  const eventTiming = inEventTime
    ? new EventTiming({ time: { of: () => 0 }, latenessMs: 0, onLate: 'pass' })
    : undefined
  const limiter = new Limiter(options, eventTiming ?? new ClockTiming())
  const text = Buffer.alloc(11)
  const key = new BucketKey([], limiter.seed)
  let longest = 0
  for (const [round, first] of [0, 0, MANY, MANY].entries()) {
    for (let i = 0; i < MANY; i += STEP) {
      const now = (round + i / MANY) * windowMs
      const begin = cpuSeconds()
      if (eventTiming) {
        eventTiming.progress.enter(ORIGIN, now, now)
        eventTiming.progress.see(now)
      }
      limiter.advance(now)
      for (let n = i; n < i + STEP; n++) {
        text.write(`app-${String(first + n).padStart(7, '0')}`)
        key.setBytes(text)
        limiter.take(key, now, 1, 0)
      }
      longest = Math.max(longest, cpuSeconds() - begin)
    }
  }
  return longest * 1000
}

/** Of saving as many buckets, all of which have changed: CPU milliseconds in all and of the longest block, and bytes. */
function saving(mode: WindowMode): { whole: number; longest: number; bytes: number } {
  const limiter = new Limiter({ ...limiterOptions(mode, 3_600_000, MANY), persists: true }, new ClockTiming())
  const saved = new SavedBuckets(limiter, () => 0)
  const text = Buffer.alloc(11)
  const key = new BucketKey([], limiter.seed)
  let result = { whole: 0, longest: 0, bytes: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < MANY; i++) {
      text.write(`app-${String(i).padStart(7, '0')}`)
      key.setBytes(text)
      limiter.take(key, 0, 1, 0)
    }
    result = { whole: 0, longest: 0, bytes: 0 }
    for (const blocks = saved.blocks(false); ; ) {
      const begin = cpuSeconds()
      const { value, done } = blocks.next()
      if (!done) result.bytes += sealBlock(value, { now: 0, wall: 0 }).length
      const ms = (cpuSeconds() - begin) * 1000
      result.whole += ms
      result.longest = Math.max(result.longest, ms)
      if (done) break
    }
  }
  return result
}

for (const mode of MODES) {
  const perSecond = (measure: (mode: WindowMode) => number) =>
    Math.round(Math.max(...Array.from({ length: ROUNDS }, () => measure(mode))))
  results.push({ bench: 'throttle_takes', mode, keys: KEYS, per_second: perSecond(takes) })
  results.push({ bench: 'throttle_decisions', mode, keys: KEYS, per_second: perSecond(decisions) })
  const { fresh, worst } = await bytesPerBucket(mode)
  results.push({
    bench: 'throttle_memory',
    mode,
    keys: MANY,
    bytes_per_bucket: Math.round(fresh),
    at_worst: Math.round(worst),
    longest_step_ms: Math.round(longestStep(mode, false)),
    ...((mode === 'fixed' || mode === 'aligned') && {
      longest_step_in_event_time_ms: Math.round(longestStep(mode, true)),
    }),
  })
  const { whole, longest, bytes } = saving(mode)
  results.push({
    bench: 'throttle_saving',
    mode,
    keys: MANY,
    bytes_per_bucket: Math.round(bytes / MANY),
    whole_ms: Math.round(whole),
    longest_step_ms: Math.round(longest),
  })
}
process.stdout.write(`${JSON.stringify(results)}\n`)
