import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { components } from '../../../../src/components/list.js'
import type { AnyDefinition } from '../../../../src/core/component.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { textOptions } from '../../../../src/core/options/reach.js'
import { checkDestination, type DestinationOutput } from '../../../../src/engine/testing/check-destination.js'
import { clientOptions } from '../../../../src/net/http/client/options.js'
import { batchOf } from '../../../support/batches.js'
import { deliver, json, make, receiver } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { heldBytes } from '../../../support/heap.js'
import { type Answer as KafkaAnswer, kafkaBroker, type Part } from '../../../support/kafka-broker.js'
import { longTest } from '../../../support/long-test.js'
import type { Answer, Received, Receiver } from '../../../support/receiver.js'
import { until } from '../../../support/until.js'

/** What holds for every destination of the list, with the options of each of its examples, here instead of where they lead. */

const destinations = components.filter(
  (definition): definition is AnyDefinition<'destination'> => definition.kind === 'destination',
)

interface Place {
  readonly folder: string
  /** The address of a stand-in for Kafka, which answers as `to` would. */
  readonly broker: string
  readonly to: Receiver
  readonly stdout: Writable
  /** The events that arrived, by number. */
  arrived(): number[]
}

async function place(t: Test): Promise<Place> {
  const folder = testFolder(t)
  const to = await receiver(t)
  to.otherwise = taken
  const broker = await kafkaBroker(t)
  broker.otherwise = parts => {
    broker.requests.length = 0
    broker.log.clear()
    return answerOf(to, parts)
  }
  let text = ''
  const stdout = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  writeFileSync(join(folder, 'key'), 'a-key')
  process.env.CREDENTIALS_DIRECTORY = folder
  t.teardown(() => delete process.env.CREDENTIALS_DIRECTORY)
  writeFileSync(join(folder, 'out'), '')
  const accepted = () => to.requests.filter(({ status = 0 }) => status >= 200 && status < 300).map(({ body }) => body)
  const arrived = () => {
    const all = [readFileSync(join(folder, 'out'), 'utf8'), text, ...accepted()].join('')
    return Array.from(all.matchAll(/event-(\d+)\./g), ([, number]) => Number(number))
  }
  return { folder, broker: broker.address, to, stdout, arrived }
}

/** How a receiver says that it has taken all events of a request. */
function taken({ path, body }: Received): Answer {
  if (path.includes('/loki/')) return { status: 204 }
  if (!path.includes('/_bulk?')) return { status: 200, headers: { etag: '"tag"' } }
  const items = Array.from({ length: body.split('\n').length >> 1 }, () => ({ create: { status: 201 } }))
  return { status: 200, body: JSON.stringify({ errors: false, items }) }
}

/** What Kafka answers where the receiver would answer a request with these messages. */
function answerOf(to: Receiver, parts: readonly Part[]): KafkaAnswer {
  const body = parts.flatMap(({ messages }) => messages.map(({ value }) => `${value}\n`)).join('')
  const received = { path: '', headers: {}, body, status: undefined } as unknown as Received
  to.requests.push(received)
  const next = to.script.shift() ?? to.otherwise
  const step = typeof next === 'function' ? next(received) : next
  const answer = typeof step === 'number' ? { status: step } : step
  if (answer.reset ?? answer.hang) return { instead: answer.reset ? 'cut' : 'hang' }
  received.status = answer.status ?? 200
  if (received.status < 300) return {}
  return { code: () => (received.status === 422 ? 87 : 19) }
}

/** The options of an example, with what they name replaced by what is here. */
function local({ type, options, writes }: AnyDefinition<'destination'>, yaml: string, { folder, broker, to }: Place) {
  const { tls: _, ...own } = (parse(yaml) ?? {}) as Record<string, unknown>
  if (type === 'kafka') Object.assign(own, { brokers: [broker], auth: {} })
  // Protobuf is not text.
  if (type === 'loki') own.compression = 'gzip'
  // Without it, it is a server that the program knows.
  if ('endpoint' in options.shape)
    Object.assign(own, { endpoint: to.url('/'), auth: { access_key_id: 'key', secret_access_key: 'key' } })
  const here = {
    urls: to.url('/'),
    files: join(folder, 'key'),
    credentials: 'key',
    listen: undefined,
    code: undefined,
    host: undefined,
    secret: 'key',
  }
  for (const { path, reaches } of textOptions(options)) {
    const name = path.at(-1)!
    const at = path.slice(0, -1).reduce<unknown>((value, step) => (value as Record<string, unknown>)?.[step], own)
    const holder = at as Record<string, unknown> | undefined
    if (typeof holder?.[name] !== 'string' || reaches === undefined || reaches === 'nothing') continue
    holder[name] = path.join('.') === writes ? join(folder, 'out') : here[reaches]
  }
  return own
}

/** Each runs for every example of every destination. */
type Run = (t: Test, definition: AnyDefinition<'destination'>, yaml: string) => unknown

function conforms(title: string, run: Run, test: typeof longTest = (name, run) => void t.test(name, run)) {
  for (const definition of destinations)
    test(`${definition.type}: ${title}`, async t => {
      for (const example of definition.examples)
        await t.test(example.title, async t => void (await run(t, definition, example.yaml)))
    })
}

const line = (number: number, more = '') => `{"message":"event-${number}.","more":"${more}"}`
const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

/** A delivery to the destination of an example, and batches of events that are numbered one after the other. */
async function delivering(t: Test, definition: AnyDefinition<'destination'>, yaml: string, more: object = {}) {
  const at = await place(t)
  const own = local(definition, yaml, at)
  const made = await make(own, definition, at.stdout, undefined, at.folder)
  const batch = { max_wait: '5ms', ...more }
  const { delivery, end } = deliver(at.folder, made, { max_in_flight: 1, batch })
  // Whether anything arrives anywhere.
  const { explain } = await definition.explains!()
  const { bytes } = explain!(
    definition.options.parse(own) as never,
    made.context,
  )(batchOf([line(0)], { wanted: json.wanted }))
  /** What became of each batch, as often as it is said. */
  const settled: AckStatus[][] = []
  let count = 0
  const put = (events: number, more = '', unterminated = false) => {
    const said: AckStatus[] = []
    settled.push(said)
    const lines = numbers(count, (count += events)).map(n => line(n, more))
    const onSettled = (status: AckStatus) => void said.push(status)
    const batch = batchOf(lines, { wanted: json.wanted, onSettled, unterminated, path: '/var/log/app.log' })
    if (!delivery.write(batch)) return new Promise<void>(resolve => delivery.once('drain', resolve))
  }
  t.teardown(() => delivery.stop(AbortSignal.abort()))
  return { ...at, delivery, end, put, settled, keeps: bytes!.length > 0 }
}

conforms('every event arrives once and in order, and is acknowledged once', async (t, definition, yaml) => {
  const { delivery, put, end, arrived, settled, keeps } = await delivering(t, definition, yaml)
  await delivery.start()
  for (const events of [1, 0, 3, 5000, 1, 0]) await put(events)
  await put(1, 'x'.repeat(1_500_000))
  await put(2)
  await put(1, '', true)
  t.same(await end(), { events: 0, bytes: 0 })
  t.same(arrived(), keeps ? numbers(0, 5009) : [])
  t.same(
    settled,
    settled.map(() => ['delivered']),
  )
})

conforms('it keeps to the contract, as plugins are held to it', async (t, definition, yaml) => {
  const open = async (): Promise<DestinationOutput> => {
    const at = await place(t)
    const options = local(definition, yaml, at)
    const { destination, context } = await make(options, definition, at.stdout, undefined, at.folder)
    const { explain } = await definition.explains!()
    const bytes = explain!(
      definition.options.parse(options) as never,
      context,
    )(batchOf([line(0)], { wanted: json.wanted })).bytes!
    await destination.stop?.(AbortSignal.abort())
    const fail = (attempts: number) => {
      if (attempts === Number.POSITIVE_INFINITY) at.to.otherwise = { status: 503 }
      else at.to.script.push(...Array.from({ length: attempts }, () => 503))
    }
    const arrived = () =>
      at
        .arrived()
        .map(number => `event-${number}\n`)
        .join('')
    return { options, stdout: at.stdout, fail, ...(bytes.length > 0 && { arrived }) }
  }
  t.same(await checkDestination(definition, open), [])
})

conforms('an end in the middle gives back what is not delivered', async (t, definition, yaml) => {
  const { delivery, put, to, arrived, settled, keeps } = await delivering(t, definition, yaml)
  await delivery.start()
  to.otherwise = { hang: 'after_body' }
  for (let batch = 0; batch < 5; batch++) void put(10)
  const reached = to.requests.length
  await until(() => to.requests.length > reached || settled.flat().length === 5)
  const left = await delivery.stop(AbortSignal.abort())
  t.ok(settled.every(({ length }) => length === 1))
  const delivered = settled.flat().filter(status => status === 'delivered').length
  t.equal(left.events, 50 - 10 * delivered)
  t.ok(!settled.flat().includes('rejected'))
  // What is in a spool is sent by the next run.
  if (keeps && !definition.spools) t.same(arrived().slice(0, 10 * delivered), numbers(0, 10 * delivered))
})

conforms('a retry sends the same, and one refusal costs no other event', async (t, definition, yaml) => {
  // A request is an object there, which is never refused for good.
  if (definition.spools) return
  const { delivery, put, end, to, arrived, settled } = await delivering(t, definition, yaml, { max_events: 10 })
  await delivery.start()
  const from = to.requests.length
  to.script.push(taken, 503, { reset: 'after_body' }, taken, 422, taken)
  for (let request = 0; request < 4; request++) await put(10)
  await end()
  const sent = to.requests.slice(from)
  if (sent.length === 0) {
    t.same(settled, [['delivered'], ['delivered'], ['delivered'], ['delivered']])
    return
  }
  t.equal(new Set(sent.slice(1, 4).map(({ body }) => body)).size, 1, 'three attempts at one request')
  t.equal(new Set(sent.slice(1, 4).map(({ headers }) => headers['idempotency-key'])).size, 1)
  t.same(settled, [['delivered'], ['delivered'], ['rejected'], ['delivered']])
  t.same(arrived(), [...numbers(0, 20), ...numbers(30, 40)])
})

/** What a receiver expects in `Authorization`. */
const CARRIED: Record<string, (key: string) => string> = {
  token: key => `Token ${key}`,
  bearer: key => `Bearer ${key}`,
  api_key: key => `ApiKey ${key}`,
  basic: key => `Basic ${Buffer.from(`sluice:${key}`).toString('base64')}`,
}

for (const definition of destinations.filter(({ options }) => options.shape.auth === clientOptions.auth))
  t.test(`${definition.type}: a key that is replaced while it runs costs no event`, async t => {
    for (const [type, carried] of Object.entries(CARRIED))
      await t.test(type, async t => {
        const at = await place(t)
        const file = join(at.folder, 'key')
        const auth = type === 'basic' ? { type, username: 'sluice', password_file: file } : { type, key_file: file }
        const made = await make({ ...local(definition, definition.examples[0].yaml, at), auth }, definition)
        const { delivery, end } = deliver(at.folder, made, { max_in_flight: 1, batch: { max_wait: '5ms' } })
        t.teardown(() => delivery.stop(AbortSignal.abort()))
        const settled: AckStatus[] = []
        const put = (number: number) =>
          delivery.write(batchOf([line(number)], { wanted: json.wanted, onSettled: status => settled.push(status) }))
        at.to.authorization = carried('a-key')
        await delivery.start()
        put(0)
        await until(() => settled.length === 1)
        at.to.authorization = carried('other-f7c31')
        put(1)
        await until(() => delivery.state === 'holding')
        put(2)
        writeFileSync(file, 'other-f7c31\n')
        await until(() => settled.length === 3)
        t.same(await end(), { events: 0, bytes: 0 })
        t.same(settled, ['delivered', 'delivered', 'delivered'])
        t.same(at.arrived(), [0, 1, 2])
        t.notMatch(JSON.stringify(made.logs), /f7c31|c2x1aWNlO/)
      })
  })

conforms(
  'its memory stays flat',
  async (t, definition, yaml) => {
    const { delivery, put, end, to, settled } = await delivering(t, definition, yaml)
    await delivery.start()
    const send = async (batches: number) => {
      for (let batch = 0; batch < batches; batch++) {
        await put(500)
        to.requests.length = 0
      }
      await until(() => settled.every(({ length }) => length === 1))
      to.requests.length = 0
      return heldBytes()
    }
    const before = await send(20)
    const grown = (await send(60)) - before
    t.ok(grown < 4 * 1024 * 1024, `${Math.round(grown / 1024)} KiB more after 30,000 events`)
    await end()
  },
  longTest,
)
