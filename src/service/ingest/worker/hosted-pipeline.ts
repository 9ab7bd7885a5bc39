import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyDefinition } from '../../../core/component.js'
import type { Permissions } from '../../../engine/config/published/managed-options.js'
import type { ComponentCounters, ComponentSet, CounterSet } from '../../../engine/flow/counters.js'
import type { RequestPool } from '../../../engine/flow/delivery/request-slots.js'
import type { DiskAllowance } from '../../../engine/flow/disk-allowance.js'
import type { Runtime } from '../../../engine/run/engine.js'
import { kindsOf } from '../../../engine/run/state/inventory.js'
import { EventsLeftBehind } from '../../../engine/run/state/objections.js'
import { NotNow, Supervisor } from '../../../engine/run/supervisor.js'
import type { WholeBody } from '../../../net/http/events/send-body.js'
import { Refusal } from '../../../net/http/server/refusal.js'
import { faultsText, hostedConfig, NotHosted, whyNot } from '../hosted-config.js'
import { versionName } from '../hosted-revision.js'
import type { PipelineState, PublishedData } from '../process/messages.js'
import { Feed } from './feed.js'

/** Retry interval of a revision that waits for events of the previous revision. */
const WAITING_RETRY_MS = 10_000
/** Retry interval of a revision that failed although its configuration is valid, for example on a full disk. */
const FAILED_RETRY_MS = 60_000

export interface HostedOptions {
  readonly folder: string
  readonly log: Logger
  readonly runtime: Omit<Runtime, 'metrics' | 'log'>
  /** All pipelines of the account share `disk`, `requests` and `counters`. */
  readonly disk: DiskAllowance & { readonly max: number }
  readonly requests: RequestPool
  readonly counters: ComponentSet
  readonly components: readonly AnyDefinition[]
  readonly permitted: Permissions
  /** Called after each change of the pipeline's state. */
  readonly changed: (state: PipelineState) => void
}

/** A revision, with the values that its secrets had. */
interface Version {
  readonly name: string
  readonly revision: number
  readonly secrets: readonly string[]
}

/** A running published pipeline, in the process of its account. */
export class HostedPipeline {
  readonly #options: HostedOptions
  readonly #feed: Feed
  readonly #supervisor: Supervisor
  readonly #run: Promise<void>
  #runs: Version
  /** The version that ran before `#runs`. */
  #before: Version
  /** Name of the newest version that could not run. */
  #refused = ''
  /** When the refused version is tried again, on the monotonic clock. */
  #refusedUntil = 0
  #updating: Promise<void> = Promise.resolve()
  #hasEnded = false

  /** Throws NotHosted, or the error why the pipeline cannot be built. */
  static async start(published: PublishedData, options: HostedOptions): Promise<HostedPipeline> {
    const feed = new Feed()
    const counters = new ScopedCounters(options.counters, published.id)
    const { config, bounds } = hostedConfig(published.config, configOptions(published, feed, options))
    const { log, disk, requests } = options
    const runtime = { ...options.runtime, log, metrics: counters, disk, requests }
    const made: { hosted?: HostedPipeline } = {}
    const wentBack = (error: Error) => made.hosted!.#wentBack(error)
    const supervisor = await Supervisor.build(config, runtime, wentBack)
    made.hosted = new HostedPipeline(published, options, { feed, supervisor })
    log.info({ revision: published.revision, bounds: faultsText(bounds) }, 'a published pipeline runs')
    return made.hosted
  }

  private constructor(published: PublishedData, options: HostedOptions, parts: { feed: Feed; supervisor: Supervisor }) {
    this.#runs = this.#before = versionOf(published)
    this.#options = options
    this.#feed = parts.feed
    this.#supervisor = parts.supervisor
    this.#run = parts.supervisor.run().then(() => {
      this.#hasEnded = true
      this.#changed()
    })
    this.#changed()
  }

  get undelivered(): number {
    return this.#supervisor.undelivered()
  }

  /** Applies a published revision. If it cannot run, this is logged, and the previous revision keeps running. */
  update(published: PublishedData): Promise<void> {
    this.#updating = this.#updating.then(() => this.#update(published))
    return this.#updating
  }

  async #update(published: PublishedData): Promise<void> {
    const next = versionOf(published)
    const { clock } = this.#options.runtime
    if (next.name === this.#runs.name || (next.name === this.#refused && clock.now() < this.#refusedUntil)) return
    const before = this.#runs
    try {
      const { config, bounds } = hostedConfig(published.config, configOptions(published, this.#feed, this.#options))
      await this.#supervisor.replace(config, { keepsEvents: true })
      this.#before = before
      this.#runs = next
      this.#changed()
      const fields = { revision: next.revision, before: before.revision, bounds: faultsText(bounds) }
      this.#options.log.info(fields, 'a published revision runs')
    } catch (error) {
      if (error instanceof NotNow) return
      this.#tellRefused(next, error)
      const retryMs = error instanceof EventsLeftBehind ? WAITING_RETRY_MS : FAILED_RETRY_MS
      if (!(error instanceof NotHosted)) this.#refusedUntil = clock.now() + retryMs
    }
  }

  #wentBack(error: Error): void {
    const refused = this.#runs
    this.#runs = this.#before
    this.#changed()
    this.#tellRefused(refused, error)
  }

  #tellRefused({ name, revision }: Version, error: unknown): void {
    this.#refusedUntil = Number.POSITIVE_INFINITY
    if (this.#refused === name) return
    this.#refused = name
    const fields = { code: 'SLUICE_REVISION_REFUSED', revision, error: whyNot(error) }
    this.#options.log.error(fields, 'cannot apply the published revision; keeping the current one')
  }

  #changed(): void {
    const { name, revision, secrets } = this.#runs
    const kinds = this.#supervisor.config.destinations.flatMap(kindsOf)
    const keepsEventsOnDisk = kinds.some(kind => kind === 'buffer' || kind === 'spool')
    this.#options.changed({ version: name, revision, secrets, keepsEventsOnDisk, hasEnded: this.#hasEnded })
  }

  /** Accepts the events of a body. Resolves with the number of events when all events are safe. Throws Refusal. */
  async take(body: WholeBody): Promise<{ received: number }> {
    const { received, settled } = await this.#feed.send(body)
    if ((await settled) === 'errored')
      throw new Refusal(503, 'not_delivered', 'the events could not be delivered; send this again', {
        'retry-after': '5',
      })
    return { received }
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#supervisor.stop(deadline)
    await this.#run
  }
}

function configOptions(
  { id, revision, secrets }: PublishedData,
  feed: Feed,
  { folder, components, permitted, disk }: HostedOptions,
) {
  const name = `pipeline ${id}, revision ${revision}`
  const dataDir = join(folder, 'state')
  const values = secrets?.values ?? new Map()
  if (typeof values === 'string') throw new NotHosted(values)
  const own = { name, dataDir, secrets: Object.fromEntries(values), maxDisk: disk.max }
  return { ...own, components, ingest: feed.definition, permitted }
}

function versionOf(published: PublishedData): Version {
  const { revision, secrets } = published
  return { name: versionName(published), revision, secrets: secrets?.names ?? [] }
}

/** Counters of one pipeline in the set of its account. Component ids begin with the pipeline id. */
class ScopedCounters implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()
  readonly #all: ComponentSet
  readonly #prefix: string

  constructor(all: ComponentSet, prefix: string) {
    this.#all = all
    this.#prefix = prefix
  }

  component(id: string, kind: ComponentCounters['kind'], type: string): ComponentCounters {
    const counters = this.#all.component(`${this.#prefix}/${id}`, kind, type)
    const known = this.components.get(id)
    if (known && known !== counters) this.components.set(`${id} ${known.kind} ${known.type}`, known)
    this.components.set(id, counters)
    return counters
  }
}
