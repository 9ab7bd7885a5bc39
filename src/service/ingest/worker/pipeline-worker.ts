import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode } from '../../../core/errors.js'
import { type ComponentCounters, ComponentSet } from '../../../engine/flow/counters.js'
import { type CounterSnapshot, snapshotOf } from '../../../engine/run/measure/counter-snapshot.js'
import { sleep } from '../../../lib/time.js'
import type { BodyBytes } from '../../../net/http/events/send-body.js'
import { Refusal, stopping } from '../../../net/http/server/refusal.js'
import { AccountDisk } from '../account/account-disk.js'
import { whyNot } from '../hosted-config.js'
import { shortError } from '../process/from-process.js'
import {
  type Call,
  type CallName,
  dataOfRefusal,
  type Failure,
  type FromProcess,
  type PublishedData,
  type Snapshot,
  type WorkerCalls,
} from '../process/messages.js'
import { AccountBudget } from './account-budget.js'
import { type HostedOptions, HostedPipeline } from './hosted-pipeline.js'

/** A process of a service that was killed releases its folders within this time. */
const LOCKED_MS = 5000
const BETWEEN_MS = 50
/** What has to be looked up on the disk for a scrape is waited for so long. */
const REFRESH_MS = 500
/** After counters with n series were sent, the next ones follow n times this long afterwards, or for a scrape. */
const REST_MS_PER_SERIES = 1
/** Bytes of counters in one message, unless one component has more. */
const MOST_TOLD = 256 * 1024

export interface WorkerOptions extends Pick<HostedOptions, 'runtime' | 'components' | 'permitted'> {
  readonly account: string
  /** With a folder for each pipeline. */
  readonly folder: string
  /** Bytes on the disk of all pipelines. */
  readonly maxDisk: number
  /** Series by key that all pipelines show together. */
  readonly maxSeries: number
  readonly log: Logger
  readonly tell: (message: FromProcess) => void
}

/** The pipelines of one account, as its process runs them: it answers the calls of the service. */
export class PipelineWorker {
  readonly #options: WorkerOptions
  readonly #budget: AccountBudget
  readonly #disk: AccountDisk
  readonly #counters: ComponentSet
  /** The last snapshot of each component that the service has. */
  readonly #told = new WeakMap<ComponentCounters, Buffer>()
  #nextTelling = 0
  readonly #pipelines = new Map<string, HostedPipeline>()
  /** Aborts the end of a pipeline that stops. */
  readonly #stopping = new Map<string, AbortController>()
  #inStore = { keys: 0, revisions: 0 }
  /** Resolves when the files of all pipelines were measured that the service has named. */
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
    const { account, log, maxDisk, maxSeries, runtime } = options
    this.#counters = new ComponentSet(maxSeries)
    this.#budget = new AccountBudget({ account, log, clock: runtime.clock })
    this.#disk = new AccountDisk({ account, log, clock: runtime.clock, max: maxDisk, inStore: () => this.#inStore })
  }

  /** Where the service listens. */
  get ownPorts(): readonly number[] {
    return this.#ownPorts
  }

  /** `body`: of a call `take`, with room for a byte more. */
  receive({ id, name, of, instructions }: Call, body?: BodyBytes): void {
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

  /** Ends everything at once: what is in disk buffers stays there, and nothing else was acknowledged. */
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
      requests: this.#budget.requests,
      counters: this.#counters,
      components,
      permitted,
      changed: state => tell({ type: 'state', pipeline: id, state }),
    }
    // Before it writes anything itself.
    await this.#measuring
    this.#pipelines.set(id, await whenUnlocked(() => HostedPipeline.start(published, options)))
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
    if (isDue) this.#tellCounters()
    return {
      undelivered: [...this.#pipelines].map(([id, { undelivered }]) => [id, undelivered]),
      disk: this.#disk.files,
      budget: this.#budget.figures(),
    }
  }

  #folderOf(pipeline: string): string {
    return join(this.#options.folder, pipeline)
  }

  /** What has counted something since it was told last. The more series that is, the longer nothing is told. */
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

/** Where the service was killed, its processes may still hold the folders for a moment. */
async function whenUnlocked<T>(start: () => Promise<T>): Promise<T> {
  for (let waited = 0; ; waited += BETWEEN_MS) {
    try {
      return await start()
    } catch (error) {
      if (errorCode(error) !== 'SLUICE_DATA_DIR_IN_USE' || waited >= LOCKED_MS) throw error
      await sleep(BETWEEN_MS)
    }
  }
}

function failureOf(error: unknown): Failure {
  return error instanceof Refusal ? { refusal: dataOfRefusal(error) } : { error: shortError(whyNot(error)) }
}
