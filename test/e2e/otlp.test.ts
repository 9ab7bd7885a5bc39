import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { clientOf, post } from '../support/otlp-client.js'
import { comparableExport, EVERYTHING, exportMessage } from '../support/otlp-messages.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

/** Logs of OpenTelemetry through `sluice run`, sent as programs send them. */

const requestOf = (service: string, numbers: readonly number[], pad = '') =>
  exportMessage({
    resourceLogs: [
      {
        resource: { attributes: [{ key: 'service.name', value: { stringValue: service } }] },
        scopeLogs: [
          {
            logRecords: numbers.map(n => ({
              body: { stringValue: `line ${n}${pad}` },
              attributes: [{ key: 'n', value: { intValue: String(n) } }],
            })),
          },
        ],
      },
    ],
  })

/** Resolves when the source listens at both of its addresses. */
async function started(daemon: Promise<Daemon>): Promise<Daemon> {
  const running = await daemon
  const addresses = () => running.logs().filter(({ msg, tls }) => msg === 'listening' && tls !== undefined)
  await until(() => addresses().length === 2)
  return running
}

async function ports() {
  return { http: await ownPort(), grpc: await ownPort() }
}

const sourceOf = ({ http, grpc }: { http: number; grpc: number }) =>
  `in: { type: otlp, http: { listen: "${HOST}:${http}" }, grpc: { listen: "${HOST}:${grpc}" } }`

async function receiverOf(t: Test) {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const events = () =>
    receiver.requests
      .filter(({ status }) => status === 200)
      .flatMap(({ body }) =>
        body
          .split('\n')
          .filter(Boolean)
          .map(line => JSON.parse(line) as Record<string, unknown>),
      )
  return { receiver, events, numbers: () => new Set(events().map(({ n }) => n as number)) }
}

t.test('a throttle limits each service by the name in its resource', async t => {
  const at = await ports()
  const { receiver, events } = await receiverOf(t)
  const daemon = await started(
    startDaemon(
      t,
      testFolder(t),
      `
sources: { ${sourceOf(at)} }
processors:
  limit: { type: throttle, inputs: [in], limit: 3, window: 1 Hours, key_field: .resource.service.name }
destinations:
  out: { type: http, inputs: [limit], url: "${receiver.url()}", batch: { max_wait: 5ms } }
`,
    ),
  )
  const numbers = Array.from({ length: 10 }, (_, n) => n)
  const call = clientOf(t, at.grpc)
  t.equal((await call(requestOf('cart', numbers))).code, 0)
  t.equal((await post(at.http, requestOf('shop', numbers))).status, 200)
  t.equal((await post(at.http, requestOf('cart', numbers))).status, 200)
  t.same(
    events().map(({ resource, n, message }) => [(resource as { service: { name: string } }).service.name, n, message]),
    ['cart', 'shop'].flatMap(service => [0, 1, 2].map(n => [service, n, `line ${n}`])),
  )
  await daemon.stop(t)
})

t.test('three kills: what was acknowledged is delivered', async t => {
  const at = await ports()
  const { receiver, numbers } = await receiverOf(t)
  const folder = testFolder(t)
  const start = () =>
    started(
      startDaemon(
        t,
        folder,
        `
sources: { ${sourceOf(at)} }
destinations:
  out: { type: http, inputs: [in], url: "${receiver.url()}", batch: { max_wait: 5ms }, buffer: { type: disk, max_bytes: 64MiB } }
`,
      ),
    )
  let daemon = await start()
  const acknowledged = new Set<number>()
  let isOver = false
  let next = 0
  const client = async (send: (message: Buffer) => Promise<boolean>) => {
    while (!isOver) {
      const own = Array.from({ length: 20 }, () => next++)
      const isTaken = await send(requestOf('shop', own)).catch(() => false)
      if (isTaken) for (const n of own) acknowledged.add(n)
    }
  }
  const call = clientOf(t, at.grpc, { 'grpc.initial_reconnect_backoff_ms': 50, 'grpc.max_reconnect_backoff_ms': 50 })
  const clients = [
    client(async message => (await post(at.http, message)).status === 200),
    client(async message => (await call(message, { deadlineMs: 5000 })).code === 0),
  ]
  for (let kills = 0; kills < 3; kills++) {
    const before = acknowledged.size
    await until(() => acknowledged.size > before + 60)
    daemon.child.kill('SIGKILL')
    await daemon.exit
    daemon = await start()
  }
  const before = acknowledged.size
  await until(() => acknowledged.size > before + 60)
  isOver = true
  await Promise.all(clients)
  const missing = () => [...acknowledged].filter(n => !numbers().has(n))
  await until(() => numbers().size >= acknowledged.size && missing().length === 0)
  t.same(missing(), [])
  await daemon.stop(t)
})

t.test('a full buffer on disk: clients are told to come again, and nothing is lost', async t => {
  const at = await ports()
  const { receiver, numbers } = await receiverOf(t)
  receiver.otherwise = 503
  const daemon = await started(
    startDaemon(
      t,
      testFolder(t),
      `
sources: { ${sourceOf(at)} }
destinations:
  out:
    type: http
    inputs: [in]
    url: "${receiver.url()}"
    batch: { max_wait: 5ms }
    retry: { initial: 10ms, max: 50ms }
    buffer: { type: disk, max_bytes: 1MiB }
`,
    ),
  )
  const call = clientOf(t, at.grpc)
  const acknowledged: number[] = []
  const waiting: Promise<unknown>[] = []
  const said = new Set<string>()
  // Some requests wait for room. The others are refused.
  for (let n = 0; said.size < 2; n++) {
    const message = requestOf('shop', [n], 'x'.repeat(100_000))
    const sent =
      n % 2 === 0
        ? post(at.http, message).then(({ status, headers }) => {
            if (status === 429 && headers['retry-after'] !== undefined) said.add('429')
            return status === 200
          })
        : call(message).then(({ code, metadata }) => {
            if (code === 8 && metadata!.get('grpc-status-details-bin').length > 0) said.add('RESOURCE_EXHAUSTED')
            return code === 0
          })
    waiting.push(sent.then(isTaken => isTaken && acknowledged.push(n)))
    await Promise.race([sent, sleep(20)])
  }
  t.ok(acknowledged.length > 3, `${acknowledged.length} requests were acknowledged before`)
  receiver.otherwise = 200
  await Promise.all(waiting)
  await until(() => acknowledged.every(n => numbers().has(n)))
  t.equal((await post(at.http, requestOf('shop', [1e6]))).status, 200)
  await until(() => numbers().has(1e6))
  await daemon.stop(t)
})

type Json = { readonly [name: string]: unknown }

t.test('from OTLP to OTLP, in both formats, a record stays what it is', async t => {
  const [first, second] = [await ports(), await ports()]
  const { receiver } = await receiverOf(t)
  const listen = (name: string, port: number) => `${name}: { listen: "${HOST}:${port}" }`
  const daemon = await started(
    startDaemon(
      t,
      testFolder(t),
      `
sources:
  in: { type: otlp, ${listen('grpc', first.grpc)} }
  between: { type: otlp, ${listen('http', second.http)} }
destinations:
  one: { type: otlp, inputs: [in], url: "http://${HOST}:${second.http}", resource: .resource, batch: { max_wait: 5ms } }
  out: { type: otlp, inputs: [between], url: "${receiver.url('')}", resource: .resource, encoding: json, batch: { max_wait: 5ms } }
`,
    ),
  )
  t.equal((await clientOf(t, first.grpc)(exportMessage(EVERYTHING))).code, 0)
  const received = receiver.requests.filter(({ path }) => path === '/v1/logs')
  const [one, other] = (comparableExport(received.at(-1)!.body) as { resourceLogs: Json[] }).resourceLogs
  const [wanted] = (comparableExport(EVERYTHING) as { resourceLogs: Json[] }).resourceLogs
  const recordsOf = ({ scopeLogs }: Json) => (scopeLogs as { logRecords: Json[] }[])[0]!.logRecords
  const [full, late, empty] = recordsOf(one!)
  const [fullWanted, lateWanted] = recordsOf(wanted!)
  t.same(full, fullWanted)
  t.same(late, { ...lateWanted, timeUnixNano: lateWanted!.observedTimeUnixNano, attributes: [] })
  t.same(Object.keys(empty!).sort(), ['attributes', 'observedTimeUnixNano', 'timeUnixNano'])
  t.same(one!.resource, wanted!.resource)
  t.same((one!.scopeLogs as Json[])[0]!.scope, (wanted!.scopeLogs as Json[])[0]!.scope)
  t.match(recordsOf(other!), [{ body: { intValue: '7' } }])
  await daemon.stop(t)
})
