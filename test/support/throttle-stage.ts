import { throttle } from '../../src/components/processors/throttle.js'
import { keyedOf } from '../../src/components/throttle/keyed-processor.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { Behind } from '../../src/core/event/behind.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { type BatchOptions, batchOf, linesOf } from './batches.js'
import { ManualTime, settle } from './manual-time.js'
import { loadedStageOf, type StageOptions } from './stage.js'

export interface ThrottleStageOptions {
  readonly time?: ManualTime
  readonly counters?: ComponentCounters
  /** What its predecessor handed over. */
  readonly inherited?: unknown
  readonly log?: StageOptions['log']
  readonly state?: StageOptions['state']
}

/** A throttle in its stage, `p`, whose discarded events are read too, in a time that stands still. */
export async function throttleStage(options: object, more: ThrottleStageOptions = {}) {
  const { time = new ManualTime(), counters = new ComponentCounters('p', 'processor', 'throttle') } = more
  const made = await loadedStageOf(
    throttle,
    { limit: 1, window: '1s', ...options },
    { clock: time, counters, inherited: more.inherited, log: more.log, state: more.state },
  )
  const { stage, wanted } = made
  await stage.start(new AbortController().signal)
  const output = stage.outputs.get('discarded')!
  output.connected = true
  /** What left the stage and was not asked for yet. */
  const left = async () => {
    await settle()
    const found = { passed: [] as string[], discarded: [] as string[] }
    for (const [lines, stream] of [
      [found.passed, stage],
      [found.discarded, output],
    ] as const) {
      for (let batch = stream.read() as EventBatch | null; batch; batch = stream.read() as EventBatch | null) {
        lines.push(...linesOf(batch))
        batch.ack.settle('delivered')
      }
    }
    return found
  }
  const through = async (lines: (string | object)[], about: BatchOptions & { behind?: Behind } = {}) => {
    const batch = batchOf(lines, { wanted, path: '/log', ...about })
    batch.behind = about.behind
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    return left()
  }
  /** The values of a metric by their labels, as in `a=1,b=2`. */
  const series = (name: string): Record<string, number> =>
    Object.fromEntries(
      (counters.series.get(name) ?? []).flatMap(({ read }) =>
        [...read()].map(({ labels, value }) => [
          Object.entries(labels)
            .map(([label, text]) => `${label}=${text}`)
            .join(),
          value,
        ]),
      ),
    )
  /** Ends its input; what it emits at the end. */
  const end = async (isReplaced = false) => {
    stage.isReplaced = isReplaced
    stage.end()
    return left()
  }
  return { ...made, processor: keyedOf(made.processor)!, counters, time, through, left, series, end }
}
