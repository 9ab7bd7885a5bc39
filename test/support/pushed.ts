import { pino } from 'pino'
import type { Test } from 'tap'
import type { z } from 'zod'
import { RawEncoder } from '../../src/codecs/encode.js'
import type { Definition, Output, Source, SourceContext } from '../../src/core/component.js'
import { Ack, type AckStatus } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { Fields } from '../../src/core/event/event.js'
import { ComponentCounters } from '../../src/flow/counters.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { systemClock, type TimerClock } from '../../src/lib/time.js'
import { PATIENCE_MS } from './patience.js'

/** Takes what a source sends. Settles it when told to, and has room as long as `room` is open. */
export class Taker implements Output {
  readonly batches: EventBatch[] = []
  readonly unsettled: Ack[] = []
  /** How batches are settled at once; undefined: by `settle`. */
  settlesAs: AckStatus | undefined
  #room: { promise: Promise<void>; open: () => void } | undefined

  constructor(settlesAs?: AckStatus) {
    this.settlesAs = settlesAs
  }

  ack(onSettled: (status: AckStatus) => void): Ack {
    return new Ack(onSettled)
  }

  async send(batch: EventBatch): Promise<void> {
    batch.scan()
    this.batches.push(batch)
    if (this.settlesAs) batch.ack.settle(this.settlesAs)
    else this.unsettled.push(batch.ack)
    await this.#room?.promise
  }

  settle(status: AckStatus): void {
    for (const ack of this.unsettled.splice(0)) ack.settle(status)
  }

  /** From now on there is no room. */
  block(): void {
    let open = () => {}
    const promise = new Promise<void>(resolve => {
      open = resolve
    })
    this.#room = { promise, open }
  }

  unblock(): void {
    this.#room?.open()
    this.#room = undefined
  }

  get bytes(): number {
    return this.batches.reduce((sum, batch) => sum + batch.bytes, 0)
  }

  get events(): number {
    return this.batches.reduce((sum, batch) => sum + batch.length, 0)
  }

  get fields(): Fields[] {
    return this.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i)))
  }

  get lines(): string[] {
    const line = (batch: EventBatch, i: number) => batch.chunk.toString('latin1', batch.starts[i], batch.ends[i])
    return this.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => line(batch, i)))
  }

  get raw(): Buffer {
    return Buffer.concat(new RawEncoder().encode(this.batches).parts)
  }
}

export interface Pushed {
  readonly out: Taker
  readonly source: Source
  readonly counters: ComponentCounters
  readonly port: number
  readonly run: Promise<void>
  /** Ends the run, as the engine does when it ends. */
  abort(): void
  logs(): Record<string, unknown>[]
  /** The sum of a counter or gauge over all labels, or of the failures of a kind. */
  count(name: string): number
}

/** What a source is made with, and what it said so far. */
export function contextOf(type: string, clock: TimerClock = systemClock) {
  const counters = new ComponentCounters('in', 'source', type)
  let text = ''
  const context = {
    id: 'in',
    log: pino({ level: 'debug' }, { write: line => void (text += line) }),
    clock,
    metrics: counters,
    origin: codec => ({ source: 'in', host: 'here', codec, wanted: new WantedNames() }),
  } as Partial<SourceContext> as SourceContext
  const logs = () =>
    text
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line) as Record<string, unknown>)
  return { context, counters, logs }
}

/** Runs a source that listens, on a free port. It does not outlive the test. */
export async function startPushed<S extends z.ZodObject>(
  t: Test,
  definition: Definition<'source', S>,
  options: Record<string, unknown>,
  { out = new Taker('delivered'), clock = systemClock }: { out?: Taker; clock?: TimerClock } = {},
): Promise<Pushed> {
  const { context, counters, logs } = contextOf(definition.type, clock)
  const source = await definition.create(definition.options.parse({ listen: '127.0.0.1:0', ...options }), context)
  const controller = new AbortController()
  await source.start?.(controller.signal)
  const run = source.run(out, controller.signal)
  t.teardown(async () => {
    controller.abort()
    out.settlesAs = 'delivered'
    out.unblock()
    out.settle('delivered')
    await source.stop?.(AbortSignal.timeout(1000))
    await run.catch(() => {})
  })
  const listening = () => logs().find(({ msg }) => msg === 'listening')
  let failed = false
  run.catch(() => {
    failed = true
  })
  await until(() => failed || listening() !== undefined)
  if (failed) await run
  return {
    out,
    source,
    counters,
    port: Number(/:(\d+)$/.exec(String(listening()?.address))?.[1]),
    run,
    abort: () => controller.abort(),
    logs,
    count(name) {
      const series = counters.series.get(name)
      if (!series) return counters.failures.get(name) ?? 0
      return series.flatMap(one => [...one.read()]).reduce((sum, { value }) => sum + value, 0)
    },
  }
}

/** Resolves when `test`, asked every now and then, holds; rejects after `ms`. */
export async function until(test: () => boolean, ms = PATIENCE_MS, everyMs = 2): Promise<void> {
  for (const end = performance.now() + ms; !test(); await new Promise(resolve => setTimeout(resolve, everyMs))) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${test}`)
  }
}
