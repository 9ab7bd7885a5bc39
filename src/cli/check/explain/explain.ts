import { readFileSync, statSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import type { ThrottleConfig } from '../../../components/processors/throttle/options.js'
import type { LiveBucket } from '../../../components/throttle/keyed-processor.js'
import { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { EventEditor } from '../../../core/event/event-editor.js'
import type { Fields } from '../../../core/event/event-fields.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import { FieldReader } from '../../../core/event/field-reader.js'
import type { Explain, Explanation, Finding } from '../../../core/explain.js'
import { DISCARDED } from '../../../core/processor.js'
import { silentLog } from '../../../core/silent-log.js'
import { loadDaemonConfig } from '../../../daemon/managed/local-part.js'
import { type Io, UsageError } from '../../../daemon/process/command-line.js'
import { EXIT } from '../../../daemon/process/dispatch.js'
import { type ReadEvent, readEvent } from '../../../daemon/process/given-event.js'
import { cutAt, wrapIndented } from '../../../daemon/process/wrap.js'
import { splitInput } from '../../../engine/config/inputs.js'
import type { ComponentConfig, Config } from '../../../engine/config/load.js'
import { ComponentCounters } from '../../../engine/flow/counters.js'
import { WantedNames } from '../../../lib/formats/json-scan.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { exactJson } from '../../../lib/formats/normal-json.js'
import { printableJson, printableText } from '../../../lib/printable.js'
import { systemClock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import { type AskDaemon, type LiveBucketState, liveBucket } from './live.js'
import { nowLine, type Past, pastLines, pastOf } from './past.js'
import { type ExplainProcessor, explainerOf, type ProcessorStep } from './processor.js'

export interface ExplainOptions {
  readonly config: string
  /** JSON, a line, a file name, or - for standard input. */
  readonly event: string
  readonly source: string | undefined
  readonly json: boolean
  /** Asks the daemon that runs this configuration. Undefined if no daemon should be asked. */
  readonly ask?: AskDaemon | undefined
}

/** What one component does with the event. If the event does not reach the component, `outcome` is missing. */
interface Step extends Partial<Explanation> {
  readonly id: string
  readonly kind: string
  readonly type: string
  /** The output from which the component reads the event: `limit_app`, `limit_app.discarded`. */
  readonly input: string
  readonly depth: number
  /** The event after this step; processors only. */
  readonly event?: Fields
  /** The JSON of the event after this step, if the step changed it. */
  readonly changedTo?: string | undefined
  /** How the event is delivered, in words; destinations only. */
  readonly delivery?: string
  readonly bucket?: LiveBucket
  /** Whether the destination has a problem in the running daemon. */
  readonly waits?: boolean
}

/** Maximum number of steps, because an event may reach the same component on many paths. */
const MOST_STEPS = 1000
const LONGEST_SHOWN = 500

/** Explains how one event would pass through the pipeline. The exit code is 1 if the event reaches no destination. */
export async function explain(options: ExplainOptions, io: Io): Promise<number> {
  return explainIn(await loadDaemonConfig(options.config, io.env), options, io)
}

/** Like `explain`, with a configuration that was already read. */
export async function explainIn(config: Config, options: Omit<ExplainOptions, 'config'>, io: Io): Promise<number> {
  const source = sourceOf(config, options.source)
  const wanted = new WantedNames()
  const explainers = await explainersOf(config, wanted)
  const event = await readEvent(source, await textOf(options.event, io), wanted)
  const { ask } = options
  const live: AskLive | undefined = ask && {
    bucket: (id, findings) => liveBucket(id, findings, (...bucket) => ask.bucket(config.dataDir, ...bucket)),
    problems: await ask.problems(config.dataDir),
  }
  const steps = await stepsFrom(source, config, explainers, event, live)
  const past = ask && (await pastOf(versionsOf(event, steps), fields => ask.past(config.dataDir, fields)))
  const delivered = steps.some(({ outcome }) => outcome === 'delivered')
  if (options.json) io.stdout.write(`${printableJson(jsonText(document(source, event, steps, past), 2))}\n`)
  else {
    const then = past ? pastLines(past).map(line => `  ${line}`) : []
    const hasRoom = steps.some(({ bucket, outcome }) => bucket?.discarded_last_hour && outcome !== 'discarded')
    if (hasRoom && !past?.events.length) then.push(`  ${nowLine(config.statusPage !== undefined)}`)
    const text = printableText([...head(source, event), ...then, ...steps.flatMap(lines)].join('\n'))
    const { isTTY, columns = 80 } = io.stdout
    const shown = isTTY
      ? text
          .split('\n')
          .flatMap(line => wrapIndented(line, columns))
          .join('\n')
      : text
    io.stdout.write(`${shown}\n`)
  }
  if (config.statusPage && !ask)
    io.stderr.write('sluice explain: with --live, the daemon reports past events like this one\n')
  if (event.more > 0) io.stderr.write(`sluice explain: only the first of ${event.more + 1} events is explained\n`)
  return delivered ? EXIT.done : EXIT.failed
}

/**
 * Returns the event as it was read, then the event after each component that changed it. Omits the fields that are in
 * `batch` but not in `own`.
 */
function versionsOf({ batch, own }: ReadEvent, steps: readonly Step[]): Fields[] {
  const unknown = Object.keys(batch.fields(0)).filter(name => !(name in own))
  const changed = steps.flatMap(({ event, changedTo }): Fields[] => (event && changedTo !== undefined ? [event] : []))
  const known = (fields: Fields) =>
    Object.fromEntries(Object.entries(fields).filter(([name]) => !unknown.includes(name)))
  return [own, ...changed.map(known)]
}

function sourceOf({ sources }: Config, id: string | undefined): ComponentConfig<'source'> {
  const source = id === undefined ? sources[0] : sources.find(source => source.id === id)
  if (source) return source
  throw new UsageError(`there is no source ${id}; there are ${sources.map(({ id }) => id).join(', ')}`, 'explain')
}

async function textOf(event: string, io: Io): Promise<Buffer> {
  if (event === '-') return buffer(io.stdin)
  return isFile(event) ? readFileSync(event) : Buffer.from(event)
}

function isFile(name: string): boolean {
  try {
    return !name.includes('\n') && statSync(name).isFile()
  } catch {
    // The text is not a file name. For example, it may be too long for a file name.
    return false
  }
}

interface Explainers {
  readonly processors: ReadonlyMap<string, ExplainProcessor>
  readonly destinations: ReadonlyMap<string, Explain>
}

/** Call this before the event is read, because the explainers register the names of the fields to read. */
async function explainersOf(config: Config, wanted: WantedNames): Promise<Explainers> {
  const contextOf = (id: string) => ({
    id,
    log: silentLog,
    clock: systemClock,
    field: (path: FieldPath) => new FieldReader(path, wanted),
    editor: () => new EventEditor(wanted),
  })
  const processors = new Map<string, ExplainProcessor>()
  const all = [...config.processors, ...config.destinations]
  const isRead = (output: string) => all.some(({ inputs }) => inputs.includes(output))
  for (const processor of config.processors)
    processors.set(processor.id, await explainerOf(processor, contextOf(processor.id), isRead))
  const destinations = new Map<string, Explain>()
  for (const { id, definition, options } of config.destinations) {
    const metrics = new ComponentCounters(id, 'destination', definition.type)
    const explain = (await definition.explains?.())?.explain?.(options, { ...contextOf(id), metrics })
    if (explain) destinations.set(id, explain)
  }
  return { processors, destinations }
}

function explained(explain: Explain | undefined, event: EventBatch): Explanation | undefined {
  try {
    return explain?.(event.snapshot())
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error
    return { outcome: 'discarded', reason: error.reason, findings: [{ text: error.message }] }
  }
}

interface AskLive {
  bucket(id: string, findings: readonly Finding[]): Promise<LiveBucketState | undefined>
  /** Problems of destinations, by id. */
  readonly problems: ReadonlyMap<string, string>
}

/**
 * Lists the steps in order. If an output does not get the event, the components that read this output also get a step,
 * but without an explanation.
 */
async function stepsFrom(
  { id }: { id: string },
  config: Config,
  { processors, destinations }: Explainers,
  event: ReadEvent,
  live: AskLive | undefined,
): Promise<Step[]> {
  const steps: Step[] = []
  const all = [...config.processors, ...config.destinations]
  /** `leaves`: the events that leave the component `from`, by output. */
  const follow = async (from: string, depth: number, leaves: ReadonlyMap<string, EventBatch>) => {
    for (const { id, kind, type, inputs, options, delivery } of all) {
      for (const input of inputs) {
        if (splitInput(input)[0] !== from || steps.length >= MOST_STEPS) continue
        const step = { id, kind, type, input, depth }
        const before = leaves.get(input)
        if (!before) steps.push(step)
        else if (kind === 'destination') {
          const explanation = explained(destinations.get(id), before)
          const problem = live?.problems.get(id)
          const findings = explanation && [
            ...explanation.findings.map(finding => withUnset(finding, event.unset)),
            ...(problem === undefined ? [] : [{ text: `now: ${problem}` }]),
          ]
          const text = delivery && explanation ? { delivery: deliveryText(delivery) } : {}
          const waits = problem !== undefined && { waits: true }
          steps.push({ ...step, ...explanation, ...(findings && { findings }), ...text, ...waits })
        } else {
          const asFirst = await processors.get(id)!(before)
          const now = await live?.bucket(id, asFirst.findings)
          const { left, ...explanation } = now?.isFull ? overLimit(asFirst, options, before) : asFirst
          const findings = [
            ...explanation.findings.map(finding => withUnset(finding, event.unset)),
            ...(now?.findings ?? []),
          ]
          const [first] = left.values()
          const bucket = now?.bucket && { bucket: now.bucket }
          steps.push({ ...step, ...explanation, findings, ...bucket, ...(first ? eventAfter(before, first) : {}) })
          const outputs = [...left].map(([output, batch]) => [output === '' ? id : `${id}.${output}`, batch] as const)
          await follow(id, depth + 1, new Map(outputs))
        }
      }
    }
  }
  await follow(id, 0, new Map([[id, event.batch]]))
  return steps
}

/** The step for an event over the limit. The event is discarded, unless `over_limit` or shadow mode keeps it. */
function overLimit(asFirst: ProcessorStep, options: unknown, event: EventBatch): ProcessorStep {
  const { mode, over_limit: over } = options as Pick<ThrottleConfig, 'mode' | 'over_limit'>
  if (asFirst.outcome !== 'passed' || mode === 'shadow' || over !== 'discard') return asFirst
  const { findings } = asFirst
  const left = new Map([[DISCARDED, event.snapshot()]])
  return { outcome: 'discarded', reason: 'throttled', findings, left }
}

function eventAfter(before: EventBatch, after: EventBatch): Pick<Step, 'event' | 'changedTo'> {
  const text = exactJson(after.fields(0, true))
  return { event: after.fields(0), changedTo: text === exactJson(before.fields(0, true)) ? undefined : text }
}

/** If the finding says that the field `unset` is missing, adds how to provide the field. */
function withUnset(finding: Finding, unset: string | undefined): Finding {
  const { value, parts } = finding
  const how = `the source sets it: give an event as sluice tap shows it, or {"message":"…","${unset?.slice(1)}":"…"}`
  return {
    ...finding,
    ...(value === `${unset} is missing` && { value: `${value}, ${how}` }),
    ...(parts && { parts: parts.map(part => withUnset(part, unset)) }),
  }
}

function deliveryText({ batch, buffer }: NonNullable<ComponentConfig['delivery']>): string {
  const kept = buffer.type === 'disk' ? 'kept on disk until it is delivered, ' : ''
  return `${kept}in batches of up to ${batch.max_events} events or every ${formatDuration(batch.max_wait)}`
}

function head({ id, type }: ComponentConfig<'source'>, { batch, as }: ReadEvent): string[] {
  const line = batch.chunk.toString('utf8', batch.starts[0], batch.ends[0])
  const first = `${id} (${type}): ${batch.bytes} bytes, read as ${as}`
  const fields = printableJson(exactJson(batch.fields(0, true)))
  return [
    first,
    ...line.split('\n').map(part => `    ${cut(part)}`),
    ...(fields === line ? [] : [`  is ${cut(fields)}`]),
  ]
}

function lines(step: Step): string[] {
  const {
    id,
    type,
    input,
    outcome,
    reason,
    output,
    outputs,
    findings = [],
    changedTo,
    bytes,
    delivery,
    depth,
    waits,
    bucket,
  } = step
  const lead = '  '.repeat(depth)
  if (!outcome) return [`${lead}→ ${id} (${type}): not reached, it reads ${input}`]
  const by = input.includes('.') ? `, by ${input}` : ''
  const names = (outputs ?? (output === undefined ? [] : [output])).map(name => (name === '' ? id : `${id}.${name}`))
  const to = names.length === 0 ? '' : `, to ${names.join(' and ')}`
  const done = outcome === 'delivered' ? `would be delivered${waits ? ' later' : ''}` : outcome
  const why = bucket && reason === 'throttled' ? ', because its bucket is full now' : ''
  const what = outcome === 'discarded' ? `discarded (${reason})${why}` : `${done}${to}`
  const rows = findings.flatMap(finding => findingLines(finding, `${lead}    `))
  if (changedTo !== undefined) rows.push(`${lead}    the event is now ${cut(printableJson(changedTo))}`)
  if (bytes && bytes.length > 0) rows.push(`${lead}    ${bytes.length} bytes: ${cut(bytes.toString().trimEnd())}`)
  if (delivery !== undefined) rows.push(`${lead}    ${delivery}`)
  return [`${lead}→ ${id} (${type}): ${what}${by}`, ...rows]
}

function findingLines({ text, holds, value, parts = [] }: Finding, lead: string): string[] {
  const answer = holds === undefined ? '' : `${holds ? 'yes' : 'no '}  `
  const line = `${lead}${answer}${text}${value === undefined ? '' : `  (${value})`}`
  return [line, ...parts.flatMap(part => findingLines(part, `${lead}  `))]
}

function cut(text: string): string {
  return text.length <= LONGEST_SHOWN ? text : `${cutAt(text, LONGEST_SHOWN)}… (${text.length} characters)`
}

function document(
  { id, type }: ComponentConfig<'source'>,
  { batch, as }: ReadEvent,
  steps: readonly Step[],
  past: Past | undefined,
): object {
  return {
    source: { id, type, bytes: batch.bytes, read_as: as, fields: batch.fields(0) },
    ...(past && { past }),
    steps: steps.map(({ depth: _, changedTo: __, bytes, outcome, ...step }) => ({
      ...step,
      ...(outcome && { outcome: outcome === 'delivered' ? 'would_deliver' : outcome }),
      reached: outcome !== undefined,
      ...(bytes ? { bytes: bytes.length, written: bytes.toString() } : {}),
    })),
    would_deliver: steps.flatMap(({ id, outcome }) => (outcome === 'delivered' ? [id] : [])),
  }
}
