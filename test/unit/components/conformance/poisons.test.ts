import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { inspect, isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { components } from '../../../../src/components/list.js'
import { filter } from '../../../../src/components/processors/filter.js'
import { encodeAlone, encodeLines } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf, codecs } from '../../../../src/core/codecs/list.js'
import type { AnyDefinition, Destination } from '../../../../src/core/component.js'
import { FUNCTIONS } from '../../../../src/core/condition/functions.js'
import { OPERATORS } from '../../../../src/core/condition/operators.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { EventEditor } from '../../../../src/core/event/event-editor.js'
import type { FieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import type { Example } from '../../../../src/core/explain.js'
import { silentLog } from '../../../../src/core/silent-log.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { optionsOf } from '../../../../src/engine/testing/findings.js'
import { ManualTime } from '../../../../src/engine/testing/manual-time.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { clientOptions } from '../../../../src/net/http/client/options.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { cpuTime } from '../../../support/cpu-time.js'
import { testFolder } from '../../../support/folder.js'
import { edges, type Poison, poisons, TEXTS } from '../../../support/poisons.js'
import { loadedStageOf } from '../../../support/stage.js'

/**
 * What holds for every codec, processor, condition and destination, with the options of each example: the time for an
 * event grows with its size, and an event takes nothing from those beside it. Each gets all events once, and is timed
 * with every 16th of them; with all of them, and with larger ones, if SLUICE_POISONS=1.
 */

const isWhole = process.env.SLUICE_POISONS === '1'
const LARGE = (isWhole ? 256 : 64) * 1024
/** The small event is given as often as its size fits into the large one, so that both make the same garbage. */
const SAME = 4
const SMALL = LARGE / SAME
/** Times below are not compared. */
const FLOOR_MS = LARGE / 4096
const MOST_GROWTH = 6
const ATTEMPTS = 4
const SHARE = isWhole ? 1 : 16
let turn = 0

const NEAR = '{"message":"near","app":"near"}'
const MESSAGE = '{"message":"m"}'

/** Checks the work on events with these fields. `work` also checks its result, if it is the first for this event. */
async function check(t: Test, names: readonly string[], work: (line: string, isFirst: boolean) => unknown) {
  turn++
  const all = poisons(names)
  const wrong: string[] = []
  // Only depth needs size: a recursion ends the stack.
  const first = all.map(([title, sized]) => sized(/deep/.test(title) ? LARGE / 2 : LARGE / 16))
  for (const line of [...edges(names), ...first]) {
    try {
      await work(line, true)
    } catch (error) {
      wrong.push(`${line.slice(0, 200)}: ${textOf(error)}`)
    }
  }
  t.same(wrong, [])
  const chosen = all.filter((_, i) => i % SHARE === turn % SHARE)
  await grows(t, chosen, work)
}

const textOf = (error: unknown) => String(error instanceof Error ? error.stack : error).slice(0, 1000)

/** A test of its own for each event would print more than it finds. */
function same(found: unknown, wanted: unknown): void {
  if (!isDeepStrictEqual(found, wanted)) throw new Error(`${inspect(found)} is not ${inspect(wanted)}`)
}

async function grows(t: Test, all: readonly Poison[], work: (line: string, isFirst: boolean) => unknown) {
  const slow: string[] = []
  for (const [title, sized] of all) {
    const [small, large] = [sized(SMALL), sized(LARGE)]
    try {
      await work(small, true)
      let [least, most] = [await cpuTime(1, () => work(large, false)), 0]
      for (let n = 0; least > Math.max(FLOOR_MS, MOST_GROWTH * most) && n < ATTEMPTS; n++) {
        const several = async () => {
          for (let n = 0; n < SAME; n++) await work(small, false)
        }
        most = Math.max(most, (await cpuTime(1, several)) / SAME)
        least = Math.min(least, await cpuTime(1, () => work(large, false)))
      }
      if (least > Math.max(FLOOR_MS, MOST_GROWTH * most)) slow.push(`${title}: ${most} ms, then ${least} ms`)
    } catch (error) {
      slow.push(`${title}: ${textOf(error)}`)
    }
  }
  t.same(slow, [])
}

for (const definition of codecs)
  for (const example of definition.examples) {
    const title = `${definition.name}, ${example.title}`
    const codec = codecOf(definition.name, optionsOf(example.yaml))!
    const names = [...new Set([...Object.keys(example.event), 'level', 'x'])]

    if (codec.encode)
      t.test(`encode ${title}`, async t => {
        const near = Buffer.concat(encodeAlone(codec, [batchOf([NEAR])]).parts)
        await check(t, names, (line, isFirst) => {
          const written = Buffer.concat(encodeAlone(codec, [batchOf([NEAR, line, NEAR])]).parts)
          if (!isFirst) return
          const ends = [written.subarray(0, near.length), written.subarray(-near.length)]
          same(ends, [near, near])
        })
      })

    t.test(`decode ${title}`, async t => {
      const { line } = example
      const jsonOf = (lines: string[]) => {
        const batch = batchOf(lines, { decode: codec })
        batch.scan()
        for (let i = 0; i < lines.length; i++) batch.fields(i)
        return Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts)
          .toString()
          .split('\n')
      }
      const [near] = jsonOf([line])
      const work = (poison: string, isFirst: boolean) => {
        const found = jsonOf([line, poison, line])
        if (!isFirst) return
        same([found.length, found[0], found[2]], [4, near, near])
        JSON.parse(found[1]!)
      }
      const written = (poison: string) => (codec.encode ? codec.encode(JSON.parse(poison)) : poison)
      await check(t, names, (poison, isFirst) => work(poison, isFirst))
      if (codec.encode && codec.form !== 'object')
        await check(t, names, (p, isFirst) => work(lineOf(p, written), isFirst))
      // Each of its values in turn becomes a long text.
      const texts = Object.values(example.event).filter(value => typeof value === 'string' && line.includes(value))
      for (const text of new Set(texts as string[]))
        await grows(
          t,
          Object.entries(TEXTS).map(([title, sized]) => [title, size => line.replace(text, () => sized(size))]),
          work,
        )
    })
  }

/** Encoding is not part of the time to decode. */
const encoded = new Map<string, string>()
function lineOf(poison: string, encode: (poison: string) => string): string {
  if (encoded.size > 8) encoded.clear()
  const known = encoded.get(poison) ?? encode(poison).replace(/[\r\n]/g, ' ')
  encoded.set(poison, known)
  return known
}

/** The options of an example, and what its files are in a folder. */
function placed({ yaml, files = {} }: Example, folder: string): object {
  mkdirSync(folder, { recursive: true })
  let options = yaml
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text)
    options = options.replaceAll(`./${name}`, join(folder, name))
  }
  return optionsOf(options)
}

async function checkProcessor(t: Test, definition: AnyDefinition<'processor'>, options: object) {
  const { wanted, stage: unused } = await loadedStageOf(definition, options)
  unused.destroy()
  const names = [...new Set([...wanted.names, 'x'])]
  const through = async (lines: readonly string[], isFirst: boolean) => {
    const { stage, counters, wanted } = await loadedStageOf(definition, options)
    const batch = batchOf(lines, { wanted })
    counters.arrived(batch.length, batch.bytes)
    const left: (typeof batch)[] = []
    const collect = () =>
      new Writable({
        objectMode: true,
        write(batch, _encoding, done) {
          left.push(batch)
          done()
        },
      })
    const sides = [...stage.outputs.values()]
    for (const side of sides) side.connected = true
    await Promise.all([
      pipeline(Readable.from([batch]), stage, collect()),
      ...sides.map(side => pipeline(side, collect())),
    ])
    if (!isFirst) return
    const { consumedEvents, emittedEvents, received } = counters
    const events = left.reduce((sum, { length }) => sum + length, 0)
    same(counters.imbalance(), { events: 0, bytes: 0 })
    same(events, received.events - consumedEvents.events + emittedEvents.events)
    for (const line of left.flatMap(linesOf)) JSON.parse(line)
  }
  // A script has a process of its own, which would have to start for each event.
  if (definition.type === 'script') {
    const lines = [...edges(names), ...poisons(names).map(([, sized]) => sized(SMALL / 4))]
    await through(
      lines.flatMap(line => [NEAR, line]),
      true,
    )
  } else await check(t, names, (line, isFirst) => through([NEAR, line, NEAR], isFirst))
  const { findings: findingsOf } = (await definition.explains?.()) ?? {}
  if (!findingsOf) return
  const context = {
    ...{ id: 'p', log: silentLog, clock: new ManualTime(), wanted: new WantedNames() },
    metrics: new ComponentCounters('p', 'processor', definition.type),
    field: (path: FieldPath) => new FieldReader(path, context.wanted),
    editor: () => new EventEditor(context.wanted),
  }
  const findings = await findingsOf(definition.options.parse(options) as never, context)
  await check(t, names, line => findings(batchOf([line], { wanted: context.wanted })))
}

for (const definition of components)
  if (definition.kind === 'processor')
    for (const [n, example] of definition.examples.entries())
      t.test(`${definition.type}, ${example.title}`, async t => {
        await checkProcessor(t, definition, placed(example, join(testFolder(t), String(n))))
      })

/** Schema of an option that has one of several values. */
interface Encodings {
  readonly options?: readonly (string | undefined)[]
}

/** The bytes of a request. Undefined if an event of it will be rejected. */
function sizeOf(destination: Destination, request: readonly EventBatch[]): number | undefined {
  try {
    return destination.encode!(request).size
  } catch (error) {
    if (!(error instanceof DeliveryError && error.failure === 'reject')) throw error
    return undefined
  }
}

const VALUES = { value: "'10.0.0.0/8'", list: "('a', 'b')", nothing: '' }
const OPERANDS = ['.v', '.v.a.b', ...Array.from(FUNCTIONS.keys(), name => `${name}(.v)`)]
for (const [n, [name, { takes }]] of [...OPERATORS].entries()) {
  const value = takes === 'value' && /^(greater|less)/.test(name) ? '10' : VALUES[takes]
  for (const operand of OPERANDS.filter((_, i) => i === n % OPERANDS.length))
    t.test(`condition ${operand} ${name}`, t =>
      checkProcessor(t, filter, { condition: `if (${operand} ${name} ${value})` }),
    )
}

for (const definition of components)
  if (definition.kind === 'destination')
    for (const example of definition.examples)
      t.test(`${definition.type}, ${example.title}`, async t => {
        // A key may be in a file that is not there.
        const { auth: _, tls: __, ...given } = optionsOf(example.yaml) as Record<string, unknown>
        const isHttp = definition.options.shape.auth === clientOptions.auth
        // Only these destinations have encodings of their own. The others use codecs.
        const { options: encodings = [undefined] } = (definition.options.shape.encoding?.def?.innerType ??
          {}) as Encodings
        for (const encoding of encodings) {
          const parsed = definition.options.parse(encoding === undefined ? given : { ...given, encoding })
          const wanted = new WantedNames()
          const context = {
            ...{ id: 'out', log: silentLog, clock: new ManualTime(), stdout: new PassThrough().resume() },
            metrics: new ComponentCounters('out', 'destination', definition.type),
            field: (path: FieldPath) => new FieldReader(path, wanted),
          }
          const explain = (await definition.explains!()).explain!(parsed as never, context)
          // A destination may reject an event.
          const explained = (batch: EventBatch) => {
            try {
              return explain(batch)
            } catch (error) {
              if (error instanceof DeliveryError) return error.reason
              throw error
            }
          }
          const made = isHttp ? await definition.create(parsed as never, context) : undefined
          const names = [...new Set([...wanted.names, 'message', 'x'])]
          const near = explained(batchOf([MESSAGE], { wanted }))
          await check(t, names, (line, isFirst) => {
            explained(batchOf([line], { wanted }))
            const request = [batchOf([MESSAGE, line, MESSAGE], { wanted })]
            const size = made && sizeOf(made, request)
            if (isFirst) same(explained(batchOf([MESSAGE], { wanted })), near)
            if (size === 0) throw new Error('nothing is sent')
          })
          await made?.stop?.(AbortSignal.abort())
        }
      })
