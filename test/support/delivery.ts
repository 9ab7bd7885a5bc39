import { pino } from 'pino'
import type { Destination } from '../../src/core/component.js'
import { DeliveryError, type Failure } from '../../src/core/errors.js'
import type { AckStatus } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { type DeliveryOptions, deliveryOptions } from '../../src/core/options/delivery-options.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { Delivery, type DeliveryContext } from '../../src/engine/flow/delivery/delivery.js'
import { Input } from '../../src/engine/flow/fan-out.js'
import { causeOf } from '../../src/net/http/client/answers/statuses.js'
import { batchesOf, originOf } from './batches.js'
import { ManualTime } from './manual-time.js'

export const origin = originOf('text')

/** One attempt to write the events with these numbers; what it throws is what the destination throws. */
export type Write = (events: number[], attempt: number, signal: AbortSignal) => unknown

export interface SetUp {
  options?: Record<string, unknown>
  write?: Write
  destination?: Partial<Destination>
  random?: () => number
  outage?: DeliveryContext['outage']
}

/** A delivery on a clock that stands still, with all that it does recorded. */
export function setUp({ options = {}, write = () => {}, destination = {}, random = () => 1, outage }: SetUp = {}) {
  const time = new ManualTime()
  const logs: { level: number; msg: string; error?: string; reason?: string }[] = []
  const counters = new ComponentCounters('out', 'destination', 'fake')
  const letters: { events: number[]; reason: string }[] = []
  const attempts: { events: number[]; at: number }[] = []
  const settled: AckStatus[][] = []
  const hooks = { letter: () => {} }
  const delivery = new Delivery(
    {
      async write(request, signal) {
        const events = numbers(request)
        attempts.push({ events, at: time.now() })
        await write(events, attempts.length, signal)
      },
      ...destination,
    },
    deliveryOptions.parse(options) as DeliveryOptions,
    {
      id: 'out',
      log: pino({ base: null }, { write: line => void logs.push(JSON.parse(line)) }),
      clock: time,
      random,
      after: time.after,
      deadLetter: {
        async write(request, error) {
          hooks.letter()
          letters.push({ events: numbers(request), reason: error.reason })
        },
      },
      counters: {
        received: (events, bytes) => counters.took(events, bytes),
        sent: (events, bytes) => counters.sent(events, bytes),
        discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
        failed: kind => counters.failed(kind),
      },
      metrics: counters,
      outage,
    },
  )
  counters.holds = () => delivery.inFlight()
  const input = new Input(delivery, counters)
  input.feed()
  let n = 0
  const put = (count: number, size = 5) => {
    let text = ''
    for (let i = 0; i < count; i++) text += `${String(n++).padEnd(size - 1, '.')}\n`
    const statuses: AckStatus[] = []
    settled.push(statuses)
    void input.write(batchesOf(text, origin, status => statuses.push(status))[0]!)
  }
  const gauge = (name: string) => [...counters.series.get(name)![0]!.read()][0]!.value
  const told = () => logs.map(({ level, msg }) => `${level} ${msg}`)
  return { delivery, time, logs, told, counters, letters, attempts, settled, input, put, hooks, gauge }
}

export function numbers(request: readonly EventBatch[]): number[] {
  return request.flatMap(batch =>
    Array.from({ length: batch.length }, (_, i) => Number.parseInt(batch.line(i).toString(), 10)),
  )
}

export const upTo = (n: number, from = 0) => Array.from({ length: n - from }, (_, i) => i + from)
export const failing = (failure: Failure, more: Partial<DeliveryError> = {}) =>
  new DeliveryError(`it says ${failure}`, {
    failure,
    reason: `on_${failure}`,
    causedBy: causeOf(more.status ?? 0),
    ...more,
  })
export const fail = (failure: Failure, more?: Partial<DeliveryError>): never => {
  throw failing(failure, more)
}
export const deadline = (ms: number, time: ManualTime): AbortSignal => {
  const controller = new AbortController()
  time.after(ms, () => controller.abort())
  return controller.signal
}
export const never: AbortSignal = new AbortController().signal
export const balanced = { events: 0, bytes: 0 }
export const HOLD = '50 the destination is paused until the cause is corrected; its events wait and are not lost'
export const HOLD_OVER = '30 the destination is no longer paused'
export const RETRY = '40 delivery failed; retrying, and events wait'
export const RETRY_OVER = '30 delivery works again'
