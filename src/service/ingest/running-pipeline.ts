import type { IncomingMessage } from 'node:http'
import { within } from '../../lib/time.js'
import { type BodyFormat, checkEventHeaders } from '../../net/http/events/checks.js'
import type { WholeBody } from '../../net/http/events/send-body.js'
import { type BodyEncoding, readBody } from '../../net/http/server/body.js'
import { freeBody } from '../../net/http/server/body-memory.js'
import { type Lease, RequestMemory } from '../../net/http/server/quota.js'
import { Refusal, stopping } from '../../net/http/server/refusal.js'
import { onConnectionClosed } from '../../net/http/server/respond.js'
import { peerOf } from '../../net/listen.js'
import type { Confirm } from '../api/http/ingest.js'
import type { AccountDisks } from './account/account-disk.js'
import type { AccountQuotas } from './account/account-quota.js'
import { dataOf, type HostedRevision, versionName } from './hosted-revision.js'
import type { IdempotencyKeys, Received } from './idempotency-keys.js'
import type { AccountProcess } from './process/account-process.js'
import type { PipelineState } from './process/messages.js'
import type { Demand } from './process-slots.js'

/** Maximum wait of a request with an idempotency key. The client may then repeat the request with the same key. */
const PATIENCE_MS = 20_000
/** How often a request that waits for its events to be safe checks the disk. */
const DISK_CHECK_MS = 1000
const MOST_REQUESTS = 1000
/** The form of an idempotency key. */
const KEY = /^[\x21-\x7e]{1,255}$/

export interface RunningOptions {
  readonly process: AccountProcess
  readonly maxBody: number
  /** Maximum bytes that unanswered requests may hold. */
  readonly maxUnsettled: number
  /** Limits unanswered requests in total and per account. All pipelines share `quotas`, `disks` and `keys`. */
  readonly quotas: AccountQuotas
  readonly disks: AccountDisks
  readonly keys: IdempotencyKeys
  /** Initial `usedAt` of the pipeline. */
  readonly usedAt: number
}

/** A published pipeline that runs in the process of its account. Reads the bodies of requests and passes them on. */
export class RunningPipeline {
  readonly id: string
  readonly accountId: string
  /** The newest known revision. It may still wait until the running revision has delivered its events. */
  published: HostedRevision
  /** When the last request arrived, on the monotonic clock. */
  usedAt: number
  /** Number of accepted events that are not delivered yet, as of the last snapshot of the process. */
  undelivered = 0
  readonly #options: RunningOptions
  readonly #quota: RequestMemory
  /** For each body that is being read, a function that refuses it. */
  readonly #reading = new Set<(refusal: Refusal) => void>()
  #requests = 0
  /** Number of clients that wait for an answer. */
  #waiting = 0
  #isStopped = false

  /** Throws NotHosted if the revision cannot run, and Refusal if the process ends. */
  static async start(published: HostedRevision, options: RunningOptions): Promise<RunningPipeline> {
    const pipeline = new RunningPipeline(published, options)
    const snapshot = await options.process.call('start', dataOf(published))
    pipeline.undelivered = new Map(snapshot.undelivered).get(published.id) ?? 0
    return pipeline
  }

  private constructor(published: HostedRevision, options: RunningOptions) {
    this.id = published.id
    this.accountId = published.account_id
    this.published = published
    this.usedAt = options.usedAt
    this.#options = options
    this.#quota = new RequestMemory(MOST_REQUESTS, options.maxUnsettled)
    const { revision, secrets } = published
    const version = versionName(published)
    const state = { version, revision, secrets: secrets?.names ?? [], keepsEventsOnDisk: false, hasEnded: false }
    options.process.states.set(this.id, state)
  }

  /** The last reported state. The process reports a new state before it answers the call that has changed the state. */
  get #state(): PipelineState {
    return this.#options.process.states.get(this.id)!
  }

  /** Whether the pipeline could not start, or was stopped. */
  get hasEnded(): boolean {
    return this.#state.hasEnded
  }

  get revision(): number {
    return this.#state.revision
  }

  get process(): AccountProcess {
    return this.#options.process
  }

  get keepsEventsOnDisk(): boolean {
    return this.#state.keepsEventsOnDisk
  }

  /** Whether exactly this revision is running, with the current values of its secrets. */
  runs(published: HostedRevision): boolean {
    return this.#state.version === versionName(published)
  }

  usesSecret(name: string): boolean {
    return this.#state.secrets.includes(name)
  }

  get demand(): Demand {
    if (this.#requests > 0) return this.#waiting > 0 ? 'attended' : 'unattended'
    // Without open requests, undelivered events are acknowledged and in disk buffers.
    return this.undelivered > 0 ? 'buffered' : 'idle'
  }

  /** Applies a published revision. If it cannot run, the process logs this, and the previous revision keeps running. */
  async update(published: HostedRevision): Promise<void> {
    this.published = published
    await this.#options.process.call('update', dataOf(published))
  }

  /** Accepts the events of a request. Throws Refusal, or the error of `confirm`. */
  async take(request: IncomingMessage, confirm: Confirm): Promise<Received> {
    const { maxBody, quotas } = this.#options
    this.#requireDisk()
    if (this.hasEnded && !this.#isStopped) {
      const message = `revision ${this.revision} of the pipeline cannot start here: see the log of the service for the reason`
      throw new Refusal(503, 'pipeline_cannot_run', message, { 'retry-after': '30' })
    }
    const { content, encoding } = checkEventHeaders(request, maxBody)
    const key = keyOf(request)
    const lease = quotas.lease(this.accountId, this.#quota.lease())
    this.#requests++
    const leave = this.#wait(request)
    let answer: Promise<Received> | undefined
    let bytes = 0
    try {
      const body = await this.#read(request, content, encoding, lease)
      try {
        await confirm()
      } catch (error) {
        body.release()
        throw error
      }
      bytes = body.size
      answer = this.#pass(key, body)
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
    return this.#patiently(answer, key, bytes).finally(leave)
  }

  /** Throws Refusal if accepted events could not be written to the disk buffers of the pipeline. */
  #requireDisk(bytes?: number): void {
    const full = this.keepsEventsOnDisk ? this.#options.disks.noRoomOnDisk(bytes) : undefined
    if (full) throw full
  }

  /** Resolves with the answer. Throws Refusal if the disk is full, or after PATIENCE_MS if the request has a key. */
  async #patiently(answer: Promise<Received>, key: string | undefined, bytes: number): Promise<Received> {
    for (let waited = 0; key === undefined || waited < PATIENCE_MS; waited += DISK_CHECK_MS) {
      const given = await within(DISK_CHECK_MS, answer)
      if (given) return given
      this.#requireDisk(bytes)
    }
    const message = 'the events are not delivered yet; send this again with the same key'
    throw new Refusal(503, 'not_delivered_yet', message, { 'retry-after': '1' })
  }

  async #pass(key: string | undefined, whole: Required<WholeBody>): Promise<Received> {
    const { process, keys, disks } = this.#options
    const { bytes, release, ...body } = whole
    let isPassed = false
    const take = () => {
      isPassed = true
      return process.call('take', { pipeline: this.id, body }, { bytes, release })
    }
    if (key === undefined) return await take()
    const [account, pipeline] = [this.accountId, this.id]
    try {
      return await keys.once({ account, pipeline, key, body: whole, noRoom: disks.noRoomForKey(account) }, take)
    } finally {
      if (!isPassed) release()
    }
  }

  async #read(
    request: IncomingMessage,
    content: BodyFormat,
    encoding: BodyEncoding | undefined,
    lease: Lease,
  ): Promise<Required<WholeBody>> {
    let refuse: ((refusal: Refusal) => void) | undefined
    const onBegin = (fail: (refusal: Refusal) => void) => {
      refuse = fail
      if (this.#isStopped) fail(stopping())
      else this.#reading.add(fail)
    }
    try {
      const options = { encoding, maxBytes: this.#options.maxBody, lease, onBegin }
      const { bytes, size } = await readBody(request, options)
      const release = () => freeBody(bytes)
      return { bytes: bytes.subarray(0, size), release, size, content, peer: peerOf(request.socket) }
    } finally {
      if (refuse) this.#reading.delete(refuse)
    }
  }

  /** Counts a waiting client until the returned function is called or the client's connection closes. */
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

  /** Stops accepting events. Accepted events are delivered until `deadline` aborts or the process ends. */
  async stop(deadline: AbortSignal): Promise<void> {
    const { process } = this.#options
    const { id: pipeline } = this
    this.close(stopping())
    const hurry = () => void process.call('abort', { pipeline }).catch(() => {})
    deadline.addEventListener('abort', hurry)
    try {
      const snapshot = await process.call('stop', { pipeline, now: deadline.aborted })
      this.undelivered = new Map(snapshot.undelivered).get(pipeline) ?? 0
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    } finally {
      deadline.removeEventListener('abort', hurry)
    }
  }

  /** Stops accepting events. Requests whose bodies are being read get `refusal`. */
  close(refusal: Refusal): void {
    this.#isStopped = true
    for (const refuse of this.#reading) refuse(refusal)
  }
}

export function stillStarting(): Refusal {
  const message = 'the pipeline is still starting; send this again later'
  return new Refusal(503, 'pipeline_starting', message, { 'retry-after': '5' })
}

function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && KEY.test(key)) return key
  throw new Refusal(400, 'invalid_idempotency_key', 'idempotency-key must be 1 to 255 visible characters')
}
