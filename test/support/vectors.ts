import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deciderOptions } from '../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../src/components/processors/throttle.js'
import { createEventDecider } from '../../src/components/throttle/create-decider.js'
import { createClockDecider } from '../../src/components/throttle/decider.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, LATE, PASS } from '../../src/components/throttle/decisions.js'
import type { FieldPath } from '../../src/core/event/field-path.js'
import { FieldReader } from '../../src/core/event/field-reader.js'
import { batchesOf, originOf } from './batches.js'
import { checkout } from './checkout.js'
import { STOPPED_CLOCK } from './manual-time.js'
import { pooledLines } from './pooled-batch.js'

/** Test vectors of the throttle; test/vectors/README.md describes them. */
export interface Vector {
  readonly name: string
  readonly config: Record<string, unknown>
  readonly events: readonly { readonly t: number; readonly event: Record<string, unknown>; readonly decision: string }[]
}

export const vectorFolder = join(checkout, 'test/vectors')
export const vectorFiles = readdirSync(vectorFolder).filter(name => name.endsWith('.json'))

export function vectorsOf(file: string): Vector[] {
  return JSON.parse(readFileSync(join(vectorFolder, file), 'utf8')) as Vector[]
}

/** The lines of the events, with their ends. */
export const linesOf = ({ events }: Vector) =>
  events.map(({ t, event }) => `${JSON.stringify({ ...event, t })}\n`).join('')

const NAMES: Record<number, string> = {
  [PASS]: 'pass',
  [FAIL_OPEN]: 'pass',
  [LATE]: 'late',
  [EXCLUDED]: 'excluded',
  [DISCARD]: 'discard',
  [FULL]: 'discard',
}

/** The decisions of a decider, each at the time of its event. */
export function decisionsOn(vector: Vector): (string | undefined)[] {
  const origin = originOf('json')
  const field = (path: FieldPath) => new FieldReader(path, origin.wanted)
  const options = deciderOptions(throttle.options.parse(vector.config), { field })
  const [batch] = batchesOf(linesOf(vector), origin)
  if (options.eventTime) {
    const decider = createEventDecider(options, options.eventTime, STOPPED_CLOCK)
    decider.begin(batch!, 0)
    return vector.events.map(({ t }, i) => NAMES[decider.decideOne(batch!, i, t)])
  }
  const decider = createClockDecider(options, STOPPED_CLOCK)
  return vector.events.map(({ t }, i) => {
    decider.limiter.advance(t)
    return NAMES[decider.decideOne(batch!, i, t)]
  })
}

/** The same, of batches with all events of one time, in memory that the kernel reads; undefined: in event time. */
export function decisionsOnBatches(vector: Vector): (string | undefined)[] | undefined {
  const origin = originOf('json')
  const field = (path: FieldPath) => new FieldReader(path, origin.wanted)
  const options = deciderOptions(throttle.options.parse(vector.config), { field })
  if (options.eventTime) return undefined
  const decider = createClockDecider(options, STOPPED_CLOCK)
  const decisions: (string | undefined)[] = []
  const { events } = vector
  for (let first = 0, end = 0; first < events.length; first = end) {
    const { t } = events[first]!
    while (events[end]?.t === t) end++
    const batch = pooledLines(linesOf({ ...vector, events: events.slice(first, end) }).trimEnd(), origin)
    decider.decideAt(batch, t)
    for (let i = 0; i < batch.length; i++) decisions.push(NAMES[decider.decisions[i]!])
    batch.ack.settle('delivered')
  }
  return decisions
}
