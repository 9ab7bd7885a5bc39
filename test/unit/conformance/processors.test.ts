import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { parse } from 'yaml'
import { components } from '../../../src/components.js'
import type { AnyDefinition } from '../../../src/core/component.js'
import type { AckStatus } from '../../../src/core/event/ack.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { outputNames } from '../../../src/core/processor.js'
import { batchOf, linesOf } from '../../support/batches.js'
import { heldBytes } from '../../support/heap.js'
import { settle } from '../../support/manual-time.js'
import { loadedStageOf } from '../../support/stage.js'

/** What holds for every processor of the list, with the options of each of its examples. */

const processors = components.filter(
  (definition): definition is AnyDefinition<'processor'> => definition.kind === 'processor',
)

/** Values that examples and users have in fields, and lines that are no objects. */
const LINES = [
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

function collect(into: EventBatch[]): Writable {
  return new Writable({
    objectMode: true,
    write(batch: EventBatch, _encoding, done) {
      into.push(batch)
      done()
    },
  })
}

for (const definition of processors) {
  t.test(`${definition.type}: its examples`, async t => {
    for (const { title, yaml, input, output = [], outputs = {} } of definition.examples) {
      if (!t.ok(input, `${title} has an input`)) continue
      const { stage, wanted } = await loadedStageOf(definition, parse(yaml) ?? {})
      const left: EventBatch[] = []
      const aside = new Map(Object.keys(outputs).map(name => [name, [] as EventBatch[]]))
      const reading = [...aside].map(([name, batches]) => {
        const side = stage.outputs.get(name)!
        side.connected = true
        return pipeline(side, collect(batches))
      })
      await Promise.all([pipeline(Readable.from([batchOf(input!, { wanted })]), stage, collect(left)), ...reading])
      t.same(left.flatMap(linesOf), output, title)
      for (const [name, lines] of Object.entries(outputs)) t.same(aside.get(name)!.flatMap(linesOf), lines, name)
    }
  })

  t.test(`${definition.type}: every event leaves once, in order, and is acknowledged once`, async t => {
    for (const { title, yaml } of definition.examples) {
      const { stage, counters, wanted } = await loadedStageOf(definition, parse(yaml) ?? {})
      const settled: AckStatus[] = []
      const onSettled = (status: AckStatus) => settled.push(status)
      const batches = [
        batchOf([], { wanted, onSettled }),
        ...LINES.map(line => batchOf([line], { wanted, onSettled })),
        batchOf(
          Array.from({ length: 20_000 }, (_, i) => LINES[i % LINES.length]!),
          { wanted, onSettled },
        ),
        batchOf(['{"n":1}'], { wanted, onSettled, decode: 'text', unterminated: true }),
      ]
      for (const batch of batches) counters.arrived(batch.length, batch.bytes)
      const left = new Map<string, EventBatch[]>([['', []]])
      const reading = [...stage.outputs].map(([name, output]) => {
        output.connected = true
        left.set(name, [])
        return pipeline(output, collect(left.get(name)!))
      })
      await Promise.all([pipeline(Readable.from(batches), stage, collect(left.get('')!)), ...reading])
      const sum = (all: readonly EventBatch[]) => all.reduce((events, { length }) => events + length, 0)
      const events = [...left.values()].map(sum).reduce((a, b) => a + b, 0)
      const { consumedEvents, emittedEvents, received } = counters
      t.equal(events, received.events - consumedEvents.events + emittedEvents.events, `${title}: none is lost`)
      t.same(counters.imbalance(), { events: 0, bytes: 0 }, `${title}: every event and byte is accounted for`)
      t.equal(settled.length, 1, `${title}: nothing but the empty batch is settled by the processor`)
      for (const batch of [...left.values()].flat()) batch.ack.settle('delivered')
      t.same(
        settled,
        batches.map(() => 'delivered'),
        `${title}: all of them are settled, each once`,
      )
    }
  })

  t.test(`${definition.type}: it does what its plan says`, async t => {
    for (const { yaml } of definition.examples) {
      const options = definition.options.parse(parse(yaml) ?? {})
      const plan = definition.plan?.(options) ?? {}
      t.ok(
        (plan.reasons ?? []).every(reason => definition.reasons?.[reason]),
        'the reference explains each reason',
      )
      const { stage } = await loadedStageOf(definition, parse(yaml) ?? {})
      t.same([...stage.outputs.keys()], outputNames(plan, 'pass'))
      stage.destroy()
    }
  })

  t.test(`${definition.type}: it may be stopped without a start, twice, and in the middle`, async t => {
    const [{ yaml }] = definition.examples
    const { stage, wanted } = await loadedStageOf(definition, parse(yaml) ?? {})
    const over = AbortSignal.abort()
    await stage.stop(over)
    await stage.stop(over)
    const running = await loadedStageOf(definition, parse(yaml) ?? {})
    await running.stage.start(new AbortController().signal)
    const settled: AckStatus[] = []
    for (let n = 0; n < 10; n++)
      running.stage.write(batchOf(LINES, { wanted: running.wanted, onSettled: status => settled.push(status) }))
    running.stage.destroy()
    await running.stage.stop(over)
    await settle()
    t.ok(settled.every(status => status !== 'rejected'))
    t.ok(wanted)
  })

  t.test(`${definition.type}: its successor at a reload decides as it would have`, async t => {
    for (const { title, yaml } of definition.examples) {
      const options = parse(yaml) ?? {}
      const through = async (lines: readonly string[], inherited?: unknown) => {
        const { stage, processor, wanted } = await loadedStageOf(definition, options, { inherited })
        const left: EventBatch[] = []
        await pipeline(Readable.from([batchOf(lines, { wanted })]), stage, collect(left))
        const state = processor.handOver?.()
        await stage.stop(AbortSignal.timeout(1000))
        return { lines: left.flatMap(linesOf), state: state?.value }
      }
      const lines = Array.from({ length: 300 }, (_, i) => LINES[i % LINES.length]!)
      const first = await through(lines.slice(0, 100))
      const second = await through(lines.slice(100), first.state)
      t.same([...first.lines, ...second.lines], (await through(lines)).lines, title)
    }
  })

  t.test(`${definition.type}: its memory stays flat`, async t => {
    const [{ yaml }] = definition.examples
    const { stage, wanted } = await loadedStageOf(definition, parse(yaml) ?? {})
    stage.on('data', (batch: EventBatch) => batch.ack.settle('delivered'))
    const short = LINES.filter(({ length }) => length < 1000)
    const lines = Array.from({ length: 1000 }, (_, i) => short[i % short.length]!)
    const send = async (batches: number) => {
      for (let n = 0; n < batches; n++)
        if (!stage.write(batchOf(lines, { wanted }))) await new Promise(resolve => stage.once('drain', resolve))
      await settle()
      return heldBytes()
    }
    const before = await send(20)
    const grown = (await send(1000)) - before
    t.ok(grown < 4 * 1024 * 1024, `${Math.round(grown / 1024)} KiB more after a million events`)
    stage.destroy()
  })
}
