import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import type { ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Explanation, Finding } from '../../../core/explain.js'
import { DISCARDED, UNROUTED } from '../../../core/processor.js'
import type { ComponentConfig } from '../../../engine/config/load.js'
import { ComponentCounters } from '../../../engine/flow/counters.js'
import { Stage } from '../../../engine/flow/stage.js'
import { createComponent } from '../../../engine/run/create-component.js'
import { after } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import { withOwnBuckets } from '../own-buckets.js'

export interface ProcessorStep extends Explanation {
  /** The resulting events by output name; '' is the main output. */
  readonly left: ReadonlyMap<string, EventBatch>
}

export type ExplainProcessor = (batch: EventBatch) => Promise<ProcessorStep>

/** Maximum time for a processor to start and to process the event. */
const LONGEST_MS = 30_000

type Context = Omit<ProcessorContext, 'metrics'>

/**
 * Explains a processor by running it on one event. Resolves after the processor has registered the names of the fields
 * that it reads. `isRead`: whether any component reads the output.
 */
export async function explainerOf(
  config: ComponentConfig<'processor'>,
  context: Context,
  isRead: (output: string) => boolean,
  longestMs = LONGEST_MS,
): Promise<ExplainProcessor> {
  const own = withOwnBuckets(config)
  const { definition, options } = own
  const create = (metrics: ComponentCounters) => createComponent<'processor'>(own, { ...context, metrics })
  const counters = () => new ComponentCounters(config.id, 'processor', config.type)
  const within = <T>(work: Promise<T>): Promise<T> => {
    const said = `${config.id} (${config.type}) has not finished with the event after ${formatDuration(longestMs)}; its decision is not known`
    let cancel: (() => void) | undefined
    const late = new Promise<never>((_, reject) => {
      cancel = after(longestMs, () => reject(new Error(said)))
    })
    return Promise.race([work, late]).finally(cancel)
  }
  const unused = await within(create(counters()))
  await within(Promise.resolve(unused.stop?.(AbortSignal.abort())))
  const findingsOf = await (await definition.explains?.())?.findings?.(options, { ...context, metrics: counters() })
  const explain = async (batch: EventBatch): Promise<ProcessorStep> => {
    const findings = findingsOf?.(batch.snapshot()) ?? []
    const metrics = counters()
    const stage = new Stage(await create(metrics), config.plan ?? {}, {
      ...context,
      metrics,
      origin: { ...batch.origin, codec: JSON_OBJECTS },
      onError: config.onError ?? 'pass',
      deadLetters: { write: async () => {} },
    })
    const signal = AbortSignal.timeout(longestMs)
    signal.addEventListener('abort', () => stage.destroy())
    await stage.start(signal)
    const main = collect(stage)
    const sides = [...stage.outputs].map(([name, output]) => {
      // A tapped output emits its events even if nothing reads it.
      output.tapped = true
      output.connected = name === DISCARDED || isRead(`${config.id}.${name}`)
      return { name, batches: collect(output) }
    })
    const ended = once(stage, 'end')
    stage.end(batch.fork())
    await ended
    await stage.stop(signal)
    const reason = [...metrics.discards.keys()].find(reason => reason !== UNROUTED)
    const left = new Map<string, EventBatch>()
    const several: Finding[] = []
    let unrouted: string | undefined
    for (const { name, batches } of [{ name: '', batches: main }, ...sides]) {
      // If the event was discarded, only the output DISCARDED contains the event. The other outputs contain only events
      // that were made from it.
      if (!batches[0] || (reason !== undefined && name !== DISCARDED)) continue
      if (name !== '' && !stage.outputs.get(name)!.connected) {
        unrouted = name
        several.push({ text: `nothing reads ${config.id}.${name}: events that go there are discarded (${UNROUTED})` })
        continue
      }
      left.set(name, batches[0].snapshot(0, 1))
      const count = batches.reduce((sum, { length }) => sum + length, 0)
      if (count > 1) several.push({ text: `it becomes ${count} events; the first one is followed here` })
    }
    const failed = metrics.failures.size > 0 ? [{ text: 'it could not be processed' }] : []
    const rest = { findings: [...findings, ...failed, ...several], left }
    if (reason !== undefined) return { outcome: 'discarded', reason, ...rest }
    const [output, ...others] = left.keys()
    if (output === undefined && unrouted !== undefined) {
      return { outcome: 'discarded', reason: UNROUTED, output: unrouted, ...rest }
    }
    if (output === undefined) return { outcome: 'consumed', ...rest }
    if (others.length > 0) return { outcome: 'passed', outputs: [...left.keys()], ...rest }
    return { outcome: 'passed', ...(output !== '' && { output }), ...rest }
  }
  return batch => within(explain(batch))
}

function collect(from: Readable): EventBatch[] {
  const batches: EventBatch[] = []
  from.on('data', batch => batches.push(batch))
  return batches
}
