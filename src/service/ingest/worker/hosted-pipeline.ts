import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyDefinition } from '../../../core/component.js'
import type { Permissions } from '../../../engine/config/published/permissions.js'
import type { ComponentCounters, ComponentSet, CounterSet } from '../../../engine/flow/counters.js'
import type { RequestPool } from '../../../engine/flow/delivery/request-slots.js'
import type { DiskAllowance } from '../../../engine/flow/disk-allowance.js'
import type { Runtime } from '../../../engine/run/engine.js'
import { EventsLeftBehind } from '../../../engine/run/state/objections.js'
import { NotNow, Supervisor } from '../../../engine/run/supervisor.js'
import { formatSize } from '../../../lib/units.js'
import type { Body } from '../../../net/http/events/send-body.js'
import { Refusal } from '../../../net/http/server/refusal.js'
import { hostedConfig, NotHosted, textOf, whyNot } from '../hosted-config.js'
import { versionName } from '../hosted-revision.js'
import type { Answer, PipelineState, PublishedData } from '../process/messages.js'
import type { AccountKeys } from './account-keys.js'
import { digestOf, Feed } from './feed.js'
import { KnownKeys } from './known-keys.js'

/** How often a revision is tried that waits for the events of the one before. */
const RETRY_MS = 10_000

export interface HostedOptions {
  /** Of this pipeline. */
  readonly folder: string
  readonly log: Logger
  readonly runtime: Omit<Runtime, 'metrics' | 'log'>
  /** Of the account, as are the next two. */
  readonly disk: DiskAllowance
  readonly keys: AccountKeys
  readonly requests: RequestPool
  readonly counters: ComponentSet
  readonly components: readonly AnyDefinition[]
  readonly permitted: Permissions
  /** Is called whenever its state has changed. */
  readonly changed: (state: PipelineState) => void
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

/** One published pipeline that runs, in the process of its account. */
export class HostedPipeline {
  readonly #id: string
  readonly #accountId: string
  readonly #options: HostedOptions
  readonly #feed: Feed
  readonly #keys: KnownKeys
  readonly #supervisor: Supervisor
  readonly #run: Promise<void>
  readonly #attempts = new Map<string, Attempt>()
  #runs: Version
  /** What ran before it. */
  #before: Version
  /** The newest version that could not be run. */
  #refused = ''
  /** When it is tried again. */
  #refusedUntil = 0
  #updating: Promise<void> = Promise.resolve()
  #hasEnded = false

  /** Throws NotHosted, or whatever keeps it from being built. */
  static async start(published: PublishedData, options: HostedOptions): Promise<HostedPipeline> {
    const feed = new Feed()
    const counters = new ScopedCounters(options.counters, published.id)
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
    made.hosted = new HostedPipeline(published, options, { feed, keys, supervisor })
    log.info({ revision: published.revision, bounds: textOf(bounds) }, 'a published pipeline runs')
    return made.hosted
  }

  private constructor(
    published: PublishedData,
    options: HostedOptions,
    parts: { feed: Feed; keys: KnownKeys; supervisor: Supervisor },
  ) {
    this.#id = published.id
    this.#accountId = published.account_id
    this.#runs = this.#before = versionOf(published)
    this.#options = options
    this.#feed = parts.feed
    this.#keys = parts.keys
    this.#supervisor = parts.supervisor
    this.#run = parts.supervisor.run().then(() => {
      this.#hasEnded = true
      this.#changed()
    })
    this.#changed()
  }

  /** Events that were taken and are not delivered. */
  get undelivered(): number {
    return this.#supervisor.undelivered()
  }

  /** Applies what is published. A revision that cannot run is logged, and the one before it keeps running. */
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
    const { destinations } = this.#supervisor.config
    const hasDiskBuffers = destinations.some(({ delivery }) => delivery?.buffer.type === 'disk')
    this.#options.changed({ version: name, revision, secrets, hasDiskBuffers, hasEnded: this.#hasEnded })
  }

  /** Takes the events of a body: the same answer for every try with a key. Throws a Refusal. */
  async take(body: Body, key: string | undefined): Promise<Answer> {
    if (key === undefined) return await this.#pass(body)
    const sum = digestOf(body, this.#accountId, this.#id, key)
    const known = this.#keys.get(key)
    if (known) {
      if (known.body !== sum) throw reused()
      return { status: 202, body: { received: known.received, repeated: true } }
    }
    const underWay = this.#attempts.get(key)
    if (underWay) {
      if (underWay.sum !== sum) throw reused()
      return await underWay.answer
    }
    if (!this.#keys.hasRoom) throw noRoomForKeys(this.#options.disk)
    const answer = this.#pass(body, received => this.#keys.add(key, { body: sum, received })).finally(() =>
      this.#attempts.delete(key),
    )
    this.#attempts.set(key, { sum, answer })
    return await answer
  }

  /** Answers when all events are safe; `taken` is called between the two. */
  async #pass(body: Body, taken?: (received: number) => Promise<void>): Promise<Answer> {
    const { received, settled } = await this.#feed.send(body)
    if ((await settled) === 'errored')
      throw new Refusal(503, 'not_delivered', 'the events could not be delivered; send this again', {
        'retry-after': '5',
      })
    await taken?.(received)
    return { status: 202, body: { received } }
  }

  /** Takes nothing more; what was taken is delivered, at most until `deadline` aborts. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#supervisor.stop(deadline)
    await this.#run
    await this.#keys.close()
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

function reused(): Refusal {
  return new Refusal(422, 'idempotency_key_reused', 'this idempotency-key was sent with another body; use a new one')
}

function noRoomForKeys({ max }: DiskAllowance): Refusal {
  const message = `the idempotency-key cannot be saved: the pipelines of this account take all of the ${formatSize(max)} that they may use (buffers, dead-letter queues, idempotency keys, saved revisions); delete pipelines that are not needed, or send this again later`
  return new Refusal(503, 'account_disk_full', message, { 'retry-after': '30' })
}

/** Counters of one pipeline among those of others: the ids begin with its own. */
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
