import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { components } from '../src/components/list.js'
import type { Codec, CodecDefinition } from '../src/core/codec.js'
import { encodeLines } from '../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../src/core/codecs/json.js'
import { codecs, createCodec } from '../src/core/codecs/list.js'
import type { AnyDefinition } from '../src/core/component.js'
import { Ack } from '../src/core/event/ack.js'
import { EventBatch } from '../src/core/event/batch.js'
import { parseFieldPath } from '../src/core/event/field-path.js'
import { FieldReader } from '../src/core/event/field-reader.js'
import { ManualTime } from '../src/engine/testing/manual-time.js'
import { loadedStageOf } from '../src/engine/testing/stage.js'
import { WantedNames } from '../src/lib/formats/json-scan.js'
import { FramedSplitter, type Framing } from '../src/lib/lines/framed-splitter.js'
import { type Frame, LineSplitter } from '../src/lib/lines/line-splitter.js'
import { programOptions } from '../test/support/program-options.js'
import { CODEC_LINES, LINES, type ProcessorWork, processorWork } from './processors-work.js'
import { workFolder } from './work.js'

/**
 * Lines/s of each processor and codec on one core, beside `JSON.parse` and `JSON.stringify` of the same lines. 1,000
 * lines are scanned, go through the processor in its stage, and what comes out is written as JSON lines. A codec is
 * measured alone: `decode` from its lines, in which two fields are looked for, to JSON lines, `encode` from JSON lines
 * to its own. The pair begins with strings and ends with strings; lines that are no JSON are compared with the pair over
 * the events that they become. Each alternates with its pair, and of both the least CPU time counts.
 */

export interface ProcessorRow {
  readonly id: string
  /** A second of CPU time. */
  readonly lines_per_second: number
  /** Of the pair. */
  readonly pair_per_second: number
  /** How many times as fast as the pair. */
  readonly ratio: number
}

interface Bench {
  readonly id: string
  /** Does it with all lines, `times` times. */
  run(times: number): void | Promise<void>
  /** The same lines as JSON. */
  readonly json: readonly string[]
}

/** Longer than any interval in the options. */
const STEP_MS = 10_000

function frameOf(lines: readonly string[]): Frame {
  return new LineSplitter(1 << 20).push(Buffer.from(lines.map(line => `${line}\n`).join('')))!
}

function batchOf({ chunk, length, bytes, ...columns }: Frame, codec: Codec, wanted: WantedNames): EventBatch {
  const [starts, ends, flags] = [columns.starts.slice(), columns.ends.slice(), columns.flags.slice()]
  const origin = { source: 'bench', host: 'bench', codec, wanted }
  return new EventBatch({ chunk, length, bytes, starts, ends, flags }, origin, Date.UTC(2026, 0, 1), new Ack(() => {}))
}

/** The events of `lines` as lines of JSON. */
function jsonOf(lines: readonly string[], codec: Codec): string[] {
  const batch = batchOf(frameOf(lines), codec, new WantedNames())
  return Array.from({ length: batch.length }, (_, i) => JSON.stringify(batch.fields(i)))
}

async function processorBench(work: ProcessorWork): Promise<Bench> {
  const { id, type, options, lines, codec = 'json', as = codec } = work
  const definition = components.find(one => one.kind === 'processor' && one.type === type)
  const clock = new ManualTime()
  const { stage, wanted } = await loadedStageOf(definition as AnyDefinition<'processor'>, options, { clock })
  for (const output of [stage, ...stage.outputs.values()])
    output.on('data', (batch: EventBatch) => {
      encodeLines(JSON_OBJECTS, [batch])
      batch.ack.settle('delivered')
    })
  await stage.start(new AbortController().signal)
  const frame = frameOf(lines)
  const decoder = createCodec(codec, {})
  const run = async (times: number) => {
    for (let n = 0; n < times; n++) await new Promise(resolve => stage.write(batchOf(frame, decoder, wanted), resolve))
    await clock.advance(STEP_MS)
  }
  return { id, run, json: jsonOf(lines, createCodec(as, {})) }
}

function codecBenches(definition: CodecDefinition): Bench[] {
  const { name, examples } = definition
  const [example] = examples
  const { lines, options = {} } = CODEC_LINES[name] ?? {
    lines: new Array<string>(LINES).fill(example.line),
    options: parse(example.yaml) ?? {},
  }
  const codec = createCodec(name, options)
  const json = jsonOf(lines, codec)
  const bench = (id: string, from: Codec, to: Codec, frame: Frame): Bench => {
    const wanted = new WantedNames()
    for (const path of ['.level', '.message']) new FieldReader(parseFieldPath(path), wanted)
    const once = () => encodeLines(to, [batchOf(frame, from, wanted)])
    const run = (times: number) => {
      for (let n = 0; n < times; n++) once()
    }
    return { id, run, json }
  }
  const decode = codec.framing
    ? { id: `decode ${name}`, run: decodesRecords(codec, codec.framing, json), json }
    : bench(`decode ${name}`, codec, JSON_OBJECTS, frameOf(lines))
  if (!codec.encode) return [decode]
  return [decode, bench(`encode ${name}`, JSON_OBJECTS, codec, frameOf(json))]
}

/** From records to JSON lines. */
function decodesRecords(codec: Codec, framing: Framing, json: readonly string[]): (times: number) => void {
  const wanted = new WantedNames()
  for (const path of ['.level', '.message']) new FieldReader(parseFieldPath(path), wanted)
  const { parts } = encodeLines(codec, [batchOf(frameOf(json), JSON_OBJECTS, wanted)])
  const records = Buffer.concat(parts)
  const splitter = new FramedSplitter(framing, 1 << 20)
  return times => {
    for (let n = 0; n < times; n++) {
      const frame = splitter.push(records)!
      encodeLines(JSON_OBJECTS, [batchOf(frame, codec, wanted)])
      frame.release?.()
    }
  }
}

function pair(json: readonly string[], times: number): void {
  for (let n = 0; n < times; n++) for (const line of json) JSON.stringify(JSON.parse(line))
}

/** Milliseconds of CPU time, of all threads. */
function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

async function measured({ id, run, json }: Bench, rounds: number, atOnce: number): Promise<ProcessorRow> {
  let [least, leastOfPair] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  // The first half warms up: what the compiler makes of it later is faster.
  for (let round = 0; round < 2 * rounds; round++) {
    const began = cpuTime()
    await run(atOnce)
    const between = cpuTime()
    pair(json, atOnce)
    least = Math.min(least, between - began)
    leastOfPair = Math.min(leastOfPair, cpuTime() - between)
  }
  const perSecond = (ms: number) => Math.round((LINES * atOnce * 1000) / ms)
  return {
    id,
    lines_per_second: perSecond(least),
    pair_per_second: perSecond(leastOfPair),
    ratio: Number((leastOfPair / least).toFixed(2)),
  }
}

const { rounds, batches, folder, only } = programOptions({
  ...{ rounds: 50, folder: '.' },
  /** Batches that are timed together, so that the end of a turn does not matter. */
  batches: 8,
  /** A regular expression: only the rows whose name it matches. */
  only: '',
}).options

function tableIn(folder: string): string {
  const rows = Array.from({ length: 1000 }, (_, i) => `app-${String(i).padStart(4, '0')},team-${i % 20}\n`)
  const table = join(folder, 'owners.csv')
  writeFileSync(table, `app,team\n${rows.join('')}`)
  return table
}

const rows: ProcessorRow[] = []
const isWanted = ({ id }: { readonly id: string }) => new RegExp(only).test(id)
for (const work of processorWork(tableIn(workFolder(folder, 'processors'))))
  if (isWanted(work)) rows.push(await measured(await processorBench(work), rounds, batches))
for (const definition of codecs)
  for (const bench of codecBenches(definition)) if (isWanted(bench)) rows.push(await measured(bench, rounds, batches))
process.stdout.write(JSON.stringify(rows))
