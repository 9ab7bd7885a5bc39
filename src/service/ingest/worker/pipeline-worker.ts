import { join } from 'node:path'
import type { Logger } from 'pino'
import { type ComponentCounters, ComponentSet } from '../../../engine/flow/counters.js'
import { type CounterSnapshot, snapshotOf } from '../../../engine/run/measure/counter-snapshot.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { formatSize } from '../../../lib/units.js'
import type { BodyBytes } from '../../../net/http/events/send-body.js'
import { Refusal, stopping } from '../../../net/http/server/refusal.js'
import { AccountDisk } from '../account/account-disk.js'
import { unreadable, whyNot } from '../hosted-config.js'
import { shortError } from '../process/from-process.js'
import {
  type CallFailure,
  type CallName,
  dataOfRefusal,
  type FromProcess,
  type ProcessCall,
  type PublishedData,
  type Snapshot,
  type WorkerCalls,
} from '../process/messages.js'
import { AccountRequests, MOST_REQUESTS } from './account-requests.js'
import { type HostedOptions, HostedPipeline } from './hosted-pipeline.js'

/** How long a scrape waits for values that need the disk. */
const REFRESH_MS = 500
/** Pause after sending counters, for each series that was sent. Scrapes do not wait for this pause. */
const REST_MS_PER_SERIES = 1
/** Maximum bytes of counters in one message, unless the counters of a single component are larger. */
const MOST_TOLD = 256 * 1024

export interface WorkerOptions extends Pick<HostedOptions, 'runtime' | 'components' | 'permitted'> {
  readonly account: string
  /** Contains a folder for each pipeline. */
  readonly folder: string
  /** Disk space of all pipelines, in bytes. */
  readonly maxDisk: number
  /** Maximum series by key, all pipelines together. */
  readonly maxSeries: number
  readonly log: Logger
  readonly tell: (message: FromProcess) => void
}

/** Runs the pipelines of one account in its process, and answers the calls of the service. */
export class PipelineWorker {
  readonly #options: WorkerOptions
  readonly #requests: AccountRequests
  readonly #limit: LogLimit
  readonly #disk: AccountDisk
  readonly #counters: ComponentSet
  /** For each component, the last snapshot that was sent to the service. */
  readonly #told = new WeakMap<ComponentCounters, Buffer>()
  #nextTelling = 0
  readonly #pipelines = new Map<string, HostedPipeline>()
  /** Controllers that end stopping pipelines immediately. */
  readonly #stopping = new Map<string, AbortController>()
  #inStore = { keys: 0, revisions: 0 }
  /** Resolves when the files of all pipelines that the service has named are measured. */
  #measuring: Promise<void> = Promise.resolve()
  #ownPorts: readonly number[] = []
  readonly #calls: {
    readonly [N in CallName]: (
      of: WorkerCalls[N]['of'],
      body?: BodyBytes,
    ) => Promise<WorkerCalls[N]['gets']> | WorkerCalls[N]['gets']
  } = {
    start: published => this.#start(published),
    update: published => this.#update(published),
    take: (of, body) => this.#take(of, body!),
    stop: of => this.#stop(of),
    abort: ({ pipeline }) => this.#abort(pipeline),
    forget: ({ pipeline }) => this.#forget(pipeline),
    inspect: ({ fresh }) => this.#inspect(fresh),
  }

  constructor(options: WorkerOptions) {
    this.#options = options
    const { account, folder, log, maxDisk: max, maxSeries, runtime } = options
    this.#counters = new ComponentSet(maxSeries)
    this.#limit = new LogLimit(runtime.clock)
    this.#requests = new AccountRequests(MOST_REQUESTS, () => this.#tellFull())
    this.#disk = new AccountDisk({ account, folder, log, clock: runtime.clock, max, inStore: () => this.#inStore })
  }

  get ownPorts(): readonly number[] {
    return this.#ownPorts
  }

  /** `body` belongs to a call `take`, and has room for one more byte. */
  receive({ id, name, of, instructions }: ProcessCall, body?: BodyBytes): void {
    const { tell } = this.#options
    if (instructions) {
      this.#inStore = instructions.inStore
      this.#ownPorts = instructions.ownPorts
      const folders = instructions.pipelines.map(pipeline => this.#folderOf(pipeline))
      this.#measuring = this.#measuring.then(() => this.#disk.measureOnce(folders))
    }
    const call = this.#calls[name] as (of: unknown, body?: BodyBytes) => unknown
    Promise.resolve()
      .then(() => call(of, body))
      .then(
        value => tell({ type: 'reply', id, value }),
        error => tell({ type: 'failed', id, failure: failureOf(error) }),
      )
  }

  /** Stops all pipelines immediately. Undelivered events either stay in disk buffers or were not acknowledged. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#pipelines.keys()].map(pipeline => this.#stop({ pipeline, now: true })))
  }

  async #start(published: PublishedData): Promise<Snapshot> {
    const { id } = published
    const { log, runtime, components, permitted, tell } = this.#options
    const options: HostedOptions = {
      folder: this.#folderOf(id),
      log: log.child({ pipeline: id }),
      runtime,
      disk: this.#disk,
      requests: this.#requests,
      counters: this.#counters,
      components,
      permitted,
      changed: state => tell({ type: 'state', pipeline: id, state }),
    }
    // Must precede the first write of the pipeline.
    await this.#measuring
    this.#pipelines.set(id, await HostedPipeline.start(published, options))
    await this.#disk.measure(options.folder)
    return this.#snapshot()
  }

  async #update(published: PublishedData): Promise<Snapshot> {
    await this.#pipelines.get(published.id)?.update(published)
    await this.#disk.measure(this.#folderOf(published.id))
    return this.#snapshot()
  }

  async #take({ pipeline, body }: WorkerCalls['take']['of'], bytes: BodyBytes): Promise<{ received: number }> {
    const hosted = this.#pipelines.get(pipeline)
    if (!hosted) throw stopping()
    return await hosted.take({ ...body, ...bytes })
  }

  async #stop({ pipeline, now }: WorkerCalls['stop']['of']): Promise<Snapshot> {
    const hosted = this.#pipelines.get(pipeline)
    const hurry = new AbortController()
    if (now) hurry.abort()
    this.#stopping.set(pipeline, hurry)
    await hosted?.stop(hurry.signal)
    const left = hosted?.undelivered ?? 0
    this.#stopping.delete(pipeline)
    this.#pipelines.delete(pipeline)
    this.#counters.end(`${pipeline}/`)
    const snapshot = this.#snapshot()
    return { ...snapshot, undelivered: [...snapshot.undelivered, [pipeline, left]] }
  }

  #forget(pipeline: string): Snapshot {
    this.#counters.forget(`${pipeline}/`)
    this.#disk.forget(this.#folderOf(pipeline))
    return this.#snapshot()
  }

  #abort(pipeline: string): undefined {
    this.#stopping.get(pipeline)?.abort()
  }

  async #inspect(fresh: boolean): Promise<Snapshot> {
    if (fresh) await this.#counters.refresh(REFRESH_MS)
    return this.#snapshot(fresh || this.#options.runtime.clock.now() >= this.#nextTelling)
  }

  #snapshot(isDue = true): Snapshot {
    this.#disk.relieve()
    if (isDue) this.#tellCounters()
    return {
      undelivered: [...this.#pipelines].map(([id, { undelivered }]) => [id, undelivered]),
      disk: this.#disk.files,
      budget: this.#requests.figures(),
    }
  }

  #tellFull(): void {
    const { account, log } = this.#options
    const more = this.#limit.next('requests')
    if (more)
      log.warn(
        { code: 'SLUICE_ACCOUNT_REQUESTS_FULL', account, max: formatSize(MOST_REQUESTS.bytes), ...more },
        'destinations of an account wait because their requests take too much memory. Find the receivers that do not answer (sluice_delivery_requests_in_flight), or send each event to fewer destinations',
      )
  }

  #folderOf(pipeline: string): string {
    return join(this.#options.folder, pipeline)
  }

  /** Sends the changed counters. The pause before the next message grows with the number of sent series. */
  #tellCounters(): void {
    let series = 0
    let changed: CounterSnapshot[] = []
    let size = 0
    const tellThem = () => {
      if (changed.length > 0) this.#options.tell({ type: 'counted', counters: changed })
      changed = []
      size = 0
    }
    for (const counters of this.#counters.components.values()) {
      const snapshot = snapshotOf(counters)
      const text = Buffer.from(JSON.stringify(snapshot))
      if (this.#told.get(counters)?.equals(text)) continue
      this.#told.set(counters, text)
      if (size + text.length > MOST_TOLD) tellThem()
      changed.push(snapshot)
      size += text.length
      for (const [, { rows }] of snapshot.series) series += rows.length
    }
    tellThem()
    this.#nextTelling = this.#options.runtime.clock.now() + series * REST_MS_PER_SERIES
  }
}

function failureOf(error: unknown): CallFailure {
  const refusal = error instanceof Refusal ? error : unreadable(error)
  return refusal ? { refusal: dataOfRefusal(refusal) } : { error: shortError(whyNot(error)) }
}
