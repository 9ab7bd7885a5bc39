import '../../src/core/codecs/list.js'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { z } from 'zod'
import type { Definition, Source, SourceContext } from '../../src/core/component.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { systemClock, type TimerClock } from '../../src/lib/time.js'
import { parsedLines } from './parsed-lines.js'
import { Taker } from './taker.js'
import { until } from './until.js'

export { Taker } from './taker.js'

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
  const logs = () => parsedLines<Record<string, unknown>>(text)
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
