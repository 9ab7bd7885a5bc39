import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { loadCodecs } from '../../core/codec.js'
import type { AnyDefinition, Destination, DestinationContext } from '../../core/component.js'
import type { AckStatus } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { type DeliveryOptions, deliveryOptions } from '../../core/options/delivery-options.js'
import { silentLog } from '../../core/silent-log.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { sleep, systemClock } from '../../lib/time.js'
import { ComponentCounters } from '../flow/counters.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import { Delivery } from '../flow/delivery/delivery.js'
import { batchOf } from './batches.js'
import { type Findings, findingsOf, until } from './findings.js'

/** How long after its delivery an event may arrive at the receiver. */
const LATE_MS = 2000

type DestinationDefinition = AnyDefinition<'destination'>

/** Where a destination writes, and the events that arrived there. Each check opens its own output. */
export interface DestinationOutput {
  readonly options: object
  readonly stdout?: NodeJS.WritableStream
  /** All that has arrived so far, as text. An event may arrive after it counts as delivered. Missing if unknown. */
  arrived?(): string | Promise<string>
  /** Makes the next `attempts` fail with errors that are retried. If missing, failures are not checked. */
  fail?(attempts: number): void
  close?(): unknown
}

type Open = () => DestinationOutput | Promise<DestinationOutput>
type Check = (opened: Opened, found: Findings) => Promise<void>

const CHECKS: Readonly<Record<string, Check>> = {
  'stopping works without a start, and twice': stops,
  'every event arrives once, in order, and is acknowledged once': keepsOrder,
  'a failed attempt is retried and loses no events': triesAgain,
  'stopping early returns the undelivered events': endsInTheMiddle,
  'after a reload, the successor continues where its predecessor stopped': handsOver,
}

/**
 * Checks that a destination keeps its contract: acknowledgements, order, retries, an abrupt end and a reload. The
 * `.message` of its events contains `event-N.`; the dot ends the number. Resolves with the violations; empty if there
 * are none.
 */
export async function checkDestination(definition: DestinationDefinition, open: Open): Promise<string[]> {
  const all: string[] = []
  for (const [name, check] of Object.entries(CHECKS)) {
    const title = `${definition.type}: ${name}`
    const opened = new Opened(definition, await open())
    all.push(...(await findingsOf(title, found => check(opened, found))))
    all.push(...(await findingsOf(title, () => opened.close())))
  }
  return all
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

class Opened {
  readonly output: DestinationOutput
  readonly #definition: DestinationDefinition
  readonly #wanted = new WantedNames()
  readonly settled: AckStatus[][] = []
  readonly #made: Destination[] = []
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-check-'))
  #count = 0

  constructor(definition: DestinationDefinition, output: DestinationOutput) {
    this.#definition = definition
    this.output = output
  }

  async create(inherited?: unknown): Promise<{ destination: Destination; context: DestinationContext }> {
    const context: DestinationContext = {
      id: 'out',
      log: silentLog,
      clock: systemClock,
      metrics: new ComponentCounters('out', 'destination', this.#definition.type),
      field: path => new FieldReader(path, this.#wanted),
      stdout: this.output.stdout ?? new PassThrough().resume(),
      inherited,
      state: { path: join(this.#folder, 'spool'), hasRoom: () => true, count: () => {} },
    }
    const options = this.#definition.options.parse(this.output.options) as never
    loadCodecs(options, undefined)
    const destination: Destination = await this.#definition.create(options, context)
    this.#made.push(destination)
    return { destination, context }
  }

  /** Creates the destination and a real delivery for the destination. The delivery hardly waits between attempts. */
  async deliver(inherited?: unknown) {
    const { destination, context } = await this.create(inherited)
    const options = { retry: { initial: '5ms', max: '20ms' }, batch: { max_wait: '5ms' }, max_in_flight: 1 }
    const counters = context.metrics as ComponentCounters
    const letters: EventBatch[] = []
    const deadLetter: DeadLetters = { write: async batches => void letters.push(...batches) }
    const delivery = new Delivery(destination, deliveryOptions.parse(options) as DeliveryOptions, {
      ...context,
      random: () => 1,
      deadLetter,
      counters: {
        received: (events, bytes) => counters.arrived(events, bytes),
        sent: (events, bytes) => counters.sent(events, bytes),
        discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
        failed: kind => counters.failed(kind),
      },
      metrics: counters,
    })
    await delivery.start()
    const end = async () => {
      delivery.end()
      return await delivery.stop(AbortSignal.timeout(5000))
    }
    return { destination, delivery, put: (events: number) => this.#put(delivery, events), end }
  }

  async #put(delivery: Delivery, events: number): Promise<void> {
    const lines = numbers(this.#count, (this.#count += events)).map(n => `{"message":"event-${n}."}`)
    const said: AckStatus[] = []
    this.settled.push(said)
    const batch = batchOf(lines, { wanted: this.#wanted, onSettled: status => void said.push(status) })
    if (!delivery.write(batch)) await new Promise<void>(resolve => delivery.once('drain', resolve))
  }

  async close(): Promise<void> {
    for (const destination of this.#made) await destination.stop?.(AbortSignal.timeout(1000))
    await this.output.close?.()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Checks that the events with these numbers, and no others, have arrived in order and once each. */
  async hasArrived(wanted: readonly number[], found: Findings): Promise<void> {
    if (!this.output.arrived) return
    await this.#until(arrived => arrived.length >= wanted.length || arrived.some((n, i) => n !== wanted[i]))
    found.same(await this.#arrived(), wanted, 'the events that arrived')
  }

  async missing(wanted: readonly number[]): Promise<number[]> {
    if (!this.output.arrived) return []
    const missing = (arrived: readonly number[]) => {
      const there = new Set(arrived)
      return wanted.filter(n => !there.has(n))
    }
    await this.#until(arrived => missing(arrived).length === 0)
    return missing(await this.#arrived())
  }

  /** Waits until `test` holds, but not longer than LATE_MS: delivered events may arrive a little later. */
  async #until(test: (arrived: readonly number[]) => boolean): Promise<void> {
    for (let waited = 0; waited < LATE_MS && !test(await this.#arrived()); waited += 20) await sleep(20)
  }

  async #arrived(): Promise<number[]> {
    return Array.from((await this.output.arrived!()).matchAll(/event-(\d+)/g), ([, number]) => Number(number))
  }
}

async function stops(opened: Opened): Promise<void> {
  const { destination } = await opened.create()
  await destination.stop?.(AbortSignal.abort())
  await destination.stop?.(new AbortController().signal)
}

async function keepsOrder(opened: Opened, found: Findings): Promise<void> {
  const { put, end } = await opened.deliver()
  for (const events of [1, 0, 3, 5000, 1, 0]) await put(events)
  found.same(await end(), { events: 0, bytes: 0 }, 'undelivered events')
  await opened.hasArrived(numbers(0, 5005), found)
  const once = opened.settled.map(() => ['delivered'])
  found.same(opened.settled, once, 'acknowledgements of the batches')
}

async function triesAgain(opened: Opened, found: Findings): Promise<void> {
  if (!opened.output.fail) return
  const { put, end } = await opened.deliver()
  await put(10)
  await until(() => opened.settled.flat().length === 1, 'the first batch is delivered')
  opened.output.fail(2)
  await put(10)
  await put(10)
  found.same(await end(), { events: 0, bytes: 0 }, 'undelivered events')
  found.same(await opened.missing(numbers(0, 30)), [], 'events that did not arrive')
  found.same(opened.settled, [['delivered'], ['delivered'], ['delivered']], 'acknowledgements of the batches')
}

async function endsInTheMiddle(opened: Opened, found: Findings): Promise<void> {
  const { put, delivery } = await opened.deliver()
  opened.output.fail?.(Number.POSITIVE_INFINITY)
  for (let batch = 0; batch < 5; batch++) void put(10)
  await sleep(20)
  const left = await delivery.stop(AbortSignal.abort())
  found.ok(
    opened.settled.every(({ length }) => length === 1),
    'a batch is not acknowledged exactly once',
  )
  const said = opened.settled.flat()
  found.ok(!said.includes('rejected'), 'events were rejected')
  const delivered = said.filter(status => status === 'delivered').length
  found.same(left.events, 50 - 10 * delivered, 'undelivered events')
  // Events in the spool are not missing: the next run sends them.
  const missing = delivery.spooled ? [] : await opened.missing(numbers(0, 10 * delivered))
  found.same(missing, [], 'events that were acknowledged and did not arrive')
}

async function handsOver(opened: Opened, found: Findings): Promise<void> {
  const first = await opened.deliver()
  await first.put(500)
  await first.end()
  const state = first.destination.handOver?.()
  await first.destination.stop?.(AbortSignal.timeout(1000))
  const next = await opened.deliver(state?.value)
  await next.put(400)
  found.same((await next.end()).events, 0, 'undelivered events')
  found.same(opened.settled, [['delivered'], ['delivered']], 'acknowledgements of the batches')
  await opened.hasArrived(numbers(0, 900), found)
}
