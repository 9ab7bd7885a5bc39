import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { errorText } from '../core/errors.js'
import type { Metrics } from '../engine/metrics.js'
import { Quota } from '../sources/http/quota.js'
import { Refusal, stopping } from '../sources/http/refusal.js'
import { AccountDisks } from './account-disk.js'
import { whyNot } from './hosted-config.js'
import { type Answer, type HostedOptions, HostedPipeline, type Published } from './hosted-pipeline.js'

const MOST_REQUESTS = 10_000
const MOST_REMOVED = 10_000

export interface IngestHostOptions extends Omit<HostedOptions, 'folder' | 'quota' | 'disk'> {
  /** A folder for each pipeline is made below it. */
  readonly folder: string
  /** Pipelines that run at the same time. */
  readonly maxPipelines: number
  /** Memory that all requests which are not answered may hold together. */
  readonly maxUnsettledOfAll: number
  /** Bytes on the disk of the pipelines of one account. */
  readonly maxDiskPerAccount: number
}

/**
 * Runs published pipelines for the events that are sent to them, each in an engine of its own: from the first request
 * on, or from the start where one has events in a disk buffer. When there are too many, one that is idle makes room.
 */
export class IngestHost {
  readonly #options: IngestHostOptions
  readonly #quota: Quota
  /** Least recently used first. */
  readonly #running = new Map<string, HostedPipeline>()
  readonly #starting = new Map<string, Promise<HostedPipeline>>()
  /** Those that stop: the next of the same id waits for them. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Lately removed: a request that was let in before may still want to start them. */
  readonly #removed = new Set<string>()
  readonly #disks: AccountDisks
  #stopping: AbortSignal | undefined

  constructor(options: IngestHostOptions) {
    this.#options = options
    this.#quota = new Quota(MOST_REQUESTS, options.maxUnsettledOfAll)
    const { maxDiskPerAccount: max, log, metrics, around } = options
    this.#disks = new AccountDisks({ max, log, metrics, clock: around.clock })
    showIn(options.metrics, () => this.#running.size, this.#quota)
  }

  /** Takes the events of a request for what is published. Throws a Refusal. */
  async take(published: Published, request: IncomingMessage): Promise<Answer> {
    const hosted = await this.#hosted(published)
    if (!hosted.runs(published)) await hosted.update(published)
    return hosted.take(request)
  }

  /** Runs what is published at once, where it runs already, or has events to deliver. */
  async publish(published: Published): Promise<void> {
    const running = this.#running.get(published.id) ?? (await this.#starting.get(published.id)?.catch(() => undefined))
    if (running && !running.hasEnded) return running.update(published)
    if (!running) await this.#disks.measure(published.account_id, join(this.#options.folder, published.id))
    if (!existsSync(join(this.#options.folder, published.id, 'state', 'buffer'))) return
    await this.#hosted(published).catch(error => {
      this.#options.log.warn(
        { pipeline: published.id, error: errorText(error) },
        'a pipeline with a disk buffer does not run',
      )
    })
  }

  /** The pipeline is gone, and so is everything that it kept, as soon as its run has ended. */
  async remove(id: string): Promise<void> {
    if (this.#removed.size >= MOST_REMOVED) this.#removed.delete(this.#removed.keys().next().value!)
    this.#removed.add(id)
    const running = this.#running.get(id) ?? (await this.#starting.get(id)?.catch(() => undefined))
    if (running) {
      await this.#end(running, AbortSignal.timeout(30_000))
      running.forget()
    } else await this.#ending.get(id)
    const folder = join(this.#options.folder, id)
    if (!existsSync(folder)) return
    await rm(folder, { recursive: true })
    this.#disks.forget(folder)
    this.#options.log.info({ pipeline: id, folder }, 'removed the files of a pipeline that was deleted')
  }

  /** Names the folders that belong to none of the pipelines: they may hold events, and are left alone. */
  async tellOrphans(pipelines: ReadonlySet<string>): Promise<void> {
    const { folder, log } = this.#options
    const names = existsSync(folder) ? await readdir(folder) : []
    for (const name of names) {
      if (pipelines.has(name)) continue
      const text = 'a folder belongs to no pipeline of the service; remove it if its events are not needed'
      log.warn({ code: 'SLUICE_ORPHANED_PIPELINE', folder: join(folder, name) }, text)
    }
  }

  /** A secret is gone: pipelines that use it end at once. What they have in disk buffers stays there. */
  async endUsersOf(ids: ReadonlySet<string>, secret: string): Promise<void> {
    await Promise.allSettled(this.#starting.values())
    const users = [...this.#running.values()].filter(({ id }) => ids.has(id)).filter(one => one.usesSecret(secret))
    await Promise.all(users.map(hosted => this.#end(hosted, AbortSignal.abort())))
  }

  /** Takes nothing more; what was taken is delivered, at most until `deadline` aborts. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = deadline
    await Promise.allSettled(this.#starting.values())
    for (const hosted of this.#running.values()) void this.#end(hosted, deadline)
    await Promise.all(this.#ending.values())
  }

  async #hosted(published: Published): Promise<HostedPipeline> {
    const { id } = published
    const running = this.#running.get(id)
    if (running?.hasEnded && !running.runs(published)) {
      // That one could not start: another may.
      await this.#end(running, AbortSignal.abort())
    } else if (running) {
      this.#running.delete(id)
      this.#running.set(id, running)
      return running
    }
    let starting = this.#starting.get(id)
    if (!starting) {
      starting = this.#start(published).finally(() => this.#starting.delete(id))
      this.#starting.set(id, starting)
    }
    return starting
  }

  async #start(published: Published): Promise<HostedPipeline> {
    const { id, revision } = published
    const { log, folder, maxPipelines } = this.#options
    await this.#ending.get(id)
    if (this.#stopping) throw stopping()
    if (this.#removed.has(id)) throw new Refusal(404, 'not_found', 'there is no such pipeline')
    while (this.#running.size + this.#starting.size > maxPipelines) await this.#makeRoom()
    const own = log.child({ pipeline: id })
    try {
      const hosted = await HostedPipeline.start(published, {
        ...this.#options,
        log: own,
        folder: join(folder, id),
        quota: this.#quota,
        disk: this.#disks.of(published.account_id),
      })
      this.#running.set(id, hosted)
      own.info({ revision }, 'a published pipeline runs')
      return hosted
    } catch (error) {
      const why = whyNot(error)
      own.warn({ code: 'SLUICE_REVISION_REFUSED', revision, error: why }, 'a published pipeline cannot run here')
      throw new Refusal(503, 'pipeline_cannot_run', `revision ${revision} of the pipeline cannot run here: ${why}`, {
        'retry-after': '30',
      })
    }
  }

  async #makeRoom(): Promise<void> {
    const idle = [...this.#running.values()].find(hosted => hosted.isIdle)
    if (!idle) {
      throw new Refusal(503, 'too_many_pipelines', 'too many pipelines are in use here; send this again later', {
        'retry-after': '10',
      })
    }
    await this.#end(idle, AbortSignal.timeout(10_000))
  }

  #end(hosted: HostedPipeline, deadline: AbortSignal): Promise<void> {
    const { id } = hosted
    let ending = this.#ending.get(id)
    if (!ending) {
      this.#running.delete(id)
      ending = hosted.stop(deadline).finally(() => this.#ending.delete(id))
      this.#ending.set(id, ending)
    }
    return ending
  }
}

function showIn(metrics: Metrics, running: () => number, quota: Quota): void {
  metrics.daemonGauge('sluice_ingest_pipelines', 'Published pipelines that run in the service.', running)
  metrics.daemonGauge(
    'sluice_ingest_unanswered_requests',
    'Requests with events that are not answered yet.',
    () => quota.requests,
  )
  metrics.daemonGauge('sluice_ingest_unanswered_bytes', 'Memory that they hold.', () => quota.bytes)
}
