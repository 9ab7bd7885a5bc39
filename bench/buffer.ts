import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { JSON_OBJECTS } from '../src/core/codecs/json.js'
import { Ack } from '../src/core/event/ack.js'
import { EventBatch } from '../src/core/event/batch.js'
import type { Origin } from '../src/core/event/origin.js'
import { type DeliveryOptions, deliveryOptionsWith, LOCAL_DEFAULTS } from '../src/core/options/delivery-options.js'
import { ComponentCounters } from '../src/engine/flow/counters.js'
import { Delivery } from '../src/engine/flow/delivery/delivery.js'
import { DiskBuffer } from '../src/engine/flow/disk-buffer/disk-buffer.js'
import { folderOnDisk } from '../src/engine/flow/disk-buffer/files.js'
import { Input } from '../src/engine/flow/fan-out.js'
import { WantedNames } from '../src/lib/formats/json-scan.js'
import { LineSplitter } from '../src/lib/lines/line-splitter.js'
import { systemClock } from '../src/lib/time.js'
import { programOptions } from '../test/support/program-options.js'
import { workFolder } from './work.js'

/**
 * The disk buffer by itself, on a real disk: events a second that go in and out of it at the same time, that go in
 * while nothing can be delivered, and that come out of it after a restart. As a program it prints one JSON document.
 */

const { options } = programOptions({ folder: tmpdir(), events: 2_000_000 })
const EVENTS = options.events
const READ_SIZE = 256 * 1024
/** What a source may have under way. */
const BUDGET = 32 * 1024 * 1024

const log = pino({ level: 'warn' }, pino.destination({ dest: 2, sync: true }))
const wanted = new WantedNames()
const origin: Origin = { source: 'bench', path: '/var/log/app.log', host: 'bench', codec: JSON_OBJECTS, wanted }
const line = (i: number) =>
  `{"timestamp":"2026-01-01T00:00:00.000Z","level":"info","host":"web-07","app":"app-${i % 1000}","request_id":"${1e9 + i}","method":"GET","path":"/api/v1/orders/${i}","status":200,"took_ms":1.5,"message":"request completed"}\n`
const perBatch = Math.floor(READ_SIZE / line(0).length)
const text = Buffer.from(Array.from({ length: perBatch }, (_, i) => line(i)).join(''))
const results: Record<string, unknown>[] = []

interface Run {
  readonly buffer: DiskBuffer
  readonly counters: ComponentCounters
  readonly input: Input
  end(): Promise<void>
}

/** A buffer before a destination that takes everything, or nothing. */
async function open(folder: string, works: boolean): Promise<Run> {
  const counters = new ComponentCounters('out', 'destination', 'bench')
  const { clock, random } = { clock: systemClock, random: () => 0.5 }
  const buffer = await DiskBuffer.open({
    folder: folderOnDisk(folder),
    log,
    clock,
    random,
    wanted,
    maxBytes: 1e12,
    whenFull: 'block',
    counters,
  })
  const start = works ? async () => {} : () => new Promise<void>(() => {})
  const delivery = new Delivery({ start, write: async () => {} }, delivered(), {
    id: 'out',
    log,
    clock,
    random,
    deadLetter: { write: async () => {} },
    counters: {
      received: (events, bytes) => buffer.takenUp(events, bytes),
      sent: (events, bytes) => counters.sent(events, bytes),
      discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
      failed: kind => counters.failed(kind),
    },
    metrics: counters,
  })
  const input = new Input(buffer, counters)
  input.feed()
  const between = new Input(delivery, { arrived: () => {} })
  between.feed()
  buffer.connect(between)
  void delivery.start()
  const end = async () => {
    if (!works) delivery.destroy()
    else await new Promise<void>(resolve => delivery.once('close', () => resolve()))
    await buffer.close()
  }
  return { buffer, counters, input, end }
}

function delivered(): DeliveryOptions {
  return deliveryOptionsWith(LOCAL_DEFAULTS).parse({}) as DeliveryOptions
}

/** Puts all events in, at the pace that the budget of a source allows; resolves when all are acknowledged. */
async function fill({ input }: Run): Promise<void> {
  let held = 0
  let unsettled = 0
  let go = () => {}
  for (let sent = 0; sent < EVENTS; sent += perBatch) {
    const frame = new LineSplitter(1 << 20).push(text)!
    const batch: EventBatch = new EventBatch(
      frame,
      origin,
      0,
      new Ack(() => {
        held -= batch.held
        unsettled--
        go()
      }),
    )
    batch.scan()
    held += batch.held
    unsettled++
    const room = input.write(batch)
    if (room) await room
    while (held >= BUDGET) {
      await new Promise<void>(resolve => {
        go = resolve
      })
    }
  }
  while (unsettled > 0) {
    await new Promise<void>(resolve => {
      go = resolve
    })
  }
}

/** How many came out; throws when those are not all that went in. */
function complete({ received, passed }: ComponentCounters): number {
  if (passed.events !== received.events) throw new Error(`${passed.events} of ${received.events} events came out`)
  return passed.events
}

async function measure(name: string, work: () => Promise<number>): Promise<void> {
  const cpu = process.cpuUsage()
  const began = performance.now()
  const events = await work()
  const seconds = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage(cpu)
  results.push({
    bench: `buffer_${name}`,
    events,
    bytes_per_event: Math.round(text.length / perBatch),
    per_second: Math.round(events / seconds),
    cpu_seconds_per_million: Number(((user + system) / events).toFixed(3)),
    rss_mb: Math.round(process.memoryUsage.rss() / 1e6),
  })
}

const folder = workFolder(options.folder, 'buffer')
await measure('through', async () => {
  const run = await open(join(folder, 'a', 'through'), true)
  await fill(run)
  run.input.end()
  await run.end()
  return complete(run.counters)
})
await measure('in', async () => {
  const run = await open(join(folder, 'a', 'outage'), false)
  await fill(run)
  await run.end()
  return run.counters.received.events
})
await measure('out', async () => {
  const run = await open(join(folder, 'a', 'outage'), true)
  run.input.end()
  await run.end()
  return complete(run.counters)
})
process.stdout.write(`${JSON.stringify(results)}\n`)
