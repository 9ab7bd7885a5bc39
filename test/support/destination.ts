import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import type { Test } from 'tap'
import { httpDestination } from '../../src/components/http/destination.js'
import type { AnyDefinition, Destination, DestinationContext } from '../../src/core/component.js'
import { DeliveryError } from '../../src/core/errors.js'
import type { AckStatus } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { FieldPath } from '../../src/core/event/field-path.js'
import { FieldReader } from '../../src/core/event/field-reader.js'
import { type DeliveryOptions, deliveryOptions } from '../../src/core/options/delivery-options.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { Delivery } from '../../src/engine/flow/delivery/delivery.js'
import { DeadLetterFile } from '../../src/engine/run/dead-letter/queue.js'
import { systemClock } from '../../src/lib/time.js'
import { batchesOf, originOf } from './batches.js'
import { type Receiver, type ReceiverOptions, startReceiver } from './receiver.js'

export const KEY = 'c0ffee-Very-Secret-Key'
export const json = originOf('json', '/var/log/app.log')
export const events = (count: number, from = 0) =>
  batchesOf(Array.from({ length: count }, (_, i) => `{"n":${i + from}}\n`).join(''), json)
export const never: AbortSignal = new AbortController().signal

export type Log = Record<string, unknown> & { msg: string; level: number }

export interface Made {
  destination: Destination
  logs: Log[]
  counters: ComponentCounters
  context: DestinationContext
}

/**
 * A destination, of http where no other is given. Events that reach it have the origin `json`, or share its `wanted`.
 * `folder`: where a spool is.
 */
export async function make(
  options: Record<string, unknown>,
  definition: AnyDefinition<'destination'> = httpDestination,
  stdout: NodeJS.WritableStream = new PassThrough(),
  inherited?: unknown,
  folder = '',
): Promise<Made> {
  const logs: Log[] = []
  const counters = new ComponentCounters('out', 'destination', definition.type)
  const log = pino({ base: null, level: 'trace' }, { write: line => void logs.push(JSON.parse(line) as Log) })
  const field = (path: FieldPath) => new FieldReader(path, json.wanted)
  const metrics = counters
  const state = { path: join(folder, 'spool'), hasRoom: () => true, count: () => {} }
  const all = { id: 'out', log, clock: systemClock, metrics, field, stdout, inherited }
  const context: DestinationContext = folder ? { ...all, state } : all
  const destination: Destination = await definition.create(definition.options.parse(options) as never, context)
  return { destination, logs, counters, context }
}

export async function receiver(t: Test, options?: ReceiverOptions): Promise<Receiver> {
  const receiver = await startReceiver(options)
  t.teardown(() => receiver.close())
  return receiver
}

/** A started destination that is stopped at the end of the test. */
export async function started(
  t: Test,
  options: Record<string, unknown>,
  definition?: AnyDefinition<'destination'>,
): Promise<Made> {
  const made = await make(options, definition)
  t.teardown(() => made.destination.stop?.(never))
  await made.destination.start?.(never)
  return made
}

export async function failure(promise: Promise<unknown>): Promise<DeliveryError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof DeliveryError) return error
    throw error
  }
  throw new Error('it did not fail')
}

/** Attempts to send one request, which is encoded once. */
export function attempts({ destination }: Pick<Made, 'destination'>, request: readonly EventBatch[]) {
  const encoded = destination.encode?.(request)
  return async () => await destination.write(request, never, undefined, encoded)
}

/** The destination behind a real delivery that hardly waits between attempts. */
export function deliver(
  dataDir: string,
  { destination, counters, context }: Made,
  options: Record<string, unknown> = {},
) {
  const retry = { initial: '5ms', max: '20ms' }
  const settled: AckStatus[] = []
  const letters = new DeadLetterFile({ ...context, dataDir, destination: 'out' })
  const came = (events: number, bytes: number) => {
    counters.arrived(events, bytes)
    counters.took(events, bytes)
  }
  counters.holds = () => delivery.inFlight()
  const delivery: Delivery = new Delivery(
    destination,
    deliveryOptions.parse({ retry, ...options }) as DeliveryOptions,
    {
      ...context,
      random: () => 1,
      deadLetter: letters,
      counters: {
        received: came,
        found: came,
        sent: (events, bytes) => counters.sent(events, bytes),
        discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
        failed: kind => counters.failed(kind),
      },
      metrics: counters,
    },
  )
  const put = (count: number, from: number) => {
    const text = Array.from({ length: count }, (_, i) => `{"n":${i + from}}\n`).join('')
    delivery.write(batchesOf(text, json, status => settled.push(status))[0]!)
  }
  const end = async () => {
    delivery.end()
    return await delivery.stop(AbortSignal.timeout(10_000))
  }
  return { delivery, put, end, settled, letters }
}

export const ns = (lines: string[]) => lines.map(line => (JSON.parse(line) as { n: number }).n)
export const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)
