import t from 'tap'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { findLinesInKernel } from '../../../../src/lib/kernel/find-lines.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import {
  batchOfEvents,
  Codec,
  type Destination,
  defineCodec,
  defineDestination,
  defineProcessor,
  defineSource,
  eventText,
  JSON_OBJECTS,
  NO_OPTIONS,
  type Output,
  z,
} from '../../../../src/plugin/contract/v1/plugin.js'
import { checkCodec, checkDestination, checkProcessor, checkSource } from '../../../../src/testing.js'
import { Taker } from '../../../support/taker.js'

/** What is wrong with a component is found. */

const about = { contract: 1, summary: 'Of a test.', options: z.strictObject({}) } as const

t.test('a processor that is not what its examples and its plan say', async t => {
  const wrong = defineProcessor({
    ...about,
    type: 'wrong',
    plan: () => ({ reasons: ['unexplained'] }),
    examples: [{ title: 'One', yaml: '', input: ['{"a":1}'], output: ['{"a":2}'] }],
    create: () => ({ process: () => {} }),
  })
  const found = await checkProcessor(wrong)
  t.equal(found.length, 2)
  t.match(found[0], /^wrong, One: its example: events of its main output, number 0 of 1: found '\{"a":1\}', expected /)
  t.match(found[1], /its outputs and reasons match its plan: the definition does not explain the reason unexplained$/)
})

t.test('a destination that loses events, and says that it did not', async t => {
  let text = ''
  const create = (): Destination => ({
    async write(request) {
      for (const batch of request) for (let i = 0; i < batch.length; i += 2) text += eventText('raw', batch, i)
    },
  })
  const losing = defineDestination({ ...about, type: 'losing', examples: [{ title: 'One', yaml: '' }], create })
  const open = () => {
    text = ''
    return { options: {}, arrived: () => text }
  }
  const found = await checkDestination(losing, open)
  t.match(found[0], /^losing: every event arrives once, in order.*: found 3, expected 2$/)
  t.ok(found.some(text => text.includes('events that were acknowledged and did not arrive')))
})

t.test('a source that does not wait for room', async t => {
  let written: string[] = []
  const rushing = defineSource({
    ...about,
    type: 'rushing',
    examples: [{ title: 'One', yaml: '' }],
    create: (_, context) => ({
      once: true as const,
      async run(out: Output, signal: AbortSignal) {
        const origin = context.origin(JSON_OBJECTS)
        while (!signal.aborted) {
          for (const message of written.splice(0))
            void out.send(
              batchOfEvents(
                [{ message }],
                origin,
                0,
                out.ack(() => {}),
              ),
            )
          await new Promise(resolve => setImmediate(resolve))
        }
      },
    }),
  })
  const open = () => {
    written = []
    return { options: {}, write: (lines: readonly string[]) => written.push(...lines) }
  }
  const found = await checkSource(rushing, open)
  t.ok(found.some(text => /^rushing: every line is sent once.*: batches sent at once: found \d+, /.test(text)))
  t.ok(found.some(text => /failures of the kind "undelivered"/.test(text)))
})

/** A server that keeps each line until it is acknowledged, and gives those again that are not. */
class Queue {
  readonly unread: string[] = []
  readonly pending = new Set<string>()

  next(): string | undefined {
    const line = this.unread.shift()
    if (line !== undefined) this.pending.add(line)
    return line
  }
}

t.test('a source whose server keeps what is not acknowledged: three that do it in their own way', async t => {
  const queueSource = (how: 'in the run' | 'by a next run' | 'without acknowledging') => {
    let queue = new Queue()
    const definition = defineSource({
      ...about,
      type: how.replaceAll(' ', '-'),
      examples: [{ title: 'One', yaml: '' }],
      create: (_, context) => ({
        redelivers: true as const,
        async run(out: Output, signal: AbortSignal) {
          const origin = context.origin(JSON_OBJECTS)
          queue.unread.unshift(...queue.pending)
          let failure: Error | undefined
          while (!signal.aborted && !failure) {
            const message = queue.next()
            if (message === undefined) {
              await new Promise(resolve => setTimeout(resolve, 1))
              continue
            }
            const ack = out.ack(status => {
              if (status === 'errored' && how === 'by a next run') failure = new Error('given back')
              else if (status === 'errored') queue.unread.push(message)
              else if (how !== 'without acknowledging') queue.pending.delete(message)
            })
            await out.send(batchOfEvents([{ message }], origin, 0, ack))
          }
          if (failure) throw failure
        },
      }),
    })
    const open = () => {
      queue = new Queue()
      return { options: {}, write: (lines: readonly string[]) => queue.unread.push(...lines) }
    }
    return checkSource(definition, open)
  }
  t.same(await queueSource('in the run'), [])
  t.same(await queueSource('by a next run'), [])
  const found = await queueSource('without acknowledging')
  t.match(found.at(-1), /^without-acknowledging: returned events are read again.*: lines after a restart/)
})

t.test('a destination may deliver before it can be seen, and may have no start and no stop', async t => {
  let text = ''
  const later = defineDestination({
    ...about,
    type: 'later',
    examples: [{ title: 'One', yaml: '' }],
    create: (): Destination => ({
      async write(request) {
        const all = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => eventText('raw', batch, i)))
        setTimeout(() => {
          text += all.join('')
        }, 100)
      },
    }),
  })
  const open = () => {
    text = ''
    return { options: {}, arrived: () => text }
  }
  t.same(await checkDestination(later, open), [])
})

t.test('a destination may write nothing between two events but the length of the next', async t => {
  let text = ''
  const counted = defineDestination({
    ...about,
    type: 'counted',
    examples: [{ title: 'One', yaml: '' }],
    create: (): Destination => ({
      async write(request) {
        const all = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i).message))
        for (const message of all) text += `${String(message).length} ${message}`
      },
    }),
  })
  const open = () => {
    text = ''
    return { options: {}, arrived: () => text }
  }
  t.same(await checkDestination(counted, open), [])
})

t.test('a codec whose scan and fields disagree', async t => {
  class Two extends Codec {
    scan(b: Buffer, start: number, end: number): boolean {
      return end > start && b[start] === 0x61
    }
    fields() {
      return { level: 'x' }
    }
  }
  const two = defineCodec({
    ...about,
    options: NO_OPTIONS,
    name: 'two',
    form: 'fields',
    expects: 'an a',
    undecodedHelp: 'Lines.',
    joinsLines: false,
    examples: [{ title: 'One', yaml: '', line: 'a', event: { level: 'x' } }],
    create: (): Codec => new Two(two),
  })
  const found = await checkCodec(two)
  t.match(found[0], /^two, One: its example: .*level of event 0/)
})

t.test('lines that were settled stay as they were when others come into their memory', async t => {
  const out = new Taker('delivered')
  const origin = { source: 'in', host: 'here', codec: TEXT_LINES, wanted: new WantedNames() }
  const sent = ['one', 'three'].map(text => Array<string>(300).fill(text))
  for (const lines of sent) {
    const splitter = new LineSplitter(1 << 20, false, findLinesInKernel)
    const length = splitter.reserve(CHUNK_BYTES).write(`${lines.join('\n')}\n`)
    const frame = splitter.commit(length)!
    splitter.release()
    await out.send(
      new EventBatch(
        frame,
        origin,
        0,
        out.ack(() => {}),
      ),
    )
  }
  t.same(out.lines, sent.flat())
})
