import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { after, type Clock, every, within } from '../../lib/time.js'
import { Refusal, stopping } from '../../net/http/server/refusal.js'
import type { Confirm } from '../api/http/ingest.js'
import { AccountDisks } from './account/account-disk.js'
import { AccountQuotas } from './account/account-quota.js'
import type { Bound } from './hosted-bounds.js'
import { whyNot } from './hosted-config.js'
import { IngestMetrics } from './ingest-metrics.js'
import { LastRevisions } from './last-revision.js'
import type { ProcessBounds } from './process/account-process.js'
import { AccountProcesses, PROCESS_ENDED } from './process/account-processes.js'
import type { StartLink } from './process/link.js'
import type { Answer, Look } from './process/messages.js'
import type { Published } from './published.js'
import { type ReadingOptions, Readings, Refusals } from './readings.js'
import { NO_ROOM, Room, type RoomBounds } from './room.js'
import { RunningPipeline, stillStarting } from './running-pipeline.js'

interface IngestHostOptions extends ProcessBounds, RoomBounds, ReadingOptions {
  readonly clock: Clock
  readonly metrics: Metrics
  /** Lines of a scrape of one account, and of all. */
  readonly maxSeries: { readonly group: number; readonly all: number }
  readonly startProcess: StartLink
  /** Where the service listens. */
  readonly ownPorts: () => readonly number[]
  readonly maxBody: number
  /** Memory that requests to one pipeline which are not answered may hold. */
  readonly maxUnsettled: number
  /** Memory that all requests which are not answered may hold together. */
  readonly maxUnsettledOfAll: number
  /** Bytes that the saved revisions of an account take, which are a part of that. */
  readonly revisionBytes: (account: string) => number
  /** Requests that are not answered, of all pipelines. */
  readonly maxRequests: number
  /** Another revision of what is published; undefined: it is gone. */
  readonly revision: (published: Published, revision: number) => Promise<Published | undefined>
  /** Usually left out. */
  readonly turnMs?: number
  readonly waitMs?: number
}

const COMES_AGAIN: ReadonlySet<string> = new Set([NO_ROOM, PROCESS_ENDED])
/** How long a pipeline with events in a disk buffer may run before another one that waits gets its turn. */
const TURN_MS = 30_000
const CHECKS_A_TURN = 6
/** A request waits no longer for its pipeline to start, which goes on for the next try. */
const WAIT_MS = 10_000
const MOST_REMOVED = 10_000
/** The end of a service does not wait longer for a process that does not end. */
const KILL_MS = 1000

/**
 * Runs published pipelines for the events that are sent to them, in a process for each account: from the first request
 * on, or from the start where one has events in a disk buffer. When there are too many, one makes room (room.ts), so that
 * every account gets its share. Those that ended with events in disk buffers run again as soon as there is room, in turn.
 */
export class IngestHost {
  readonly #options: IngestHostOptions
  readonly #quotas: AccountQuotas
  readonly #metrics: IngestMetrics
  /** Least recently used first. */
  readonly #running = new Map<string, RunningPipeline>()
  readonly #starting = new Map<string, Promise<RunningPipeline>>()
  readonly #room: Room
  /** Those with events in disk buffers that wait for room, the longest waiting first. */
  readonly #parked = new Map<string, Published>()
  readonly #latest = new Map<string, Published>()
  readonly #stopResuming: () => void
  #resuming: Promise<void> | undefined
  /** Starts that wait for room. */
  readonly #asking = new Set<Published>()
  /** Those that stop: the next of the same id waits for them. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Lately removed: a request that was let in before may still want to start them. */
  readonly #removed = new Set<string>()
  readonly #disks: AccountDisks
  readonly #processes: AccountProcesses
  readonly #readings: Readings
  readonly #refusals: Refusals
  readonly #last: LastRevisions
  #stopping: AbortSignal | undefined

  constructor(options: IngestHostOptions) {
    this.#options = options
    this.#quotas = new AccountQuotas({ requests: options.maxRequests, bytes: options.maxUnsettledOfAll })
    const { maxDiskPerAccount: max, revisionBytes, log, metrics, clock, ownPorts, startProcess } = options
    this.#room = new Room(options)
    this.#refusals = new Refusals(clock)
    this.#disks = new AccountDisks({ max, revisionBytes, log, metrics, clock })
    this.#processes = new AccountProcesses({
      ...options,
      start: startProcess,
      facts: account => ({
        revisions: revisionBytes(account),
        resting: this.#disks.of(account).own(),
        ownPorts: ownPorts(),
      }),
      looked: (account, look) => this.#looked(account, look),
      died: account => this.#died(account),
    })
    const { folder, revision } = options
    this.#readings = new Readings(options)
    this.#last = new LastRevisions({ folder, log, revision, read: one => this.#readings.config(one.id, one.config) })
    this.#metrics = new IngestMetrics(metrics, {
      pipelines: () => this.#running.size,
      parked: () => this.#parked.size,
      waiting: () => this.#room.lackingProcess([...this.#asking, ...this.#parked.values()]),
      quotas: this.#quotas,
    })
    this.#stopResuming = every((options.turnMs ?? TURN_MS) / CHECKS_A_TURN, () => this.#resume())
  }

  /** Takes the events of a request for what is published. Throws a Refusal, and what `confirm` throws. */
  async take(published: Published, request: IncomingMessage, confirm: Confirm): Promise<Answer> {
    try {
      const known = this.#refusals.of(published)
      if (known) throw known
      const running = this.#running.get(published.id)
      const started = this.#hosted(published)
      const hosted =
        running && !running.hasEnded ? await started : await within(this.#options.waitMs ?? WAIT_MS, started)
      if (!hosted) throw this.#asking.has(published) ? this.#room.refusal(published.account_id) : stillStarting()
      this.#latest.set(published.id, published)
      if (!hosted.runs(published)) await this.#update(hosted, published)
      return await hosted.take(request, confirm)
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
    } else await this.#ending.get(id)
    await this.#processes.forget(id)
    this.#last.forget(id)
    const folder = join(this.#options.folder, id)
    if (!existsSync(folder)) return
    await rm(folder, { recursive: true })
    this.#disks.forget(folder)
    void this.#processes.lookAll()
    this.#options.log.info({ pipeline: id, folder }, 'removed the files of a pipeline that was deleted')
  }

  /** Names the folders that belong to none of the pipelines: they may hold events, and are left alone. */
  tellOrphans(pipelines: ReadonlySet<string>): Promise<void> {
    return tellOrphanedFolders(this.#options.folder, pipelines, this.#options.log)
  }

  /** A secret is gone: pipelines that use it end at once. What they have in disk buffers stays there. */
  async endUsersOf(ids: ReadonlySet<string>, secret: string): Promise<void> {
    await Promise.allSettled(this.#starting.values())
    const users = [...this.#running.values()].filter(({ id }) => ids.has(id)).filter(one => one.usesSecret(secret))
    await Promise.all(users.map(hosted => this.#end(hosted, AbortSignal.abort())))
  }

  /** What the service does otherwise than a daemon when it runs this, and why it cannot run it, or not yet, if so. */
  boundsOf(id: string, document: unknown): Promise<readonly Bound[]> {
    return this.#readings.boundsOf(id, document)
  }

  /** Whether the account may save `bytes` more of revisions. */
  hasRoomForRevisions(account: string, bytes: number): boolean {
    return this.#disks.of(account).hasRoomForRevisions(bytes)
  }

  /** Takes nothing more; what was taken is delivered, at most until `deadline` aborts. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = deadline
    this.#stopResuming()
    let cancel = () => {}
    const kill = () => {
      cancel = after(KILL_MS, () => this.#processes.kill())
    }
    if (deadline.aborted) kill()
    else deadline.addEventListener('abort', kill)
    await Promise.allSettled(this.#starting.values())
    for (const hosted of this.#running.values()) void this.#end(hosted, deadline)
    await Promise.all(this.#ending.values())
    await this.#processes.endAll()
    deadline.removeEventListener('abort', kill)
    cancel()
  }

  async #hosted(published: Published): Promise<RunningPipeline> {
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

  async #start(published: Published): Promise<RunningPipeline> {
    const { id, revision } = published
    const { log, clock, maxBody, maxUnsettled } = this.#options
    await this.#ending.get(id)
    if (this.#stopping) throw stopping()
    this.#processes.check(published.account_id)
    await this.#takeRoom(published)
    if (this.#removed.has(id)) {
      void this.#leave(published)
      throw new Refusal(404, 'not_found', 'the pipeline does not exist')
    }
    this.#latest.set(id, published)
    const began = clock.now()
    try {
      const process = await this.#processes.of(published.account_id)
      const options = { process, maxBody, maxUnsettled, quotas: this.#quotas, startedAt: began }
      const start = (one: Published) => RunningPipeline.start(one, options)
      const last = await this.#last.neededBefore(published)
      const hosted = last ? await start(last).catch(() => start(published)) : await start(published)
      this.#disks.of(published.account_id).leaveToProcess(join(this.#options.folder, id))
      await this.#last.note(hosted)
      if (process.isGone) throw process.refusal()
      // From when it counts as running, it could be ended as idle before the request comes to it.
      this.#parked.delete(id)
      this.#running.set(id, hosted)
      return hosted
    } catch (error) {
      void this.#leave(published)
      if (error instanceof Refusal) throw error
      const why = whyNot(error)
      const fields = { pipeline: id, code: 'SLUICE_REVISION_REFUSED', revision, error: why }
      log.warn(fields, 'a published pipeline cannot run here')
      const message = `revision ${revision} of the pipeline cannot run here: ${why}`
      const refusal = new Refusal(503, 'pipeline_cannot_run', message, { 'retry-after': '30' })
      this.#refusals.add(published, refusal, clock.now() - began)
      throw refusal
    }
  }

  /** A new revision may rename what the one before left, or remove it. */
  async #update(hosted: RunningPipeline, published: Published): Promise<void> {
    const { revision } = hosted
    await hosted.update(published)
    if (hosted.revision !== revision) await this.#last.note(hosted)
  }

  #measure({ id, account_id }: Pick<Published, 'id' | 'account_id'>): Promise<void> {
    return this.#disks.of(account_id).measure(join(this.#options.folder, id))
  }

  /** Throws a Refusal when nothing can make room for another pipeline of the account. */
  async #takeRoom(published: Published): Promise<void> {
    const { id, account_id: account } = published
    const giveUp = this.#options.clock.now() + (this.#options.waitMs ?? WAIT_MS)
    this.#asking.add(published)
    try {
      while (!this.#room.hasRoomFor(account)) {
        // What makes room may have been taken by others each time.
        if (this.#options.clock.now() > giveUp) throw this.#room.refusal(account)
        await this.#processes.lookAll()
        if (this.#room.hasRoomFor(account)) break
        const ends = this.#room.toEnd(account, this.#running.values())
        if (ends.length > 0) await this.#endFor(account, ends)
        else if (!(await this.#someStarted())) throw this.#room.refusal(account)
      }
      this.#room.take(id, account)
    } finally {
      this.#asking.delete(published)
    }
  }

  /** Waits for the pipelines that start or end: one of them may make room then. False: there is none. */
  async #someStarted(): Promise<boolean> {
    const starting = this.#room
      .idsOf()
      .flatMap(id => (this.#running.has(id) ? [] : [this.#starting.get(id) ?? this.#ending.get(id)]))
    await Promise.allSettled(starting)
    return starting.length > 0
  }

  /** Ends pipelines to make room for one of `account`. What is in their disk buffers waits for its next turn. */
  async #endFor(account: string, ends: readonly RunningPipeline[]): Promise<void> {
    await Promise.all(ends.map(hosted => this.#endOne(account, hosted)))
  }

  async #endOne(account: string, hosted: RunningPipeline): Promise<void> {
    const { id, accountId, attendance } = hosted
    const published = this.#latest.get(id)
    this.#metrics.ended(attendance)
    this.#options.log.info(
      { pipeline: id, account: accountId, attendance },
      'ended a pipeline to make room for another',
    )
    const [deadline, why] =
      attendance === 'idle' ? [AbortSignal.timeout(10_000)] : [AbortSignal.abort(), this.#room.endedFor(account)]
    await this.#end(hosted, deadline, why)
    if (published && hosted.undelivered > 0 && this.#hasBuffer(id)) this.#parked.set(id, published)
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
      if (this.#stopping || this.#asking.size > 0) return
      if (!this.#parked.has(published.id)) continue
      const { account_id: account } = published
      if (this.#processes.isHeldBack(account)) continue
      if (!this.#room.hasRoomFor(account)) {
        await this.#processes.lookAll()
        const { clock, turnMs = TURN_MS } = this.#options
        const ends = this.#room.toPause(this.#running.values(), clock.now() - turnMs)
        if (ends.length === 0) return
        await this.#endFor(account, ends)
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
      if (error instanceof Refusal && COMES_AGAIN.has(error.code)) this.#parked.set(published.id, published)
      else {
        const fields = { pipeline: published.id, error: errorText(error) }
        this.#options.log.warn(fields, 'cannot run a pipeline that has events in its disk buffers')
      }
    }
  }

  #hasBuffer(id: string): boolean {
    return ['buffer', 'spool'].some(kind => existsSync(join(this.#options.folder, id, 'state', kind)))
  }

  #end(hosted: RunningPipeline, deadline: AbortSignal, why?: Refusal): Promise<void> {
    const { id } = hosted
    let ending = this.#ending.get(id)
    if (!ending) {
      this.#running.delete(id)
      ending = hosted.stop(deadline, why).then(() => this.#ended(hosted))
      this.#ending.set(id, ending)
    }
    return ending
  }

  /** Its files are released. The process of its account ends if this was the last pipeline. */
  async #ended({ id, accountId: account }: RunningPipeline): Promise<void> {
    const { folder } = this.#options
    await this.#disks.of(account).measure(join(folder, id))
    await this.#leave({ id, account_id: account })
    this.#ending.delete(id)
    if (this.#parked.size > 0) this.#resume()
  }

  #leave({ id, account_id: account }: Pick<Published, 'id' | 'account_id'>): Promise<void> {
    this.#room.leave(id)
    this.#latest.delete(id)
    return this.#room.countOf(account) === 0 ? this.#processes.end(account) : Promise.resolve()
  }

  #looked(account: string, { undelivered, disk }: Look): void {
    this.#disks.of(account).setLive(disk)
    for (const [id, events] of undelivered) {
      const hosted = this.#running.get(id)
      if (hosted) hosted.undelivered = events
    }
  }

  /** What has events in disk buffers runs again as soon as there is a process for it. */
  #died(account: string): { pipelines: string[]; attended: string[] } {
    const died = [...this.#running.values()].filter(({ accountId }) => accountId === account)
    const attended = died.filter(({ attendance }) => attendance === 'attended').map(({ id }) => id)
    // Somebody waits for those that start, too.
    const starting = this.#room.idsOf(account).filter(id => this.#starting.has(id))
    this.#disks.of(account).setLive([])
    for (const hosted of died) {
      const { id } = hosted
      const published = this.#latest.get(id)
      this.#running.delete(id)
      this.#room.leave(id)
      this.#latest.delete(id)
      hosted.close(this.#processes.refusal(account))
      void this.#measure({ id, account_id: account })
      if (published && this.#hasBuffer(id)) this.#parked.set(id, published)
    }
    return { pipelines: [...died.map(({ id }) => id), ...starting], attended: [...attended, ...starting] }
  }
}

/** Names the folders in `folder` that belong to none of the pipelines: they may hold events, and are left alone. */
async function tellOrphanedFolders(folder: string, pipelines: ReadonlySet<string>, log: Logger): Promise<void> {
  const names = existsSync(folder) ? await readdir(folder) : []
  for (const name of names) {
    if (pipelines.has(name)) continue
    const text = 'a folder does not belong to a pipeline of the service; remove it if its events are not needed'
    log.warn({ code: 'SLUICE_ORPHANED_PIPELINE', folder: join(folder, name) }, text)
  }
}
