import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { AnyDefinition } from '../../core/component.js'
import type { AckStatus } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Example } from '../../core/explain.js'
import { outputNames } from '../../core/processor.js'
import type { Stage } from '../flow/stage.js'
import { batchOf, linesOf } from './batches.js'
import { type Findings, findingsOf, optionsOf } from './findings.js'
import { settle } from './manual-time.js'
import { loadedStageOf } from './stage.js'

/** Lines with field values that users have, and lines that are not objects. */
export const LINES: readonly string[] = [
  '{"app":"a","host":"edge-1","level":"error","ts":"2021-06-01T12:00:00.000Z","took_ms":5,"path":"/health"}',
  '{"app":"b","level":"info","ts":1622548800500,"took_ms":"12"}',
  '{"app":null,"level":["error"],"ts":"yesterday","nested":{"app":"a"}}',
  '{}',
  '{"app":"\\u00e4\\"","level":"error"}',
  'no object at all',
  '[1,2,3]',
  `{"app":"${'x'.repeat(5000)}"}`,
  '{"__proto__":1,"app":"a"}',
]
const MANY = 20_000

type Processor = AnyDefinition<'processor'>
type Check = (definition: Processor, example: Example, found: Findings) => Promise<void>

const CHECKS: Readonly<Record<string, Check>> = {
  'its example': givesItsOutput,
  'every event leaves once, in order, and is acknowledged once': keepsAll,
  'its outputs and reasons match its plan': keepsToPlan,
  'stopping works without a start, twice, and while it has events': stops,
  'after a reload, the successor decides in the same way': handsOver,
}

/**
 * Checks that a processor keeps its contract, with the options of each of its examples. Covers output,
 * acknowledgements, order, back-pressure, stop and reload. Resolves with the violations; empty if there are none.
 */
export async function checkProcessor(definition: Processor): Promise<string[]> {
  const all: string[] = []
  for (const example of definition.examples)
    await withFiles(example, async placed => {
      for (const [name, check] of Object.entries(CHECKS)) {
        const title = `${definition.type}, ${example.title}: ${name}`
        all.push(...(await findingsOf(title, found => check(definition, placed, found))))
      }
    })
  return all
}

/** Runs `check` with an example, after writing its files to a temporary folder. */
async function withFiles(example: Example, check: (placed: Example) => Promise<void>): Promise<void> {
  const files = Object.entries(example.files ?? {})
  if (files.length === 0) return check(example)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-example-'))
  try {
    await Promise.all(files.map(([name, text]) => writeFile(join(folder, name), text)))
    const yaml = files.reduce((text, [name]) => text.replaceAll(`./${name}`, join(folder, name)), example.yaml)
    await check({ ...example, yaml })
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Takes one batch in each turn of the event loop. Until the next turn, there is no room for another batch. */
function collect(into: EventBatch[]): Writable {
  return new Writable({
    objectMode: true,
    highWaterMark: 1,
    write(batch: EventBatch, _encoding, done) {
      into.push(batch)
      setImmediate(done)
    },
  })
}

/**
 * Sends batches through a stage. `main`: the batches from its main output. `aside`: the batches from `outputs`, by
 * name.
 */
async function through(stage: Stage, batches: readonly EventBatch[], outputs: Iterable<string> = []) {
  const main: EventBatch[] = []
  const aside = new Map(Array.from(outputs, name => [name, [] as EventBatch[]]))
  const reading = Array.from(aside, ([name, left]) => {
    const side = stage.outputs.get(name)
    if (!side) throw new Error(`it has no output ${name}`)
    side.connected = true
    return pipeline(side, collect(left))
  })
  await Promise.all([pipeline(Readable.from(batches), stage, collect(main)), ...reading])
  return { main, aside }
}

async function givesItsOutput(definition: Processor, example: Example, found: Findings): Promise<void> {
  const { yaml, input, output = [], outputs = {} } = example
  if (!input) {
    found.ok(false, 'it has no input')
    return
  }
  const { stage, wanted } = await loadedStageOf(definition, optionsOf(yaml))
  const { main, aside } = await through(stage, [batchOf(input, { wanted })], Object.keys(outputs))
  found.same(main.flatMap(linesOf), output, 'events of its main output')
  for (const [name, lines] of Object.entries(outputs)) found.same(aside.get(name)!.flatMap(linesOf), lines, name)
}

async function keepsAll(definition: Processor, { yaml }: Example, found: Findings): Promise<void> {
  const { stage, counters, wanted } = await loadedStageOf(definition, optionsOf(yaml))
  const settled: AckStatus[] = []
  const onSettled = (status: AckStatus) => settled.push(status)
  const short = LINES.filter(({ length }) => length < 1000)
  const many = Array.from({ length: MANY }, (_, i) => short[i % short.length]!)
  const batches = [
    batchOf([], { wanted, onSettled }),
    ...LINES.map(line => batchOf([line], { wanted, onSettled })),
    batchOf(many, { wanted, onSettled }),
    batchOf(['{"n":1}'], { wanted, onSettled, decode: 'text', unterminated: true }),
  ]
  for (const batch of batches) counters.arrived(batch.length, batch.bytes)
  const { main, aside } = await through(stage, batches, stage.outputs.keys())
  const left = [main, ...aside.values()].flat()
  const events = left.reduce((sum, { length }) => sum + length, 0)
  const { consumedEvents, emittedEvents, received } = counters
  found.same(events, received.events - consumedEvents.events + emittedEvents.events, 'events that left it')
  found.same(counters.imbalance(), { events: 0, bytes: 0 }, 'events and bytes that are not accounted for')
  found.same(settled.length, 1, 'acknowledgements before delivery: one, for the empty batch')
  for (const batch of left) batch.ack.settle('delivered')
  const delivered = batches.map(() => 'delivered')
  found.same(settled, delivered, 'acknowledgements of the batches after delivery')
}

async function keepsToPlan(definition: Processor, { yaml }: Example, found: Findings): Promise<void> {
  const options = definition.options.parse(optionsOf(yaml)) as never
  const plan = definition.plan?.(options) ?? {}
  for (const reason of plan.reasons ?? [])
    found.ok(Boolean(definition.reasons?.[reason]), `the definition does not explain the reason ${reason}`)
  const { stage } = await loadedStageOf(definition, optionsOf(yaml))
  found.same([...stage.outputs.keys()], outputNames(plan, 'pass'), 'its outputs')
  stage.destroy()
}

async function stops(definition: Processor, { yaml }: Example, found: Findings): Promise<void> {
  const { stage } = await loadedStageOf(definition, optionsOf(yaml))
  const over = AbortSignal.abort()
  await stage.stop(over)
  await stage.stop(over)
  const running = await loadedStageOf(definition, optionsOf(yaml))
  await running.stage.start(new AbortController().signal)
  const settled: AckStatus[] = []
  const onSettled = (status: AckStatus) => void settled.push(status)
  for (let n = 0; n < 10; n++) running.stage.write(batchOf(LINES, { wanted: running.wanted, onSettled }))
  running.stage.destroy()
  await running.stage.stop(over)
  await settle()
  found.ok(!settled.includes('rejected'), 'events were rejected')
}

async function handsOver(definition: Processor, { yaml }: Example, found: Findings): Promise<void> {
  const options = optionsOf(yaml)
  const { keeps = false } = definition.plan?.(definition.options.parse(options) as never) ?? {}
  const run = async (lines: readonly string[], isReplaced = false, inherited?: unknown) => {
    const { stage, processor, wanted } = await loadedStageOf(definition, options, { inherited })
    stage.isReplaced = isReplaced
    const { main } = await through(stage, [batchOf(lines, { wanted })])
    const state = processor.handOver?.()
    await stage.stop(AbortSignal.timeout(1000))
    return { lines: main.flatMap(linesOf), state: state?.value }
  }
  const lines = Array.from({ length: 300 }, (_, i) => LINES[i % LINES.length]!)
  const first = await run(lines.slice(0, 100), keeps)
  const second = await run(lines.slice(100), false, first.state)
  found.same([...first.lines, ...second.lines], (await run(lines)).lines, 'events of both together')
}
