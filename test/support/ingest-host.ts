import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import type { Test } from 'tap'
import { z } from 'zod'
import { components as usual } from '../../src/components/list.js'
import { type AnyDefinition, defineDestination } from '../../src/core/component.js'
import { DeliveryError } from '../../src/core/errors.js'
import { LOCAL_DEFAULTS } from '../../src/core/options/delivery-options.js'
import { messageLog } from '../../src/daemon/process/log.js'
import type { Permissions } from '../../src/engine/config/published/managed-options.js'
import { Metrics } from '../../src/engine/run/measure/metrics.js'
import type { TimerClock } from '../../src/lib/time.js'
import { Refusal } from '../../src/net/http/server/refusal.js'
import { KEYS, openSqlite } from '../../src/service/api/store/sqlite.js'
import type { HostedRevision } from '../../src/service/ingest/hosted-revision.js'
import { IdempotencyKeys } from '../../src/service/ingest/idempotency-keys.js'
import { IngestHost } from '../../src/service/ingest/ingest-host.js'
import type { StartLink } from '../../src/service/ingest/process/account-process.js'
import { PipelineWorker, type WorkerOptions } from '../../src/service/ingest/worker/pipeline-worker.js'
import { testFolder } from './folder.js'
import { madeUp } from './made-up.js'
import { hurried } from './manual-time.js'
import { until } from './until.js'

/** What arrived, and what there is in the way of it. */
interface Stage {
  got: string[]
  gate: Promise<void> | undefined
  holds: boolean
  isMended: boolean
}
export const stage: Stage = { got: [], gate: undefined, holds: false, isMended: false }

const collect = defineDestination({
  type: 'blackhole',
  ...madeUp('Keeps what it gets.'),
  options: z.strictObject({
    broken: z.boolean().default(false),
    cannot_start: z.boolean().default(false),
    refuses: z.boolean().default(false),
  }),
  delivery: LOCAL_DEFAULTS,
  create({ broken, cannot_start, refuses }) {
    if (broken && !stage.isMended) throw new Error('it is broken')
    return {
      async start() {
        if (cannot_start) throw new Error('not here')
      },
      async write(request) {
        await stage.gate
        if (refuses) throw new DeliveryError('400', { failure: 'reject', reason: 'status_400' })
        if (stage.holds) throw new DeliveryError('401', { failure: 'hold', reason: 'status_401' })
        for (const batch of request) for (let i = 0; i < batch.length; i++) stage.got.push(batch.line(i).toString())
      },
    }
  },
})
export const components: readonly AnyDefinition[] = [...usual.filter(({ type }) => type !== 'blackhole'), collect]
export const ALL: Permissions = { files: ['/**'], never: [], urls: 'all', listen: [], credentials: [] }
export const OUT = { type: 'blackhole', inputs: ['ingest'] }
export const PIPELINE = { destinations: { out: OUT } }
export const BUFFERED = { destinations: { out: { ...OUT, buffer: { type: 'disk' } } } }

/** Accounts whose processes take no calls until it is cleared. */
class Held extends Set<string> {
  readonly calls: (() => void)[] = []

  override clear(): void {
    super.clear()
    for (const take of this.calls.splice(0)) take()
  }
}

/**
 * What the process of an account would do, in this process: each message is copied and comes later, as between processes.
 * `held` ones receive nothing, like a process that is stuck. `memory`: by account.
 */
function linksWithin(
  options: Omit<WorkerOptions, 'account' | 'log' | 'tell'>,
  held: Held,
  memory: Map<string, number>,
): StartLink {
  return (account, events) => {
    let isGone = false
    const later = (copy: () => void) => void setImmediate(() => isGone || copy())
    const tell: WorkerOptions['tell'] = message => {
      const copy = JSON.parse(JSON.stringify(message))
      later(() => events.message(copy))
    }
    const log = messageLog('info', line => tell({ type: 'log', line }))
    const worker = new PipelineWorker({ ...options, account, log, tell })
    const end = async () => {
      if (isGone) return
      isGone = true
      await worker.close()
      events.ended({ outOfMemory: false, text: '' })
    }
    return {
      pid: undefined,
      memory: () => memory.get(account),
      send: (call, body) => {
        const copy = structuredClone(call)
        const bytes = body && { bytes: Buffer.concat([body.bytes, Buffer.alloc(1)]) }
        const take = () => later(() => worker.receive(copy, bytes))
        if (held.has(account)) held.calls.push(take)
        else take()
      },
      end,
      kill: end,
    }
  }
}

interface Options {
  readonly permitted?: Permissions
  readonly maxProcesses?: number
  readonly deadlineMs?: number
  readonly maxMemory?: number
  readonly folder?: string
  readonly maxUnsettled?: number
  readonly maxDiskPerAccount?: number
  readonly revisionBytes?: number
  readonly turnMs?: number
  readonly waitMs?: number
  readonly maxSeries?: number
  readonly maxLines?: { group: number; all: number }
  readonly clock?: TimerClock
  /** Everything that was published, by id and revision. */
  readonly history?: Map<string, HostedRevision>
}

interface Publish extends Partial<Pick<HostedRevision, 'revision' | 'published_at' | 'secrets'>> {
  readonly tell?: boolean
  readonly account?: string
}

/** A host behind a server: `POST /{pipeline}` with what was published last. */
export async function startIngestHost(
  t: Test,
  {
    permitted = ALL,
    maxProcesses = 10,
    deadlineMs = 10_000,
    maxMemory = 1e12,
    folder = testFolder(t),
    maxUnsettled,
    maxDiskPerAccount = 1e9,
    revisionBytes = 0,
    turnMs,
    waitMs,
    maxSeries = 5000,
    maxLines = { group: 10_000, all: 200_000 },
    clock = hurried(20),
    history = new Map<string, HostedRevision>(),
  }: Options = {},
) {
  let logs = ''
  const log = pino({ level: 'info' }, { write: line => void (logs += line) })
  const metrics = new Metrics(pino({ level: 'silent' }))
  const streams = { stdin: new PassThrough(), stdout: new PassThrough() }
  const runtime = { clock, random: () => 0.1, ...streams, env: { SECRET: 'of the service' } }
  const held = new Held()
  const memory = new Map<string, number>()
  const store = await openSqlite(join(folder, '.keys'), undefined, undefined, KEYS)
  const keys = await IdempotencyKeys.open(store, { clock, log, secret: Buffer.alloc(32) })
  const host = new IngestHost({
    folder,
    keys,
    log,
    metrics,
    maxSeries: maxLines,
    clock,
    components,
    startProcess: linksWithin(
      { folder, maxDisk: maxDiskPerAccount, maxSeries, components, permitted, runtime },
      held,
      memory,
    ),
    ownPorts: () => [],
    maxProcesses,
    deadlineMs,
    maxMemory,
    permitted,
    maxBody: 100_000,
    maxUnsettled: maxUnsettled ?? 1_000_000,
    maxUnsettledOfAll: 2_000_000,
    maxDiskPerAccount,
    revisionBytes: () => revisionBytes,
    maxRequests: 10_000,
    revision: async ({ id }, revision) => history.get(`${id} ${revision}`),
    ...(turnMs === undefined ? {} : { turnMs }),
    ...(waitMs === undefined ? {} : { waitMs }),
  })
  const published = new Map<string, HostedRevision>()
  const nextOf = (id: string) => (published.get(id)?.revision ?? 0) + 1
  const server = createServer((request, response) => {
    const one = published.get(request.url!.slice(1))!
    host
      .take(one, request, () => undefined)
      .then(
        body => ({ status: 202, headers: {}, body }),
        error => {
          if (!(error instanceof Refusal)) throw error
          return { status: error.status, headers: error.headers, body: { code: error.code, message: error.message } }
        },
      )
      .then(({ status, headers, body }) => response.writeHead(status, headers).end(JSON.stringify(body)))
      .catch(error => response.writeHead(500).end(JSON.stringify({ code: 'bug', message: String(error) })))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  let stopped = false
  const stop = async (deadline = AbortSignal.timeout(3000)) => {
    if (stopped) return
    stopped = true
    await host.stop(deadline)
    await store.close()
    server.closeAllConnections()
    server.close()
  }
  t.teardown(() => stop())
  return {
    host,
    keys,
    store,
    metrics,
    folder,
    held,
    memory,
    stop,
    logs: () => logs,
    /** Resolves when the bodies of so many requests are there, and not answered. */
    async unanswered(requests: number, leastBytes = 1) {
      const gauge = (text: string, name: string) =>
        Number(new RegExp(`^sluice_ingest_unanswered_${name} (\\d+)`, 'm').exec(text)?.[1])
      let text = ''
      const look = async () => {
        text = String(await metrics.render())
        return gauge(text, 'requests') === requests && gauge(text, 'bytes') >= leastBytes
      }
      await until(`${requests} requests without an answer`, look, { show: () => gauge(text, 'requests') })
    },
    publish(
      config: unknown,
      id = 'p',
      { tell = true, account = 'account', revision = nextOf(id), published_at = '', secrets }: Publish = {},
    ) {
      const one = { id, account_id: account, revision, published_at, config, ...(secrets && { secrets }) }
      published.set(id, one)
      history.set(`${id} ${one.revision}`, one)
      return tell ? host.publish(one) : undefined
    },
    async post(body: string | Buffer, headers: Record<string, string> = {}, id = 'p', signal?: AbortSignal) {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${id}`
      const all = { 'content-type': 'application/x-ndjson', ...headers }
      const response = await fetch(url, { method: 'POST', body, headers: all, ...(signal ? { signal } : {}) })
      const answer = (await response.json()) as {
        received?: number
        repeated?: boolean
        code?: string
        message?: string
      }
      return { status: response.status, retryAfter: response.headers.get('retry-after'), ...answer }
    },
  }
}

export function resetStage(): void {
  Object.assign(stage, { got: [], gate: undefined, holds: false })
}
