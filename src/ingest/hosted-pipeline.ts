import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Permitted } from '../config/managed/permitted.js'
import type { AnyDefinition } from '../core/component.js'
import type { Runtime } from '../engine/engine.js'
import type { Metrics } from '../engine/measure/metrics.js'
import { EventsLeftBehind } from '../engine/state/left-behind.js'
import { NotNow, Supervisor } from '../engine/supervisor.js'
import type { RequestPool } from '../flow/delivery/request-slots.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import { checkRequest } from '../http/events/checks.js'
import type { Body } from '../http/events/send-body.js'
import { peerOf } from '../http/server/listener.js'
import { type Lease, Quota } from '../http/server/quota.js'
import { Refusal } from '../http/server/refusal.js'
import { onConnectionClosed } from '../http/server/reply.js'
import { after } from '../lib/time.js'
import { formatSize } from '../lib/units.js'
import type { AccountKeys } from './account/account-keys.js'
import type { AccountQuotas } from './account/account-quota.js'
import { digestOf, Feed } from './feed.js'
import { hostedConfig, textOf, whyNot } from './hosted-config.js'
import { KnownKeys } from './known-keys.js'
import type { Attendance } from './room.js'
import { ScopedCounters } from './scoped-counters.js'

/** A client that sends the same key again need not be kept waiting for longer. */
const PATIENCE_MS = 20_000
const MOST_REQUESTS = 1000
/** How often a revision is tried that waits for the events of the one before. */
const RETRY_MS = 10_000
/** What an idempotency key may look like. */
const KEY = /^[\x21-\x7e]{1,255}$/

/** What is published of a pipeline. */
export interface Published {
  readonly id: string
  readonly account_id: string
  readonly revision: number
  readonly config: unknown
  /** The secrets of its account that it refers to. */
  readonly secrets?: {
    /** Another one for other values. */
    readonly version: string
    readonly names: readonly string[]
    /** By name. Throws when one is missing. */
    values(): Readonly<Record<string, string>>
  }
}

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

export interface HostedOptions {
  /** Of this pipeline. */
  readonly folder: string
  readonly log: Logger
  readonly runtime: Omit<Runtime, 'metrics' | 'log'>
  /** Of the account, as are the next three. */
  readonly disk: DiskAllowance
  readonly keys: AccountKeys
  readonly requests: RequestPool
  /** Resolves when it may process so many bytes of a body. */
  readonly turn: (bytes: number) => Promise<void>
  readonly metrics: Metrics
  readonly components: readonly AnyDefinition[]
  readonly permitted: Permitted
  readonly maxBody: number
  /** Memory that requests which are not answered may hold. */
  readonly maxUnsettled: number
  /** The same of all pipelines, and of each account. */
  readonly quotas: AccountQuotas
}

/** What runs: a revision, with the values that its secrets had. */
interface Version {
  readonly name: string
  readonly revision: number
  readonly secrets: readonly string[]
}

/** What a request came to: shared by all tries of it that are under way. */
interface Attempt {
  readonly sum: string
  readonly answer: Promise<Answer>
}

/** One published pipeline that runs in the service. */
export class HostedPipeline {
  readonly id: string
  readonly accountId: string
  /** By the monotonic clock. */
  readonly startedAt: number
  readonly #options: HostedOptions
  readonly #feed: Feed
  readonly #keys: KnownKeys
  readonly #counters: ScopedCounters
  readonly #supervisor: Supervisor
  readonly #run: Promise<void>
  readonly #quota: Quota
  readonly #attempts = new Map<string, Attempt>()
  #runs: Version
  /** What ran before it. */
  #before: Version
  /** The newest version that could not be run. */
  #refused = ''
  /** When it is tried again. */
  #refusedUntil = 0
  #updating: Promise<void> = Promise.resolve()
  #requests = 0
  /** Clients that wait for an answer. */
  #waiting = 0
  /** What they hear when it ends before their events are delivered. */
  #whyStopped: Refusal | undefined
  #hasEnded = false
  #isStopped = false

  /** Throws NotHosted, or whatever keeps it from being built. */
  static async start(published: Published, options: HostedOptions): Promise<HostedPipeline> {
    const feed = new Feed(options.turn)
    const counters = new ScopedCounters(options.metrics, published.id)
    const { config, bounds } = hostedConfig(published.config, configOptions(published, feed, options))
    const { folder, log, disk, requests } = options
    const keys = await KnownKeys.open({ folder, clock: options.runtime.clock, log, disk, account: options.keys })
    const runtime = { ...options.runtime, log, metrics: counters, disk, requests }
    const made: { hosted?: HostedPipeline } = {}
    const wentBack = (error: Error) => made.hosted!.#wentBack(error)
    const supervisor = await Supervisor.build(config, runtime, wentBack).catch(async error => {
      await keys.close()
      throw error
    })
    made.hosted = new HostedPipeline(published, options, { feed, counters, keys, supervisor })
    log.info({ revision: published.revision, bounds: textOf(bounds) }, 'a published pipeline runs')
    return made.hosted
  }

  private constructor(
    published: Published,
    options: HostedOptions,
    parts: { feed: Feed; counters: ScopedCounters; keys: KnownKeys; supervisor: Supervisor },
  ) {
    this.id = published.id
    this.accountId = published.account_id
    this.startedAt = options.runtime.clock.now()
    this.#runs = this.#before = versionOf(published)
    this.#options = options
    this.#feed = parts.feed
    this.#counters = parts.counters
    this.#keys = parts.keys
    this.#supervisor = parts.supervisor
    this.#quota = new Quota(MOST_REQUESTS, options.maxUnsettled)
    this.#run = parts.supervisor.run().then(() => {
      this.#hasEnded = true
    })
  }

  /** It could not start, or was stopped. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The revision that runs. */
  get revision(): number {
    return this.#runs.revision
  }

  get hasDiskBuffers(): boolean {
    return this.#supervisor.config.destinations.some(({ delivery }) => delivery?.buffer.type === 'disk')
  }

  /** Whether it is this that runs, with the same secrets. */
  runs(published: Published): boolean {
    return this.#runs.name === versionName(published)
  }

  usesSecret(name: string): boolean {
    return this.#runs.secrets.includes(name)
  }

  get attendance(): Attendance {
    if (this.#requests > 0) return this.#waiting > 0 ? 'attended' : 'unattended'
    // What was acknowledged and is not delivered is in disk buffers.
    return this.#supervisor.undelivered() > 0 ? 'buffered' : 'idle'
  }

  /** Applies what is published. A revision that cannot run is logged, and the one before it keeps running. */
  update(published: Published): Promise<void> {
    this.#updating = this.#updating.then(() => this.#update(published))
    return this.#updating
  }

  async #update(published: Published): Promise<void> {
    const next = versionOf(published)
    const { clock } = this.#options.runtime
    if (next.name === this.#runs.name || (next.name === this.#refused && clock.now() < this.#refusedUntil)) return
    const before = this.#runs
    try {
      const { config, bounds } = hostedConfig(published.config, configOptions(published, this.#feed, this.#options))
      await this.#supervisor.replace(config, { keepsEvents: true })
      this.#before = before
      this.#runs = next
      const fields = { revision: next.revision, before: before.revision, bounds: textOf(bounds) }
      this.#options.log.info(fields, 'a published revision runs')
    } catch (error) {
      if (error instanceof NotNow) return
      this.#tellRefused(next, error)
      if (error instanceof EventsLeftBehind) this.#refusedUntil = clock.now() + RETRY_MS
    }
  }

  #wentBack(error: Error): void {
    const refused = this.#runs
    this.#runs = this.#before
    this.#tellRefused(refused, error)
  }

  #tellRefused({ name, revision }: Version, error: unknown): void {
    this.#refusedUntil = Number.POSITIVE_INFINITY
    if (this.#refused === name) return
    this.#refused = name
    const fields = { code: 'SLUICE_REVISION_REFUSED', revision, error: whyNot(error) }
    this.#options.log.error(fields, 'cannot apply the published revision; keeping the current one')
  }

  /** Takes the events of a request. Throws a Refusal. */
  async take(request: IncomingMessage): Promise<Answer> {
    const { maxBody } = this.#options
    if (this.#hasEnded && !this.#isStopped) {
      const message = `revision ${this.#runs.revision} of the pipeline cannot start here: see the log of the service for the reason`
      throw new Refusal(503, 'pipeline_cannot_run', message, { 'retry-after': '30' })
    }
    const path = (request.url ?? '').replace(/\?.*$/s, '')
    const { content, gzip } = checkRequest(request, path, maxBody)
    const key = keyOf(request)
    const lease = bothLeases(this.#quota.lease(), () => this.#options.quotas.lease(this.accountId))
    this.#requests++
    const leave = this.#wait(request)
    let answer: Promise<Answer> | undefined
    try {
      const body = await this.#feed.read(request, {
        content,
        gzip,
        maxBytes: maxBody,
        lease,
        peer: peerOf(request.socket),
      })
      answer = key === undefined ? this.#pass(body) : this.#once(key, body)
    } finally {
      const done = () => {
        this.#requests--
        lease.release()
      }
      if (answer) answer.then(done, done)
      else {
        done()
        leave()
      }
    }
    return (key === undefined ? answer : patiently(answer)).finally(leave)
  }

  /** A client waits until the returned function is called, or its connection closes. */
  #wait({ socket }: IncomingMessage): () => void {
    this.#waiting++
    let waits = true
    let cancel = () => {}
    const leave = () => {
      if (waits) this.#waiting--
      waits = false
      cancel()
    }
    cancel = onConnectionClosed(socket, leave)
    return leave
  }

  /** The same for every try of a request. */
  #once(key: string, body: Body): Promise<Answer> {
    const sum = digestOf(body, this.accountId, this.id, key)
    const known = this.#keys.get(key)
    if (known) {
      if (known.body !== sum) throw reused()
      return Promise.resolve({ status: 202, body: { received: known.received, repeated: true } })
    }
    const underWay = this.#attempts.get(key)
    if (underWay) {
      if (underWay.sum !== sum) throw reused()
      return underWay.answer
    }
    if (!this.#keys.hasRoom) throw noRoomForKeys(this.#options.disk)
    const answer = this.#pass(body, received => this.#keys.add(key, { body: sum, received })).finally(() =>
      this.#attempts.delete(key),
    )
    this.#attempts.set(key, { sum, answer })
    return answer
  }

  /** Answers when all events are safe; `taken` is called between the two. */
  async #pass(body: Body, taken?: (received: number) => Promise<void>): Promise<Answer> {
    const { received, settled } = await this.#feed.send(body)
    if ((await settled) === 'errored')
      throw (
        this.#whyStopped ??
        new Refusal(503, 'not_delivered', 'the events could not be delivered; send this again', {
          'retry-after': '5',
        })
      )
    await taken?.(received)
    return { status: 202, body: { received } }
  }

  /** Takes nothing more; what was taken is delivered, at most until `deadline` aborts. `why`: what clients that wait then hear. */
  async stop(deadline: AbortSignal, why?: Refusal): Promise<void> {
    this.#isStopped = true
    this.#whyStopped = why
    this.#supervisor.stop(deadline)
    await this.#run
    await this.#keys.close()
  }

  /** After `stop`, when the pipeline is gone for good. */
  forget(): void {
    this.#counters.forget()
  }
}

function configOptions(
  { id, revision, secrets }: Published,
  feed: Feed,
  { folder, components, permitted, disk }: HostedOptions,
) {
  const name = `pipeline ${id}, revision ${revision}`
  const dataDir = join(folder, 'state')
  const own = { name, dataDir, secrets: secrets?.values() ?? {}, maxDisk: disk.max }
  return { ...own, components, ingest: feed.definition, permitted }
}

/** The same for the same revision with the same values of its secrets. */
export function versionName({ revision, secrets }: Published): string {
  return `${revision} ${secrets?.version ?? ''}`
}

function versionOf(published: Published): Version {
  const { revision, secrets } = published
  return { name: versionName(published), revision, secrets: secrets?.names ?? [] }
}

function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && KEY.test(key)) return key
  throw new Refusal(400, 'invalid_idempotency_key', 'idempotency-key must be 1 to 255 visible characters')
}

function reused(): Refusal {
  return new Refusal(422, 'idempotency_key_reused', 'this idempotency-key was sent with another body; use a new one')
}

function noRoomForKeys({ max }: DiskAllowance): Refusal {
  const message = `the idempotency-key cannot be kept: the pipelines of this account take all of the ${formatSize(max)} that they may use (buffers, dead letters, idempotency keys, saved revisions); delete pipelines that are not needed, or send this again later`
  return new Refusal(503, 'account_disk_full', message, { 'retry-after': '30' })
}

/** The answer, or after a while the advice to ask again: the next try joins the one that is under way. */
function patiently(answer: Promise<Answer>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const cancel = after(PATIENCE_MS, () =>
      reject(
        new Refusal(503, 'not_delivered_yet', 'the events wait to be delivered; send this again with the same key', {
          'retry-after': '1',
        }),
      ),
    )
    answer.then(resolve, reject).finally(cancel)
  })
}

function bothLeases(first: Lease, second: () => Lease): Lease {
  let other: Lease
  try {
    other = second()
  } catch (error) {
    first.release()
    throw error
  }
  return {
    hold(bytes) {
      first.hold(bytes)
      other.hold(bytes)
    },
    received() {},
    release() {
      first.release()
      other.release()
    },
  }
}
