import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyDefinition } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import type { PublishedDocument } from '../../daemon/client/documents.js'
import type { Config } from '../../engine/config/load.js'
import type { Permissions } from '../../engine/config/published/managed-options.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { AddressRules } from '../../lib/network/address-rules.js'
import { every, sleep, systemClock } from '../../lib/time.js'
import type { Principal } from '../api/domain/keys/principal.js'
import type { Service } from '../api/domain/service.js'
import type { Confirm, Ingest } from '../api/http/ingest.js'
import { type Store, StoreError } from '../api/store/store.js'
import { versionName } from '../ingest/hosted-revision.js'
import type { IdempotencyKeys } from '../ingest/idempotency-keys.js'
import { INGEST_FOLDER } from '../ingest/ingest-backup.js'
import { IngestHost } from '../ingest/ingest-host.js'
import { forkProcesses } from '../ingest/process/account-process.js'

/** Maximum memory of all pipelines together, as a multiple of the maximum of one pipeline. */
const SHARES = 8
const MOST_REQUESTS = 10_000
/** Maximum number of metric series, for one account and for all running accounts together. */
const MOST_SERIES = 10_000
const MOST_SERIES_OF_ALL = 200_000

const INSPECT_MS = 1000
const START_RETRY_MS = 1000

type ServiceConfig = NonNullable<Config['service']>

interface ServedIngestParts {
  readonly log: Logger
  readonly metrics: Metrics
  readonly keys: IdempotencyKeys
  readonly components: readonly AnyDefinition[]
  readonly ownPorts: () => readonly number[]
  /** The store, if other nodes share it; otherwise undefined. */
  readonly shared?: Pick<Store, 'watch'> | undefined
}

/** Runs the published pipelines that the service names. Each account has its own process. */
export class ServedIngest implements Ingest {
  readonly #service: Service
  readonly #host: IngestHost
  readonly #log: Logger
  readonly #forget: () => void
  /** Pipelines that were published or removed since this object was created. */
  readonly #changed = new Set<string>()
  /** By pipeline: the version name of the revision that was applied last, without its secrets. */
  readonly #applied = new Map<string, string>()
  /** By pipeline: the version of the secrets that were applied last. */
  readonly #secrets = new Map<string, string>()
  readonly #isShared: boolean
  #reading: Promise<unknown> = Promise.resolve()
  #inspecting: Promise<void> | undefined
  #starting: Promise<void> = Promise.resolve()
  #hasStarted = false
  #stopped: Promise<void> | undefined

  constructor(
    service: Service,
    options: ServiceConfig,
    { log, metrics, keys, components, ownPorts, shared }: ServedIngestParts,
  ) {
    this.#service = service
    this.#isShared = shared !== undefined
    this.#log = log
    const { ingest, dataDir, max_connections, plugins } = options
    const folder = join(dataDir, INGEST_FOLDER)
    const permitted = permittedBy(options, ownPorts)
    const { files, never, urls } = permitted
    const maxDisk = ingest.max_disk_per_account
    const ofAccount = Math.min(MOST_SERIES, Math.floor(MOST_SERIES_OF_ALL / ingest.max_processes))
    const maxSeries = { group: ofAccount, all: MOST_SERIES_OF_ALL }
    // At most half of the series are series by key. The other half is reserved for the series that all components have.
    const setup = { folder, maxDisk, maxSeries: Math.floor(ofAccount / 2), logLevel: log.level, files, never, urls }
    const maxMemory = ingest.max_memory_per_account
    this.#host = new IngestHost({
      folder,
      log,
      metrics,
      keys,
      maxSeries,
      clock: systemClock,
      components,
      permitted,
      ownPorts,
      startProcess: forkProcesses({
        setup: { ...setup, addresses: ingest.allow_addresses, plugins },
        maxMemory,
        env: process.env,
        entry: new URL('./pipeline-process.js', import.meta.url),
      }),
      maxProcesses: ingest.max_processes,
      maxMemory,
      deadlineMs: ingest.process_timeout,
      maxBody: ingest.max_body,
      maxUnsettled: ingest.max_unsettled,
      maxUnsettledOfAll: SHARES * ingest.max_unsettled,
      maxDiskPerAccount: ingest.max_disk_per_account,
      revisionBytes: account => service.pipelines.sizes.of(account),
      maxRequests: Math.min(MOST_REQUESTS, max_connections),
      revision: async (published, revision) => {
        const config = await service.pipelines.configOf(published.id, revision)
        const secrets = config && (await service.secrets.for(published.account_id, config))
        return config && secrets && { ...published, revision, config, secrets }
      },
    })
    service.pipelines.boundsOf = (pipeline, config) => this.#host.boundsOf(pipeline, config)
    service.pipelines.sizes.hasRoom = (account, bytes) => this.#host.hasRoomForRevisions(account, bytes)
    this.#follow()
    this.#forget = shared ? this.#followOthers(shared) : () => {}
  }

  /** Applies publications, removals and changed secrets from now on. */
  #follow(): void {
    const { pipelines, secrets } = this.#service
    pipelines.onPublish = (id, published) => {
      this.#changed.add(id)
      void this.#logFailure(id, published ? this.#publish(published) : this.#remove(id))
    }
    secrets.onChange = (account, name) => {
      this.#secretChanged(account, name).catch(error =>
        this.#log.error({ account, error: errorText(error) }, 'cannot apply a changed secret'),
      )
    }
  }

  /** Applies the changes that other nodes make, within a second after this node notices a change. */
  #followOthers(store: Pick<Store, 'watch'>): () => void {
    const due = new Set<() => Promise<void>>()
    let hasFailed = false
    const inspectPipelines = () => this.#inspectPipelines()
    const inspectSecrets = () => this.#inspectSecrets()
    store.watch(['pipeline'], () => due.add(inspectPipelines))
    store.watch(['secret'], () => due.add(inspectSecrets))
    return every(INSPECT_MS, () => {
      if (due.size === 0 || this.#inspecting) return
      const inspections = [...due]
      due.clear()
      const inspect = (one: () => Promise<void>) =>
        one().catch(error => {
          due.add(one)
          throw error
        })
      this.#inspecting = forEach(inspections, inspect)
        .then(() => (hasFailed = false))
        .catch(error => {
          if (!hasFailed)
            this.#log.warn({ error: errorText(error) }, 'cannot apply changes of other nodes; trying again')
          hasFailed = true
        })
        .then(() => (this.#inspecting = undefined))
    })
  }

  async #inspectPipelines(): Promise<void> {
    const { pipelines } = this.#service
    await forEach(await pipelines.states(await this.#host.pipelines()), async ([id, state]) => {
      if (this.#stopped) return
      if (state === undefined) await this.#remove(id)
      else if (state !== null && versionName(state) !== this.#applied.get(id)) {
        const published = await pipelines.publishedNow(id)
        if (published) await this.#publish(published)
      }
    })
  }

  /** Includes pipelines that do not run: they may have ended because a secret was missing that now exists. */
  async #inspectSecrets(): Promise<void> {
    const { pipelines, secrets } = this.#service
    await forEach(await this.#host.pipelines(), async id => {
      const published = await pipelines.publishedNow(id)
      if (!published || this.#stopped) return
      const { version, names } = await secrets.for(published.account_id, published.config)
      if (version === (this.#secrets.get(id) ?? '')) return
      const [missing] = await secrets.missing(published.account_id, names)
      if (missing === undefined) return await this.#publish(published)
      await this.#host.endUsersOf(new Set([id]), missing)
      this.#secrets.set(id, version)
    })
  }

  /**
   * Applies all published pipelines. Skips pipelines whose changes were applied in the meantime, which is possible
   * because the service may already listen. While PostgreSQL fails, tries again.
   */
  start(): Promise<void> {
    this.#starting = this.#startPatiently()
    return this.#starting
  }

  async #startPatiently(): Promise<void> {
    for (let failures = 0; !this.#stopped; failures++) {
      try {
        return await this.#start()
      } catch (error) {
        if (!this.#isShared || !(error instanceof StoreError)) throw error
        if (failures === 0)
          this.#log.warn({ error: errorText(error) }, 'cannot read which pipelines are published; trying again')
        await sleep(START_RETRY_MS)
      }
    }
  }

  async #start(): Promise<void> {
    const { pipelines } = this.#service
    const known = new Set<string>()
    for (const id of await pipelines.removed()) {
      if (this.#stopped) return
      known.add(id)
      if (!this.#isShared || this.#host.hasFiles(id)) await this.#logFailure(id, this.#remove(id))
    }
    for await (const published of pipelines.allPublished()) {
      if (this.#stopped) return
      known.add(published.id)
      const isDone = this.#changed.has(published.id) || this.#applied.has(published.id)
      if (!isDone) await this.#logFailure(published.id, this.#publish(published))
    }
    await this.#host.tellOrphans(new Set([...known, ...this.#changed]))
    this.#hasStarted = true
  }

  /** Logs the error if `change` fails, because one pipeline must neither stop the others nor end the service. */
  #logFailure(id: string, change: Promise<void>): Promise<void> {
    return change.catch(error =>
      this.#log.error({ pipeline: id, error: errorText(error) }, 'cannot apply a change of a published pipeline'),
    )
  }

  /** Number of events in disk buffers. Undefined while pipelines that have such events may still be starting. */
  get buffered(): number | undefined {
    return this.#hasStarted ? this.#host.buffered : undefined
  }

  get isDiskFull(): boolean {
    return this.#host.isDiskFull
  }

  async #remove(id: string): Promise<void> {
    // Earlier publications are applied first.
    await this.#reading
    await this.#host.remove(id)
    this.#applied.delete(id)
    this.#secrets.delete(id)
    // Other nodes may also have files of the pipeline. The pipeline's row then stays in the store for a while.
    if (!this.#isShared) await this.#service.pipelines.filesRemoved(id)
  }

  /** Applies a publication with current secrets. Reads secrets for one publication at a time, to keep order. */
  async #publish(published: PublishedDocument): Promise<void> {
    const { id, account_id, config } = published
    const name = versionName(published)
    this.#applied.set(id, name)
    const secrets = this.#reading.then(() => this.#service.secrets.for(account_id, config))
    this.#reading = secrets.catch(() => {})
    try {
      const current = await secrets
      await this.#host.publish({ ...published, secrets: current })
      this.#secrets.set(id, current.version)
    } catch (error) {
      // Otherwise, the next inspection would skip this revision.
      if (this.#applied.get(id) === name) this.#applied.delete(id)
      throw error
    }
  }

  async #secretChanged(accountId: string, name: string): Promise<void> {
    const { pipelines, secrets } = this.#service
    const users: PublishedDocument[] = []
    const ids = new Set<string>()
    for await (const published of pipelines.allPublished(accountId)) {
      ids.add(published.id)
      if (secrets.namesIn(published.config).includes(name)) users.push(published)
    }
    if (await secrets.exists(accountId, name)) await forEach(users, published => this.#publish(published))
    else await this.#host.endUsersOf(ids, name)
  }

  async ingest(principal: Principal, pipelineId: string, request: IncomingMessage, confirm: Confirm) {
    const published = await this.#service.pipelines.forIngest(principal, pipelineId)
    const secrets = await this.#service.secrets.for(published.account_id, published.config)
    return await this.#host.take({ ...published, secrets }, request, confirm)
  }

  /** Stops accepting events. Accepted events are delivered until `deadline` aborts. */
  stop(deadline: AbortSignal): Promise<void> {
    const { pipelines, secrets } = this.#service
    pipelines.onPublish = secrets.onChange = () => {}
    this.#forget()
    this.#stopped ??= this.#host
      .stop(deadline)
      .then(() => this.#starting.catch(() => {}))
      .then(() => this.#inspecting)
    return this.#stopped
  }
}

/** Calls `work` for each item. Throws the first failure only after the last item, so that it does not block others. */
async function forEach<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const failures: unknown[] = []
  for (const item of items) await work(item).catch(error => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

/** The operator decides what pipelines can reach, so that publishers never get the rights of the service's user. */
function permittedBy({ dataDir, ingest }: ServiceConfig, ownPorts: () => readonly number[]): Permissions {
  return {
    files: ingest.allow_files,
    never: [dataDir],
    urls: ingest.allow_urls ?? 'all',
    addresses: new AddressRules(ingest.allow_addresses, ownPorts),
    listen: [],
    credentials: [],
  }
}
