import { errorText } from '../../core/errors.js'
import type { FanOut, Tap } from '../../flow/fan-out.js'
import { Backoff } from '../../lib/backoff.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import { everyOf } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { MirroredCounters } from '../measure/mirrored-counters.js'
import { type Watched, watched } from '../measure/progress.js'
import type { OwnOutputs } from '../own-outputs.js'
import type { Runtime } from '../runtime.js'
import type { SourceFailure } from '../source-run.js'
import type { CheckpointStore } from '../state/checkpoints.js'
import { Entrance } from './entrance.js'
import type { FromWorker, Look, PartData } from './messages.js'
import type { Part } from './plan.js'
import { RemoteTaps } from './remote-taps.js'
import { SavedPositions } from './saved-positions.js'
import { Thread } from './thread.js'

const RESTART_FIRST_MS = 1000
const RESTART_MAX_MS = 60_000
/** A thread that ran for this long is considered to have recovered. */
const CALM_MS = 10_000
const LOOK_MS = 500
/** How long a thread may take to end after an abort. */
const ABORT_MS = 2000

const NOTHING: Look = { counters: [], between: 0, left: 0, failures: [], repeats: false, owes: [] }

export interface ChainEnvironment {
  readonly runtime: Pick<Runtime, 'log' | 'clock' | 'random' | 'metrics'>
  readonly checkpoints: CheckpointStore
  readonly outputs: OwnOutputs
  readonly wanted: WantedNames
}

/** The settings of a part besides its components. */
export type PartSettings = Pick<PartData, 'graph' | 'isOnlyCopied' | 'dataDir' | 'shutdownTimeoutMs' | 'share'>

/**
 * The chains of one worker thread, seen from the main thread. A thread that dies is started again, and its sources read
 * again from their checkpoints what was not acknowledged. While a reload replaces the components, the thread and its
 * sources stay.
 */
export class Chain {
  readonly name: string
  readonly #environment: ChainEnvironment
  readonly #mirrors: MirroredCounters
  readonly #backoff: Backoff
  readonly #taps: RemoteTaps
  readonly #positions: SavedPositions
  #part: Part = { sources: [], processors: [], exits: [] }
  #settings: PartSettings | undefined
  #thread: Thread | undefined
  #stopFollowing: (() => void) | undefined
  #run: Run | undefined
  #entrance: Entrance | undefined
  #kept: ReadonlySet<string> = new Set()
  /** How it is to end, if that was said before the run. */
  #early: (() => void) | undefined
  #failure: string | undefined
  #look = NOTHING
  #looks = 0
  #asked: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined

  constructor(number: number, environment: ChainEnvironment) {
    this.name = `worker ${number}`
    this.#environment = environment
    const { metrics, random, clock } = environment.runtime
    this.#mirrors = new MirroredCounters(metrics)
    this.#backoff = new Backoff(RESTART_FIRST_MS, RESTART_MAX_MS, random)
    this.#positions = new SavedPositions(environment.checkpoints, clock)
    this.#taps = new RemoteTaps(environment.wanted, message => this.#thread?.post(message))
  }

  /** Builds what the thread is to run next, and starts the thread if needed. Throws if that is not possible. */
  async build(part: Part, settings: PartSettings): Promise<void> {
    this.#early = undefined
    this.#part = part
    this.#settings = settings
    const { metrics } = this.#environment.runtime
    for (const { id, kind, type } of [...part.sources, ...part.processors]) metrics.component(id, kind, type)
    try {
      await this.#build()
    } catch (error) {
      throw new Error(`${this.name} (${this.#sourceNames}) cannot start: ${errorText(error)}`, { cause: error })
    }
  }

  async #build(): Promise<void> {
    if (!this.#thread) this.#start()
    const { sources, processors, exits } = this.#part
    const data = ({ id, kind, type, inputs, given, onError }: Part['sources' | 'processors'][number]) => ({
      ...{ id, kind, type, inputs, given, onError },
    })
    const positions = this.#positions.of(sources)
    const part = { sources: sources.map(data), processors: processors.map(data), exits, positions }
    await this.#thread!.build({ ...part, ...this.#settings! })
  }

  #start(): void {
    const { runtime, outputs } = this.#environment
    const thread = new Thread(
      this.name,
      { logLevel: runtime.log.level },
      {
        message: message => this.#receive(message),
        died: reason => this.#died(reason),
      },
    )
    this.#thread = thread
    let files = 0
    this.#stopFollowing = outputs.follow((destination, { dev, ino, birthtimeNs }) => {
      const id = ++files
      thread.post({ type: 'writes', id, destination, file: { dev, ino, birthtimeNs } })
      return () => thread.post({ type: 'wrote', id })
    })
  }

  /** What was built last is not run. */
  undo(): void {
    this.#thread?.post({ type: 'undo' })
  }

  /** Runs what was built, until its sources have ended and every event is settled. */
  run(outputs: ReadonlyMap<string, FanOut>): Promise<void> {
    const { clock } = this.#environment.runtime
    return new Promise((resolve, reject) => {
      const stopLooking = everyOf(clock, LOOK_MS, () => this.#ask())
      this.#run = { outputs, resolve, reject, stopLooking, over: 0, isEnding: false, isUp: false, cancel: undefined }
      this.#kept = new Set()
      if (this.#thread) this.#begin(this.#thread, outputs)
      else this.#died('it ended before it ran')
      this.#early?.()
    })
  }

  #begin(thread: Thread, outputs: ReadonlyMap<string, FanOut>): void {
    const { clock } = this.#environment.runtime
    const run = this.#run!
    run.over = 0
    run.isUp = true
    this.#look = NOTHING
    this.#entrance = new Entrance(outputs, this.#environment.wanted, (message, transfer) =>
      thread.post(message, transfer),
    )
    thread.post({ type: 'run' })
    this.#taps.renew()
    void this.#ask()
    run.cancel = clock.after(CALM_MS, () => {
      this.#failure = undefined
      this.#backoff.reset()
    })
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'batch':
        this.#entrance!.receive(message)
        break
      case 'over':
        if (++this.#run!.over === this.#part.exits.length) this.#endOutputs()
        break
      case 'ended':
        this.#show(message.look)
        this.#finish(message.error)
        break
      case 'look':
        if (this.#run) this.#show(message.look)
        break
      case 'positions':
        this.#positions.moved(message.source, message.document)
        break
      case 'flush':
        void this.#positions
          .flush(message.source)
          .then(error => this.#thread?.post({ type: 'flushed', id: message.id, error }))
        break
      case 'log':
        this.#environment.runtime.log[message.level](message.fields, message.text)
        break
      case 'tapped':
        this.#taps.receive(message.output, message.record)
    }
  }

  /** Asks for a look; resolves when it has come, or never will. */
  #ask(): Promise<void> {
    if (this.#asked) return this.#asked.promise
    if (!this.#run?.isUp || !this.#thread) return Promise.resolve()
    let resolve = () => {}
    const promise = new Promise<void>(done => {
      resolve = done
    })
    this.#asked = { promise, resolve }
    this.#thread.post({ type: 'look', savedAt: this.#positions.savedAt(this.#part.sources) })
    return promise
  }

  #answered(): void {
    this.#looks++
    this.#asked?.resolve()
    this.#asked = undefined
  }

  #show(look: Look): void {
    this.#look = look
    this.#mirrors.show(look.counters, () => this.#ask())
    this.#answered()
  }

  /** No more events come; the readers end when they have what came. */
  #endOutputs(): void {
    const run = this.#run
    if (!run || run.isComplete) return
    run.isComplete = true
    for (const [name, fanOut] of run.outputs)
      void (this.#entrance?.passed(name) ?? Promise.resolve()).then(() => fanOut.end())
  }

  #finish(error?: string): void {
    const run = this.#run
    if (!run) return
    this.#endOutputs()
    run.stopLooking()
    run.cancel?.()
    this.#run = undefined
    this.#answered()
    if (error === undefined) run.resolve()
    else run.reject(new Error(`${this.name}: ${error}`))
  }

  #died(reason: string): void {
    const { log, metrics, clock } = this.#environment.runtime
    this.#thread = undefined
    this.#stopFollowing?.()
    this.#answered()
    const run = this.#run
    // At the end of the daemon, what was in the thread stays in flight: nobody reads it again before the next start.
    if (!run?.isStopping) this.#mirrors.ended()
    if (!run) return
    run.isUp = false
    run.cancel?.()
    for (const { id, kind, type } of this.#part.sources) {
      const counters = metrics.component(id, kind, type)
      counters.failed('worker')
      counters.repeated = true
    }
    const fields = { code: 'SLUICE_WORKER_ENDED', worker: this.name, sources: this.#sourceNames, error: reason }
    if (run.isEnding || run.isComplete) {
      this.#look = { ...NOTHING, repeats: true }
      log.error(fields, 'a worker thread ended early; its sources read again what was not acknowledged')
      this.#finish()
      return
    }
    const waitMs = this.#backoff.next()
    this.#failure = reason
    const text = 'a worker thread ended; it is started again, and its sources go on from their checkpoints'
    log.error({ ...fields, again_in: formatDuration(waitMs) }, text)
    run.cancel = clock.after(waitMs, () => void this.#restart(run))
  }

  async #restart(run: Run): Promise<void> {
    try {
      await this.#build()
    } catch (error) {
      // A thread that died meanwhile has been reported.
      if (!this.#thread || this.#run !== run) return
      this.close()
      this.#died(errorText(error))
      return
    }
    if (this.#run === run) this.#begin(this.#thread!, run.outputs)
  }

  get #sourceNames(): string {
    return this.#part.sources.map(({ id }) => id).join(', ')
  }

  /** Ends the run: reading stops, and what was read is delivered. */
  stop(): void {
    if (this.#run) this.#run.isStopping = true
    this.#end(() => this.#thread!.post({ type: 'stop' }))
  }

  /** Ends the run for a replacement. `same`: sources that go on. `gone`: components that will not be here. */
  leave(same: ReadonlySet<string>, gone: readonly string[]): void {
    const kept = new Set(this.#part.sources.flatMap(({ id }) => (same.has(id) && this.#run ? [id] : [])))
    this.#end(() => this.#thread!.post({ type: 'leave', same: kept, gone }))
    this.#kept = kept
  }

  /** Ends the run at once. */
  abort(): void {
    this.#end(() => this.#thread!.post({ type: 'abort' }))
    const run = this.#run
    if (!run) return
    const thread = this.#thread
    // The thread may have ended this run meanwhile, and be at the next.
    this.#environment.runtime.clock.after(ABORT_MS, () => {
      if (this.#run !== run || this.#thread !== thread) return
      this.close()
      this.#died('it did not end in time')
    })
  }

  #end(tell: () => void): void {
    const run = this.#run
    if (!run) {
      this.#early = () => this.#end(tell)
      return
    }
    run.isEnding = true
    if (run.isUp) {
      tell()
      return
    }
    // It waits for its restart.
    run.cancel?.()
    this.close()
    this.#finish()
  }

  /** Whether the source goes on after `leave`. */
  keeps(source: string): boolean {
    return this.#kept.has(source)
  }

  close(): void {
    this.#stopFollowing?.()
    this.#thread?.end()
    this.#thread = undefined
  }

  /** Whether components on other threads have seen events that they will receive again. */
  get repeats(): boolean {
    return this.#look.repeats || this.#failure !== undefined
  }

  get failures(): readonly SourceFailure[] {
    if (this.#failure === undefined) return this.#look.failures
    const reason = `its worker thread ended: ${this.#failure}`
    return this.#part.sources.map(({ id }) => ({ id, state: 'failing', reason }))
  }

  /** Events on their way between components of the part, or to the main thread. */
  get between(): number {
    const { between, left } = this.#look
    return between + Math.max(0, left - (this.#entrance?.events ?? 0))
  }

  /** The parts of it that can get stuck; the thread is, if it does not answer. */
  watched(): Watched[] {
    const { metrics } = this.#environment.runtime
    const owes = (id: string) => this.#look.owes.includes(id)
    const stages = this.#part.processors.map(({ id, kind, type }) => {
      const part = {
        get owes() {
          return owes(id)
        },
      }
      return watched(id, part, metrics.component(id, kind, type))
    })
    return [{ id: this.name, moved: () => this.#looks, owes: () => this.#asked !== undefined }, ...stages]
  }

  /** Shows batches of an output that stays within the thread, until the result is called. */
  tap(output: string, tap: Tap): () => void {
    return this.#taps.add(output, tap)
  }
}

/** One run of a part. */
interface Run {
  readonly outputs: ReadonlyMap<string, FanOut>
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  readonly stopLooking: () => void
  /** Outputs that have ended. */
  over: number
  /** Whether the thread runs it; otherwise it is being started again. */
  isUp: boolean
  isEnding: boolean
  /** It ends for good, and not for a replacement. */
  isStopping?: boolean
  isComplete?: boolean
  /** Cancels the timer of the restart, or of the time until it counts as recovered. */
  cancel: (() => void) | undefined
}
