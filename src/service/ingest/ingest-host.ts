import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { errorText } from '../../core/errors.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { after, type Clock, every, within } from '../../lib/time.js'
import { Refusal, stopping } from '../../net/http/server/refusal.js'
import type { Confirm } from '../api/http/ingest.js'
import { AccountDisks } from './account/account-disk.js'
import { AccountQuotas } from './account/account-quota.js'
import type { Bound } from './hosted-bounds.js'
import { FILES_UNREADABLE, whyNot } from './hosted-config.js'
import { HostedPreview, type PreviewOptions } from './hosted-preview.js'
import type { HostedRevision } from './hosted-revision.js'
import type { IdempotencyKeys, Received } from './idempotency-keys.js'
import { IngestMetrics } from './ingest-metrics.js'
import { LastRevisions } from './last-revision.js'
import type { ProcessBounds, StartLink } from './process/account-process.js'
import { AccountProcesses, PROCESS_ENDED } from './process/account-processes.js'
import type { BytesInStore, Snapshot } from './process/messages.js'
import { NO_ROOM, ProcessSlots } from './process-slots.js'
import { RecentFailures } from './recent-failures.js'
import { RunningPipeline, stillStarting } from './running-pipeline.js'

interface IngestHostOptions extends ProcessBounds, PreviewOptions {
  /** Maximum number of processes. Each account whose pipelines run has one process. */
  readonly maxProcesses: number
  readonly clock: Clock
  readonly metrics: Metrics
  readonly keys: IdempotencyKeys
  /** Maximum lines of a scrape, for each account (`group`) and for all accounts together (`all`). */
  readonly maxSeries: { readonly group: number; readonly all: number }
  readonly startProcess: StartLink
  readonly ownPorts: () => readonly number[]
  readonly maxBody: number
  /** Maximum bytes of the unanswered requests to one pipeline. */
  readonly maxUnsettled: number
  /** Maximum bytes of all unanswered requests together. */
  readonly maxUnsettledOfAll: number
  /** Bytes of the saved revisions of an account. They count towards `maxDiskPerAccount`. */
  readonly revisionBytes: (account: string) => number
  /** Maximum unanswered requests to all pipelines. */
  readonly maxRequests: number
  /** A revision of a published pipeline, with its current secrets; undefined if it was removed. */
  readonly revision: (published: HostedRevision, revision: number) => Promise<HostedRevision | undefined>
  /** Default: TURN_MS and WAIT_MS. */
  readonly turnMs?: number
  readonly waitMs?: number
}

const COMES_AGAIN: ReadonlySet<string> = new Set([NO_ROOM, PROCESS_ENDED, FILES_UNREADABLE])
/**
 * If all events of an account are in disk buffers while other accounts wait for a process, the account keeps its
 * process for this long.
 */
const TURN_MS = 30_000
const CHECKS_A_TURN = 6
/** How long a request waits for its pipeline to start. The start then continues, so that repeated requests succeed. */
const WAIT_MS = 10_000
const MOST_REMOVED = 10_000
/** If a process uses more than half of its memory, its pipelines are ended after they were idle for this long. */
const IDLE_MS = 5 * 60_000
/** Time limit to stop an idle pipeline, whose processors may still hold events. */
const LAST_EVENTS_MS = 10_000
/** How long processes may take to end after the shutdown deadline before they are killed. */
const KILL_MS = 1000

/**
 * Runs published pipelines for the events that are sent to them. Each account has one process for its pipelines. A
 * pipeline starts with its first request. If it has events in a disk buffer, it starts with the service. If too many
 * accounts need a process, one account loses its process (process-slots.ts). Accounts that have events in disk buffers
 * then take turns at having a process.
 */
export class IngestHost {
  readonly #options: IngestHostOptions
  readonly #quotas: AccountQuotas
  readonly #metrics: IngestMetrics
  readonly #running = new Map<string, RunningPipeline>()
  readonly #starting = new Map<string, Promise<RunningPipeline>>()
  /** By pipeline: the number of its publications since the service started. */
  readonly #publications = new Map<string, number>()
  readonly #slots: ProcessSlots
  /**
   * Pipelines that have events in disk buffers and wait for a process, or until their files can be read, in the order
   * in which they began to wait.
   */
  readonly #waitingForProcess = new Map<string, HostedRevision>()
  readonly #stopTicking: () => void
  #resuming: Promise<void> | undefined
  /** Revisions whose request or publish waits for a process. */
  readonly #asking = new Set<HostedRevision>()
  /** For each pipeline that has stopped since the service started: the number of events in its disk buffers and spools. */
  readonly #left = new Map<string, number>()
  /** Pipelines that may have events in disk buffers, but have not run since the service started. */
  readonly #uncounted = new Set<string>()
  /** Why the files of a pipeline cannot be read, by pipeline id. */
  readonly #unreadable = new Map<string, string>()
  /** Pipelines that are stopping. The next start of a pipeline awaits the promise. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Recently removed pipelines. Requests accepted before the removal may still try to start these. */
  readonly #removed = new Set<string>()
  readonly #disks: AccountDisks
  readonly #processes: AccountProcesses
  readonly #preview: HostedPreview
  readonly #failures: RecentFailures
  readonly #last: LastRevisions
  #stopping: AbortSignal | undefined

  constructor(options: IngestHostOptions) {
    this.#options = options
    this.#quotas = new AccountQuotas({ requests: options.maxRequests, bytes: options.maxUnsettledOfAll })
    const {
      folder,
      maxDiskPerAccount: max,
      revision,
      revisionBytes,
      keys,
      log,
      metrics,
      clock,
      ownPorts,
      startProcess,
    } = options
    this.#slots = new ProcessSlots(options.maxProcesses)
    this.#failures = new RecentFailures(clock)
    const inStore = (account: string): BytesInStore => ({
      keys: keys.bytesOf(account),
      revisions: revisionBytes(account),
    })
    this.#disks = new AccountDisks({ folder, max, inStore, metrics, log })
    this.#processes = new AccountProcesses({
      ...options,
      start: startProcess,
      instructions: account => ({
        inStore: inStore(account),
        pipelines: [...this.#disks.of(account).pipelines],
        ownPorts: ownPorts(),
      }),
      onSnapshot: (account, snapshot) => this.#onSnapshot(account, snapshot),
      died: account => this.#died(account),
    })
    this.#preview = new HostedPreview(options)
    this.#last = new LastRevisions({
      folder,
      log,
      revision,
      read: one => this.#preview.read(one.id, one.config).config,
    })
    this.#metrics = new IngestMetrics(metrics, {
      pipelines: () => this.#running.size,
      parked: () => this.#waitingForProcess.size,
      waiting: () => this.#accountsWithoutProcess().length,
      quotas: this.#quotas,
      processes: this.#processes,
      keys,
    })
    this.#stopTicking = every((options.turnMs ?? TURN_MS) / CHECKS_A_TURN, () => {
      this.#endUnused()
      this.#resume()
    })
  }

  /** Accepts the events of a request for a published revision. Throws Refusal, or the error of `confirm`. */
  async take(published: HostedRevision, request: IncomingMessage, confirm: Confirm): Promise<Received> {
    try {
      const known = this.#failures.of(published)
      if (known) throw known
      const running = this.#running.get(published.id)
      const started = this.#hosted(published)
      const hosted =
        running && !running.hasEnded ? await started : await within(this.#options.waitMs ?? WAIT_MS, started)
      if (!hosted) throw this.#asking.has(published) ? this.#slots.refusal() : stillStarting()
      hosted.usedAt = this.#options.clock.now()
      if (!hosted.runs(published)) await this.#update(hosted, published)
      return await hosted.take(request, confirm)
    } catch (error) {
      if (error instanceof Refusal) this.#metrics.refused(error.code)
      throw error
    }
  }

  /** Applies a published revision to a running pipeline. Starts the pipeline if it has events to deliver. */
  async publish(published: HostedRevision): Promise<void> {
    const { id, account_id: account } = published
    const publication = (this.#publications.get(id) ?? 0) + 1
    this.#publications.set(id, publication)
    const running = this.#running.get(id) ?? (await this.#starting.get(id)?.catch(() => undefined))
    if (running && !running.hasEnded) return this.#update(running, published)
    if (!running) {
      const hasRun = this.#left.has(id) || this.#ending.has(id)
      if (this.#hasBuffer(id) && !hasRun && !this.#removed.has(id)) this.#uncounted.add(id)
      await this.#disks.measure(account, id)
    }
    if (this.#hasBuffer(id)) await this.#runOrWait(published)
    // The pipeline may have started with an earlier publication.
    const started = this.#running.get(id)
    const isNewest = this.#publications.get(id) === publication
    if (started && isNewest && !started.runs(published)) await this.#update(started, published)
  }

  /** Ends a removed pipeline, then removes its keys, files and counters. */
  async remove(id: string): Promise<void> {
    if (this.#removed.size >= MOST_REMOVED) this.#removed.delete(this.#removed.keys().next().value!)
    this.#removed.add(id)
    this.#waitingForProcess.delete(id)
    this.#left.delete(id)
    this.#uncounted.delete(id)
    this.#unreadable.delete(id)
    this.#publications.delete(id)
    const running = this.#running.get(id) ?? (await this.#starting.get(id)?.catch(() => undefined))
    if (running) {
      await this.#end(running, AbortSignal.timeout(30_000))
    } else await this.#ending.get(id)
    await this.#options.keys.remove(id)
    const account = await this.#disks.forget(id)
    const folder = join(this.#options.folder, id)
    if (existsSync(folder)) {
      await rm(folder, { recursive: true, force: true })
      this.#options.log.info({ pipeline: id, folder }, 'removed the files of a pipeline that was deleted')
    }
    // Must follow the removal of the files: until then, the process must not reuse their disk space.
    await this.#processes.forget(id, account)
    this.#last.forget(id)
  }

  /** Ids of pipelines that run or have files. */
  async pipelines(): Promise<string[]> {
    return [...new Set([...this.#running.keys(), ...(await foldersIn(this.#options.folder))])]
  }

  hasFiles(id: string): boolean {
    return existsSync(join(this.#options.folder, id))
  }

  /** Logs the folders that belong to none of `pipelines`. They may contain events, so they are not removed. */
  async tellOrphans(pipelines: ReadonlySet<string>): Promise<void> {
    const { folder, log } = this.#options
    for (const name of await foldersIn(folder)) {
      if (pipelines.has(name)) continue
      const text = 'a folder does not belong to a pipeline of the service; remove it if its events are not needed'
      log.warn({ code: 'SLUICE_ORPHANED_PIPELINE', folder: join(folder, name) }, text)
    }
  }

  /**
   * Immediately ends the pipelines that use a removed secret. Events in their disk buffers stay there. Pipelines that
   * wait for a process read their secrets again when they start.
   */
  async endUsersOf(ids: ReadonlySet<string>, secret: string): Promise<void> {
    await Promise.allSettled(this.#starting.values())
    const users = [...this.#running.values()].filter(({ id }) => ids.has(id)).filter(one => one.usesSecret(secret))
    await Promise.all(users.map(hosted => this.#end(hosted, AbortSignal.abort())))
  }

  boundsOf(id: string, document: unknown): Promise<readonly Bound[]> {
    return this.#preview.boundsOf(id, document)
  }

  get isDiskFull(): boolean {
    return this.#disks.noRoomOnDisk() !== undefined
  }

  hasRoomForRevisions(account: string, bytes: number): boolean {
    return this.#disks.hasRoomForRevisions(account, bytes)
  }

  /** Number of events in disk buffers and spools. Undefined while a pipeline that may have such events has not run. */
  get buffered(): number | undefined {
    if (this.#uncounted.size > 0) return undefined
    const running = [...this.#running.values()].filter(({ keepsEventsOnDisk }) => keepsEventsOnDisk)
    return [...running.map(({ undelivered }) => undelivered), ...this.#left.values()].reduce((a, b) => a + b, 0)
  }

  /** Stops accepting events. Accepted events are delivered until `deadline` aborts. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = deadline
    this.#stopTicking()
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
    await this.#options.keys.stop()
    deadline.removeEventListener('abort', kill)
    cancel()
  }

  async #hosted(published: HostedRevision): Promise<RunningPipeline> {
    const { id } = published
    const running = this.#running.get(id)
    if (running?.hasEnded && !running.runs(published)) {
      // The entry is for another revision, which could not start. This revision may start.
      await this.#end(running, AbortSignal.abort())
    } else if (running) return running
    let starting = this.#starting.get(id)
    if (!starting) {
      starting = this.#start(published).finally(() => this.#starting.delete(id))
      this.#starting.set(id, starting)
    }
    return starting
  }

  async #start(published: HostedRevision): Promise<RunningPipeline> {
    const { id, revision } = published
    const { log, clock, maxBody, maxUnsettled, keys } = this.#options
    await this.#ending.get(id)
    if (this.#stopping) throw stopping()
    this.#processes.check(published.account_id)
    await this.#takeSlot(published)
    if (this.#removed.has(id)) {
      void this.#leave(published)
      throw new Refusal(404, 'not_found', 'the pipeline does not exist')
    }
    const began = clock.now()
    try {
      const process = await this.#processes.of(published.account_id)
      this.#disks.of(published.account_id).pipelines.add(id)
      const shared = { quotas: this.#quotas, disks: this.#disks, keys }
      const options = { process, maxBody, maxUnsettled, ...shared, usedAt: began }
      const start = (one: HostedRevision) => RunningPipeline.start(one, options)
      const last = await this.#last.neededBefore(published)
      const startPublished = (error: unknown) => {
        // The last revision may start later. Until then, its events must not be left behind.
        if (error instanceof Refusal) throw error
        return start(published)
      }
      const hosted = last ? await start(last).catch(startPublished) : await start(published)
      if (!hosted.runs(published)) await hosted.update(published)
      await this.#last.note(hosted)
      if (process.isGone) throw process.refusal()
      // Must come last, because a pipeline that counts as running may be ended as idle before its request arrives.
      this.#waitingForProcess.delete(id)
      this.#left.delete(id)
      this.#uncounted.delete(id)
      this.#unreadable.delete(id)
      this.#running.set(id, hosted)
      return hosted
    } catch (error) {
      void this.#leave(published)
      if (error instanceof Refusal) {
        if (error.code === FILES_UNREADABLE) this.#cannotRead(published, error, clock.now() - began)
        throw error
      }
      const why = whyNot(error)
      const fields = { pipeline: id, code: 'SLUICE_REVISION_REFUSED', revision, error: why }
      log.warn(fields, 'a published pipeline cannot run here')
      const message = `revision ${revision} of the pipeline cannot run here: ${why}`
      const refusal = new Refusal(503, 'pipeline_cannot_run', message, { 'retry-after': '30' })
      this.#failures.add(published, refusal, clock.now() - began)
      throw refusal
    }
  }

  #cannotRead(published: HostedRevision, refusal: Refusal, tookMs: number): void {
    const { id, revision } = published
    const { message: error } = refusal
    this.#failures.add(published, refusal, tookMs)
    if (this.#unreadable.get(id) === error) return
    this.#unreadable.set(id, error)
    const fields = { code: 'SLUICE_STATE_UNREADABLE', pipeline: id, revision, error }
    this.#options.log.error(fields, 'cannot read the files of a published pipeline; trying again')
  }

  /** Applies a revision and records it. Destinations that it renames or removes may have events in disk buffers. */
  async #update(hosted: RunningPipeline, published: HostedRevision): Promise<void> {
    const { revision } = hosted
    await hosted.update(published)
    if (hosted.revision !== revision) await this.#last.note(hosted)
  }

  /** Takes a process for the account. Throws Refusal if other accounts have all processes and need them. */
  async #takeSlot(published: HostedRevision): Promise<void> {
    const { id, account_id: account } = published
    const { clock, waitMs = WAIT_MS } = this.#options
    const giveUp = clock.now() + waitMs
    this.#asking.add(published)
    try {
      while (!this.#slots.hasRoomFor(account)) {
        // The wait is limited, because another account may take the place that was freed for this account.
        if (clock.now() > giveUp) throw this.#slots.refusal()
        const isEnded = await this.#endAnAccount(({ demand }) => demand !== 'attended')
        if (!isEnded && !(await this.#someStarted())) throw this.#slots.refusal()
      }
      this.#slots.take(account, id)
    } finally {
      this.#asking.delete(published)
    }
  }

  /**
   * Waits for the pipelines that are starting or ending, because they may make room. Resolves with false if no pipeline
   * is starting or ending.
   */
  async #someStarted(): Promise<boolean> {
    const starting = this.#slots.pipelines.flatMap(id =>
      this.#running.has(id) ? [] : [this.#starting.get(id) ?? this.#ending.get(id)],
    )
    await Promise.allSettled(starting)
    return starting.length > 0
  }

  /**
   * Ends the process of one account whose pipelines all pass `mayEnd`. Events in the disk buffers of these pipelines
   * wait for the account's next turn. Resolves with false if no account was found.
   */
  async #endAnAccount(mayEnd: (one: RunningPipeline) => boolean): Promise<boolean> {
    await this.#processes.inspectAll()
    const ends = this.#slots.toEnd(this.#running.values(), mayEnd)
    await Promise.all(ends.map(hosted => this.#makeRoom(hosted)))
    return ends.length > 0
  }

  async #makeRoom(hosted: RunningPipeline): Promise<void> {
    const { id, accountId: account, demand, published } = hosted
    this.#metrics.ended(demand)
    this.#options.log.info({ pipeline: id, account, demand }, 'ended a pipeline to make room for another')
    await this.#end(hosted, demand === 'idle' ? AbortSignal.timeout(LAST_EVENTS_MS) : AbortSignal.abort())
    if (hosted.undelivered > 0) this.#waitForProcess(published)
  }

  #endUnused(): void {
    const { clock, maxMemory } = this.#options
    for (const hosted of this.#running.values())
      if (hosted.process.memory > maxMemory / 2 && hosted.demand === 'idle' && clock.now() - hosted.usedAt > IDLE_MS)
        void this.#makeRoom(hosted)
  }

  #accountsWithoutProcess(): string[] {
    const waiting = [...this.#asking, ...this.#waitingForProcess.values()].map(({ account_id }) => account_id)
    return [...new Set(waiting)].filter(account => !this.#slots.hasRoomFor(account))
  }

  /** Restarts pipelines that have events in their disk buffers, while processes are available. */
  #resume(): void {
    this.#resuming ??= this.#resumeAll().finally(() => {
      this.#resuming = undefined
    })
  }

  async #resumeAll(): Promise<void> {
    const { clock, turnMs = TURN_MS } = this.#options
    const hadTurn = ({ demand, process }: RunningPipeline) =>
      demand === 'idle' || (demand === 'buffered' && process.startedAt <= clock.now() - turnMs)
    // A pipeline whose start has just failed does not take a process from another account.
    const waiting = () => [...this.#waitingForProcess.values()].filter(one => !this.#failures.of(one))
    for (const account of new Set(waiting().map(({ account_id }) => account_id))) {
      // Requests have priority. If a process was ended to make room for a request, this loop must not take that room.
      if (this.#stopping || this.#asking.size > 0) return
      if (this.#processes.isHeldBack(account)) continue
      if (!this.#slots.hasRoomFor(account) && !(await this.#endAnAccount(hadTurn))) continue
      for (const one of waiting()) if (one.account_id === account) await this.#resumeOne(one)
    }
  }

  /** Restarts a pipeline with its current secrets, because they may have been changed or removed while it waited. */
  async #resumeOne(waiting: HostedRevision): Promise<void> {
    const { id, revision } = waiting
    // If the store fails, the pipeline waits for its next turn.
    const published = await this.#options.revision(waiting, revision).catch(() => undefined)
    if (!published || this.#asking.size > 0 || this.#waitingForProcess.get(id) !== waiting) return
    this.#waitingForProcess.delete(id)
    await this.#runOrWait(published)
  }

  /** Runs a pipeline that has events in its disk buffers. If there is no process for it, the pipeline waits for one. */
  async #runOrWait(published: HostedRevision): Promise<void> {
    try {
      await this.#hosted(published)
    } catch (error) {
      if (error instanceof Refusal && COMES_AGAIN.has(error.code)) this.#waitForProcess(published)
      else {
        const fields = { pipeline: published.id, error: errorText(error) }
        this.#options.log.warn(fields, 'cannot start a pipeline whose disk buffers still contain events')
      }
    }
  }

  #waitForProcess(published: HostedRevision): void {
    const { id } = published
    if (this.#hasBuffer(id) && !this.#removed.has(id)) this.#waitingForProcess.set(id, published)
  }

  #hasBuffer(id: string): boolean {
    return ['buffer', 'spool'].some(kind => existsSync(join(this.#options.folder, id, 'state', kind)))
  }

  #end(hosted: RunningPipeline, deadline: AbortSignal): Promise<void> {
    const { id } = hosted
    let ending = this.#ending.get(id)
    if (!ending) {
      this.#running.delete(id)
      ending = hosted.stop(deadline).then(() => this.#ended(hosted))
      this.#ending.set(id, ending)
    }
    return ending
  }

  /** Called when a pipeline has released its files. If it was the account's last pipeline, the process ends too. */
  async #ended(hosted: RunningPipeline): Promise<void> {
    const { id, accountId: account } = hosted
    this.#noteLeft(hosted)
    await this.#leave({ id, account_id: account })
    this.#ending.delete(id)
    if (this.#waitingForProcess.size > 0) this.#resume()
  }

  #noteLeft({ id, keepsEventsOnDisk, undelivered }: RunningPipeline): void {
    if (keepsEventsOnDisk && !this.#removed.has(id)) this.#left.set(id, undelivered)
  }

  #leave({ id, account_id: account }: Pick<HostedRevision, 'id' | 'account_id'>): Promise<void> {
    return this.#slots.leave(account, id) ? this.#processes.end(account) : Promise.resolve()
  }

  #onSnapshot(account: string, { undelivered, disk }: Snapshot): void {
    this.#disks.of(account).files = disk
    for (const [id, events] of undelivered) {
      const hosted = this.#running.get(id)
      if (hosted) hosted.undelivered = events
    }
  }

  /** Removes the pipelines of a dead process. Pipelines with events in disk buffers wait for the next process. */
  #died(account: string): { pipelines: string[]; attended: string[] } {
    const died = [...this.#running.values()].filter(({ accountId }) => accountId === account)
    const attended = died.filter(({ demand }) => demand === 'attended').map(({ id }) => id)
    // Requests also wait for pipelines that are starting.
    const starting = [...this.#slots.pipelinesOf(account)].filter(id => this.#starting.has(id))
    for (const hosted of died) {
      const { id, published } = hosted
      this.#running.delete(id)
      this.#noteLeft(hosted)
      this.#slots.leave(account, id)
      hosted.close(this.#processes.refusal(account))
      this.#waitForProcess(published)
    }
    return { pipelines: [...died.map(({ id }) => id), ...starting], attended: [...attended, ...starting] }
  }
}

async function foldersIn(folder: string): Promise<string[]> {
  return existsSync(folder) ? await readdir(folder) : []
}
