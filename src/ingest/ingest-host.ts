import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { secretNamesIn } from '../config/managed/account-secrets.js'
import { errorText } from '../core/errors.js'
import { EventsLeftBehind, leftInBuffers } from '../engine/state/left-behind.js'
import { Refusal, stopping } from '../http/server/refusal.js'
import { every } from '../lib/time.js'
import { AccountDisks } from './account/account-disk.js'
import { AccountQuotas } from './account/account-quota.js'
import { AccountShares } from './account/account-shares.js'
import { Feed } from './feed.js'
import type { Bound } from './hosted-bounds.js'
import { type Hosted, hostedConfig, NotHosted, whyNot } from './hosted-config.js'
import { type Answer, type HostedOptions, HostedPipeline, type Published } from './hosted-pipeline.js'
import { IngestMetrics } from './ingest-metrics.js'
import { LastRevisions } from './last-revision.js'
import { Refusals } from './refusals.js'
import { makesRoom } from './room.js'

const NO_ROOM = 'too_many_pipelines'
/** How long a pipeline with events in a disk buffer may run before another one that waits gets its turn. */
const TURN_MS = 30_000
const CHECKS_A_TURN = 6
const MOST_REMOVED = 10_000

export interface IngestHostOptions
  extends Omit<HostedOptions, 'folder' | 'quotas' | 'disk' | 'keys' | 'requests' | 'turn'> {
  /** A folder for each pipeline is made below it. */
  readonly folder: string
  /** Pipelines that run at the same time. */
  readonly maxPipelines: number
  /** Memory that all requests which are not answered may hold together. */
  readonly maxUnsettledOfAll: number
  /** Bytes on the disk of the pipelines of one account. */
  readonly maxDiskPerAccount: number
  /** Bytes that the saved revisions of an account take, which are a part of that. */
  readonly revisionBytes: (account: string) => number
  /** Requests that are not answered, of all pipelines. */
  readonly maxRequests: number
  /** Another revision of what is published; undefined: it is gone. */
  readonly revision: (published: Published, revision: number) => Promise<Published | undefined>
  /** Usually left out. */
  readonly turnMs?: number
}

/**
 * Runs published pipelines for the events that are sent to them, each in an engine of its own: from the first request
 * on, or from the start where one has events in a disk buffer. When there are too many, one makes room (room.ts), so that
 * every account gets its share. Those that ended with events in disk buffers run again as soon as there is room, in turn.
 */
export class IngestHost {
  readonly #options: IngestHostOptions
  readonly #quotas: AccountQuotas
  readonly #metrics: IngestMetrics
  /** Least recently used first. */
  readonly #running = new Map<string, HostedPipeline>()
  readonly #starting = new Map<string, Promise<HostedPipeline>>()
  /** The accounts of those that run or were given room to start, by pipeline. */
  readonly #accounts = new Map<string, string>()
  /** Those with events in disk buffers that wait for room, the longest waiting first. */
  readonly #parked = new Map<string, Published>()
  readonly #latest = new Map<string, Published>()
  readonly #stopResuming: () => void
  #resuming: Promise<void> | undefined
  /** Starts that wait for room. */
  #asking = 0
  /** Those that stop: the next of the same id waits for them. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Lately removed: a request that was let in before may still want to start them. */
  readonly #removed = new Set<string>()
  readonly #disks: AccountDisks
  readonly #shares: AccountShares
  readonly #refusals: Refusals
  readonly #last: LastRevisions
  #stopping: AbortSignal | undefined

  constructor(options: IngestHostOptions) {
    this.#options = options
    this.#quotas = new AccountQuotas({ requests: options.maxRequests, bytes: options.maxUnsettledOfAll })
    const { maxDiskPerAccount: max, revisionBytes, log, metrics, runtime } = options
    this.#refusals = new Refusals(runtime.clock)
    this.#disks = new AccountDisks({ max, revisionBytes, log, metrics, clock: runtime.clock })
    this.#shares = new AccountShares({ log, metrics, clock: runtime.clock })
    const { folder, revision } = options
    const read = ({ id, config }: Published) => this.#read(id, config).config
    this.#last = new LastRevisions({ folder, log, revision, read })
    this.#metrics = new IngestMetrics(metrics, {
      pipelines: () => this.#running.size,
      parked: () => this.#parked.size,
      quotas: this.#quotas,
    })
    this.#stopResuming = every((options.turnMs ?? TURN_MS) / CHECKS_A_TURN, () => this.#resume())
  }

  /** Takes the events of a request for what is published. Throws a Refusal. */
  async take(published: Published, request: IncomingMessage): Promise<Answer> {
    try {
      const known = this.#refusals.of(published)
      if (known) throw known
      const hosted = await this.#hosted(published)
      this.#latest.set(published.id, published)
      if (!hosted.runs(published)) await this.#update(hosted, published)
      return await hosted.take(request)
    } catch (error) {
      if (error instanceof Refusal) this.#metrics.refused(error.code)
      throw error
    }
  }

  /** Runs what is published at once, where it runs already, or has events to deliver. */
  async publish(published: Published): Promise<void> {
    const running = this.#running.get(published.id) ?? (await this.#starting.get(published.id)?.catch(() => undefined))
    if (running && !running.hasEnded) {
      this.#latest.set(published.id, published)
      return this.#update(running, published)
    }
    if (!running) await this.#measure(published)
    if (!this.#hasBuffer(published.id)) return
    await this.#runOrPark(published)
    const now = this.#running.get(published.id)
    if (now && !now.runs(published)) await this.#update(now, published)
  }

  /** The pipeline is gone, and so is everything that it kept, as soon as its run has ended. */
  async remove(id: string): Promise<void> {
    if (this.#removed.size >= MOST_REMOVED) this.#removed.delete(this.#removed.keys().next().value!)
    this.#removed.add(id)
    this.#parked.delete(id)
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

  /** What the service does otherwise than a daemon when it runs this, and why it cannot run it, or not yet, if so. */
  async boundsOf(id: string, document: unknown): Promise<readonly Bound[]> {
    try {
      const { config, bounds } = this.#read(id, document)
      const left = await leftInBuffers(config, this.#options.log)
      return left.length === 0 ? bounds : [...bounds, { path: '', message: new EventsLeftBehind(left).message }]
    } catch (error) {
      if (error instanceof NotHosted) return [{ path: '', message: `the service cannot run it: ${error.message}` }]
      throw error
    }
  }

  /** What of a document would run here, for those who only look at it. Throws NotHosted. */
  #read(id: string, document: unknown): Hosted {
    const { folder, components, permitted, maxDiskPerAccount: maxDisk } = this.#options
    const dataDir = join(folder, id, 'state')
    const secrets = Object.fromEntries(secretNamesIn(document).map(name => [name, 'x']))
    const { definition: ingest } = new Feed()
    return hostedConfig(document, { name: '', dataDir, components, ingest, permitted, secrets, maxDisk })
  }

  /** Whether the account may save `bytes` more of revisions. */
  hasRoomForRevisions(account: string, bytes: number): boolean {
    return this.#disks.of(account).hasRoomForRevisions(bytes)
  }

  /** Takes nothing more; what was taken is delivered, at most until `deadline` aborts. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = deadline
    this.#stopResuming()
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
    const { log, folder } = this.#options
    await this.#ending.get(id)
    if (this.#stopping) throw stopping()
    await this.#takeRoom(published)
    if (this.#removed.has(id)) {
      this.#accounts.delete(id)
      throw new Refusal(404, 'not_found', 'there is no such pipeline')
    }
    this.#latest.set(id, published)
    this.#parked.delete(id)
    const own = log.child({ pipeline: id })
    const began = this.#options.runtime.clock.now()
    try {
      const options = {
        ...this.#options,
        log: own,
        folder: join(folder, id),
        quotas: this.#quotas,
        disk: this.#disks.of(published.account_id),
        ...this.#shares.of(published.account_id),
      }
      const start = (one: Published) => HostedPipeline.start(one, options)
      const last = await this.#last.neededBefore(published)
      const hosted = last ? await start(last).catch(() => start(published)) : await start(published)
      await this.#last.note(hosted)
      // From when it counts as running, it could be ended as idle before the request comes to it.
      await this.#measure(published)
      this.#running.set(id, hosted)
      return hosted
    } catch (error) {
      this.#accounts.delete(id)
      this.#latest.delete(id)
      const why = whyNot(error)
      own.warn({ code: 'SLUICE_REVISION_REFUSED', revision, error: why }, 'a published pipeline cannot run here')
      const message = `revision ${revision} of the pipeline cannot run here: ${why}`
      const refusal = new Refusal(503, 'pipeline_cannot_run', message, { 'retry-after': '30' })
      this.#refusals.add(published, refusal, this.#options.runtime.clock.now() - began)
      throw refusal
    }
  }

  /** A new revision may rename what the one before left, or remove it. */
  async #update(hosted: HostedPipeline, published: Published): Promise<void> {
    const { revision } = hosted
    await hosted.update(published)
    if (hosted.revision !== revision) await this.#last.note(hosted)
    await this.#measure(published)
  }

  #measure({ id, account_id }: Published): Promise<void> {
    return this.#disks.measure(account_id, join(this.#options.folder, id))
  }

  /** Throws a Refusal when nothing can make room for another pipeline of the account. */
  async #takeRoom({ id, account_id: account }: Published): Promise<void> {
    const { maxPipelines } = this.#options
    this.#asking++
    try {
      while (this.#accounts.size >= maxPipelines) {
        const hosted = makesRoom(account, this.#running.values(), one => this.#countOf(one))
        if (hosted) await this.#endFor(account, hosted)
        else if (!(await this.#someStarted()))
          throw noRoom(this.#countOf(account), this.#shareWith(account), maxPipelines)
      }
      this.#accounts.set(id, account)
    } finally {
      this.#asking--
    }
  }

  /** Waits for the pipelines that have room and do not run yet: one of them may make room then. False: there is none. */
  async #someStarted(): Promise<boolean> {
    const starting = [...this.#accounts.keys()].flatMap(id => (this.#running.has(id) ? [] : [this.#starting.get(id)]))
    await Promise.allSettled(starting)
    return starting.length > 0
  }

  /** Ends a pipeline to make room for one of `account`. What is in its disk buffers waits for its next turn. */
  async #endFor(account: string, hosted: HostedPipeline): Promise<void> {
    const { id, accountId, attendance } = hosted
    const published = this.#latest.get(id)
    const share = this.#shareWith(account)
    this.#metrics.ended(attendance)
    this.#options.log.info(
      { pipeline: id, account: accountId, attendance },
      'ended a pipeline to make room for another',
    )
    const [deadline, why] =
      attendance === 'idle' ? [AbortSignal.timeout(10_000)] : [AbortSignal.abort(), endedForOthers(share)]
    await this.#end(hosted, deadline, why)
    if (published && attendance !== 'idle' && this.#hasBuffer(id)) this.#parked.set(id, published)
  }

  /** Runs pipelines again that ended with events in their disk buffers, as far as there is room. */
  #resume(): void {
    this.#resuming ??= this.#resumeAll().finally(() => {
      this.#resuming = undefined
    })
  }

  async #resumeAll(): Promise<void> {
    for (const published of [...this.#parked.values()]) {
      // What a request asks for goes first: else the room that was made for it would be taken here.
      if (this.#stopping || this.#asking > 0) return
      if (!this.#parked.has(published.id)) continue
      if (this.#accounts.size >= this.#options.maxPipelines) {
        const hosted = this.#nextToPause()
        if (!hosted) return
        await this.#endFor(published.account_id, hosted)
      }
      this.#parked.delete(published.id)
      await this.#runOrPark(published)
    }
  }

  /** Runs a pipeline that has events in its disk buffers. */
  async #runOrPark(published: Published): Promise<void> {
    try {
      await this.#hosted(published)
    } catch (error) {
      if (error instanceof Refusal && error.code === NO_ROOM) this.#parked.set(published.id, published)
      else {
        const fields = { pipeline: published.id, error: errorText(error) }
        this.#options.log.warn(fields, 'a pipeline with events in its disk buffers does not run')
      }
    }
  }

  /** One that is idle, or that has had its turn. */
  #nextToPause(): HostedPipeline | undefined {
    const { runtime, turnMs = TURN_MS } = this.#options
    const since = runtime.clock.now() - turnMs
    return [...this.#running.values()].find(
      ({ attendance, startedAt }) => attendance === 'idle' || (attendance === 'buffered' && startedAt <= since),
    )
  }

  #countOf(account: string): number {
    let count = 0
    for (const one of this.#accounts.values()) if (one === account) count++
    return count
  }

  /** How many pipelines each account may run, this one included. */
  #shareWith(account: string): number {
    const accounts = new Set([...this.#accounts.values(), account])
    return Math.max(1, Math.floor(this.#options.maxPipelines / accounts.size))
  }

  #hasBuffer(id: string): boolean {
    return existsSync(join(this.#options.folder, id, 'state', 'buffer'))
  }

  #end(hosted: HostedPipeline, deadline: AbortSignal, why?: Refusal): Promise<void> {
    const { id } = hosted
    let ending = this.#ending.get(id)
    if (!ending) {
      this.#running.delete(id)
      this.#accounts.delete(id)
      this.#latest.delete(id)
      ending = hosted.stop(deadline, why).finally(() => {
        this.#ending.delete(id)
        if (this.#parked.size > 0) this.#resume()
      })
      this.#ending.set(id, ending)
    }
    return ending
  }
}

function noRoom(own: number, share: number, max: number): Refusal {
  const message = `this account runs ${own} pipelines and its share of the ${max} that may run here is ${share} at present, with events in each that wait to be delivered; send this again later`
  return new Refusal(503, NO_ROOM, message, { 'retry-after': '10' })
}

function endedForOthers(share: number): Refusal {
  const message = `the pipeline was ended before the events were delivered, to make room for other accounts: the share of this account is ${share} pipelines at present; send this again later`
  return new Refusal(503, 'account_share_exceeded', message, { 'retry-after': '10' })
}
