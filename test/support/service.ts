import { randomBytes } from 'node:crypto'
import { type Logger, pino } from 'pino'
import { Client } from '../../src/client.js'
import { components } from '../../src/components/list.js'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { type Clock, systemClock } from '../../src/lib/time.js'
import { ConnectionLimits } from '../../src/net/limits.js'
import type { ServiceLimits } from '../../src/service/api/domain/context.js'
import { Service } from '../../src/service/api/domain/service.js'
import { type AppOptions, buildApp } from '../../src/service/api/http/app.js'
import { openState } from '../../src/service/api/store/state.js'
import { recorded, testStore } from './postgres.js'

export interface Sending {
  readonly key?: string | undefined
  readonly json?: unknown
  readonly body?: string | Uint8Array
  readonly headers?: Record<string, string>
}

export interface Got {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body, parsed; undefined: none. */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it asked for
  readonly body: any
}

export interface TestService {
  readonly url: string
  readonly service: Service
  readonly made: InitResult
  /** Everything that was logged. */
  readonly logged: () => string
  send(method: string, path: string, sending?: Sending): Promise<Got>
  client(key: string): Client
  close(): Promise<void>
}

export interface TestServiceOptions
  extends Partial<
    Pick<
      AppOptions,
      | 'ingest'
      | 'maxBody'
      | 'trustedProxies'
      | 'counts'
      | 'requestLog'
      | 'tls'
      | 'connections'
      | 'headersMs'
      | 'requestMs'
      | 'keepAliveMs'
    >
  > {
  readonly limits?: Partial<ServiceLimits>
  readonly clock?: Clock
}

/** The service over a store in `folder`, initialized, on a free port. */
export async function startService(folder: string, options: TestServiceOptions = {}): Promise<TestService> {
  const { limits, clock = systemClock, ...app } = options
  let text = ''
  const log: Logger = pino({ level: 'debug' }, { write: line => void (text += line) })
  const state = await openState(folder, randomBytes, { log, store: await testStore(folder) })
  const service = await Service.open({
    store: recorded(state.store),
    secret: state.secret,
    clock,
    random: randomBytes,
    log,
    components,
    limits: { requestsPerKey: { limit: 1e6, windowMs: 1000 }, failedTries: { limit: 1e6, windowMs: 1000 }, ...limits },
  })
  const made = await service.init()
  const server = await buildApp({
    service,
    log,
    maxBody: 200_000,
    trustedProxies: [],
    connections: new ConnectionLimits({ max: 1000, closesUsed: true }, { closed() {}, refused() {} }),
    headersMs: 5000,
    requestMs: 10_000,
    keepAliveMs: 5000,
    ...app,
  })
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  return {
    url,
    service,
    made,
    logged: () => text,
    send: (method, path, sending) => send(url, method, path, sending),
    client: key => new Client({ url, key, retries: 0 }),
    async close() {
      await server.close()
      await service.close()
      await state.close()
    },
  }
}

/** One request, whatever it is. */
export async function send(url: string, method: string, path: string, sending: Sending = {}): Promise<Got> {
  const { key, json, headers = {} } = sending
  const body = json === undefined ? sending.body : JSON.stringify(json)
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Token ${key}` }),
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
    redirect: 'manual',
  })
  const text = await response.text()
  const isJson = /^application\/json/.test(response.headers.get('content-type') ?? '')
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson && text ? JSON.parse(text) : undefined,
  }
}

/** A configuration that a pipeline may have, with a throttle or without. */
export function pipelineConfig(throttle = false): Record<string, unknown> {
  return {
    ...(throttle
      ? { processors: { limit: { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1 Seconds' } } }
      : {}),
    destinations: { out: { type: 'blackhole', inputs: [throttle ? 'limit' : 'ingest'] } },
  }
}
