import { Transform, type TransformCallback } from 'node:stream'
import type { Processor } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import type { Share } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import { type EmitReason, MAIN, outputNames, type Plan } from '../../core/processor.js'
import { holdChunk } from '../../lib/lines/chunk-pool.js'
import { aborted, orAborted, sleep } from '../../lib/time.js'
import { type Amount, add, sum } from './counters.js'
import { Dispatch } from './dispatch.js'
import { Emission, type EmissionContext } from './emission.js'
import { Failures, type FailuresContext, LONGEST_WORK_MS, SlowWork } from './failures.js'
import type { FateObserver } from './fates.js'
import { SideOutput, STREAM_DEPTH } from './side-output.js'
import { atOneTime } from './steady-clock.js'
import { Utilization } from './utilization.js'
import { type WaitedEvents, WaitingRoom } from './waiting.js'
import { type Waiting, Work } from './work.js'

/** How long a processor may take to stop after its deadline. */
const LATE_STOP_MS = 1000

export interface StageContext extends EmissionContext, FailuresContext {
  /** Whether the source with this id can read given-back events again. Default: false. */
  readonly readsAgain?: (source: string) => boolean
}

/** A batch that has not left the stage. */
interface Pending {
  readonly work: Work
  readonly since: number
  isDecided: boolean
}

/**
 * A processor as a stream of batches. The processor decides, and the stage does everything else. Invariants:
 * - Batches leave in the order in which they arrived. Each event leaves once and is counted once: at the main output,
 *   at a side output, in the dead-letter queue, as discarded, or as consumed.
 * - An arriving event may overtake LATER events, unless these are due and from the same source.
 * - At most `plan.concurrency` batches are in the processor. No batch is taken while an output is full.
 * - A failure of the processor is never an error of the stream. It affects only the events that the processor failed
 *   to process.
 */
export class Stage extends Transform {
  readonly outputs: ReadonlyMap<string, SideOutput>
  readonly busy = new Utilization()
  readonly slow: SlowWork
  readonly processor: Processor
  /** Whether a successor replaces this stage. Set before the end of the stream. */
  isReplaced = false
  /** After the end of the stream: undecided events that `endWaiting` passes to the successor. */
  leftToSuccessor: readonly WaitedEvents[] = []
  readonly #plan: Plan
  readonly #concurrency: number
  readonly #context: StageContext
  readonly #dispatch: Dispatch
  readonly #pending: Pending[] = []
  readonly #failures: Failures
  readonly #ended = new AbortController()
  readonly #shares = new Set<Share>()
  readonly #emission: Emission
  /** The events that wait for a decision; undefined if the processor never decides LATER. */
  readonly #waiting: WaitingRoom | undefined
  /** Memory for the decisions about the next batch. */
  #column = new Uint8Array(1024)
  #isLeaving = false
  /** While a side output is full: resolves when that output has room. */
  #room: Promise<void> | undefined
  /** Call it to take the next batch. */
  #next: TransformCallback | undefined
  #flushed: TransformCallback | undefined
  #cancelTimer: (() => void) | undefined
  #dueAt: number | undefined
  #isEmitDue = false
  /** Whether the reader of the main output asked for a batch and has not received it yet. */
  #isAsked = false

  constructor(processor: Processor, plan: Plan, context: StageContext) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
    this.processor = processor
    this.#plan = plan
    this.#concurrency = plan.concurrency ?? 1
    this.#context = context
    this.slow = new SlowWork(processor, context)
    this.#failures = new Failures(context, this.#ended.signal)
    this.outputs = new Map(outputNames(plan, context.onError).map(name => [name, new SideOutput()]))
    this.#emission = new Emission(processor, plan, context, this.outputs, this.#shares, this.#failures)
    if (plan.waits) this.#waiting = this.#waitingEvents()
    this.#dispatch = new Dispatch(plan, context, this.outputs, (batch, output) => this.passOn(batch, output))
  }

  #waitingEvents(): WaitingRoom {
    const { clock, metrics, readsAgain = () => false } = this.#context
    return new WaitingRoom({
      clock,
      metrics,
      readsAgain,
      mayAsk: () => this.#mayAsk(),
      ask: waiting => this.#ask(waiting.batch, waiting),
      onRound: () => {
        this.#takeNext()
        this.#endIfDone()
      },
    })
  }

  protected passOn(batch: EventBatch, output?: SideOutput): void {
    if (output) output.write(batch)
    else this.push(batch)
  }

  /** `dueAt`: when the predecessor would have emitted next. */
  async start(signal: AbortSignal, dueAt?: number): Promise<void> {
    // Does not wait for a processor that ignores its signal: the daemon must be able to stop.
    await orAborted(Promise.resolve(this.processor.start?.(signal)), signal)
    this.#setTimer(dueAt)
  }

  /**
   * Never throws. Returns soon after the deadline even if the processor does not stop, since other components must
   * still save their state.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#cancelTimer?.()
    const { clock, log } = this.#context
    const stopped = new AbortController()
    const late = aborted(deadline).then(() => sleep(LATE_STOP_MS, stopped.signal, (ms, fn) => clock.after(ms, fn)))
    try {
      const isStopped = Promise.resolve(this.processor.stop?.(deadline)).then(() => true)
      if ((await Promise.race([isStopped, late])) !== true) throw new Error('it did not stop in time')
    } catch (error) {
      log.error({ code: 'SLUICE_PROCESSOR_FAILED', error: errorText(error) }, 'processor failed to stop')
    }
    stopped.abort()
  }

  /** When the processor emits next in time, on its clock; undefined if it does not. */
  get dueAt(): number | undefined {
    return this.#dueAt
  }

  /** Whether events leave by the main output. If not, a side output replaces it. */
  get hasMain(): boolean {
    return this.#plan.main === undefined
  }

  /** Receives the events that are not passed on. */
  set observer(observer: FateObserver | undefined) {
    this.#dispatch.observer = observer
  }

  /** Events and bytes that the stage has taken and that have not left the stage. */
  holds(): Amount {
    // Skips waiting events that the processor is deciding about, since `#waiting` counts them.
    const batches = this.#pending.flatMap(({ work }) => (work.asked ? [] : [work.batch]))
    if (this.#failures.held) batches.push(this.#failures.held)
    const held = { events: 0, bytes: 0 }
    for (const { length, bytes } of batches) add(held, length, bytes)
    return this.#waiting ? sum(held, this.#waiting.amount) : held
  }

  get waiting(): Amount {
    return this.#waiting?.amount ?? { events: 0, bytes: 0 }
  }

  /** The undecided events that wait; undefined if none wait. */
  get waitingBatches(): Iterable<EventBatch> | undefined {
    return this.#waiting?.isEmpty === false ? this.#waiting.batches() : undefined
  }

  /** From now on, waiting events are passed to the successor, given back or decided. See WaitingEvents. */
  endWaiting(passesOn: (source: string) => boolean): void {
    this.#waiting?.end(passesOn)
  }

  /** Takes events that the predecessor left. Call it after the start and before the first batch. */
  inherit(left: WaitedEvents): void {
    if (this.#waiting) this.#waiting.inherit(left)
    else this.write(left.batch)
  }

  /** Whether the readers of an output have no room. */
  get isBlocked(): boolean {
    return [this, ...this.outputs.values()].some(({ readableFlowing }) => readableFlowing === false)
  }

  /** Whether the stage has work that it should do now. */
  get owes(): boolean {
    if (this.destroyed || this.writableLength + this.readableLength === 0) return false
    if (this.#waiting?.isFull || this.processor.isWaiting) return false
    if (this.isBlocked) return false
    const first = this.#pending[0]
    return !first || first.isDecided || this.#context.clock.now() - first.since > LONGEST_WORK_MS
  }

  override _transform(batch: EventBatch, _encoding: string, done: TransformCallback): void {
    if (batch.length === 0) {
      // A processor may assume that a batch has events. It could take a share of an empty batch and never settle it.
      batch.ack.settle('delivered')
      done()
      return
    }
    this.#context.metrics.took(batch.length, batch.bytes)
    const later = this.#waiting
    if (!later) this.#ask(batch)
    else atOneTime(this.#context.clock, () => later.takes(batch) || this.#ask(batch))
    this.#next = done
    this.#takeNext()
  }

  /** Asks the processor about a batch that arrived. With `asked`: asks again about waiting events. */
  #ask(batch: EventBatch, asked?: Waiting): void {
    const to = this.#columnFor(batch.length)
    const work = new Work(batch, to, this.#shares, this.#ended.signal, this.#plan, this.#context.isOnce, asked)
    if (this.#waiting) this.#noteTime(work)
    batch.remember()
    if (this.#pending.length === this.#concurrency - 1) this.busy.begin()
    let waits: void | Promise<void>
    try {
      waits = this.processor.process(batch, to, work)
      if (!waits) work.end()
    } catch (error) {
      waits = Promise.reject(error)
    }
    if (!waits && this.#pending.length === 0 && !this.#isLeaving && !this.#dispatch.needsLetters(work)) {
      this.#leave(work)
      this.busy.end()
      return
    }
    // Replaces the column, since the processor may still write to the old column.
    this.#column = new Uint8Array(this.#column.length)
    const pending = { work, since: this.#context.clock.now(), isDecided: waits === undefined }
    this.#pending.push(pending)
    if (waits) void this.#decide(pending, waits)
    else void this.#releaseDecided()
  }

  #noteTime(work: Work): void {
    const now = this.#context.clock.now()
    work.since = work.asked?.since ?? now
    work.keptMs = now - work.since
    work.mayWait = this.#waiting!.mayWait(work.batch)
  }

  #mayAsk(): boolean {
    if (this.destroyed || this.#isLeaving || this.#pending.length >= this.#concurrency || !this.#isWanted) return false
    if (this.#fullOutputs().length === 0) return true
    void this.#hasRoom().then(hasRoom => hasRoom && this.#waiting!.advance())
    return false
  }

  #columnFor(length: number): Uint8Array {
    if (this.#column.length < length) this.#column = new Uint8Array(length * 2)
    return this.#column.fill(MAIN, 0, length)
  }

  async #decide(pending: Pending, waits: Promise<void>): Promise<void> {
    // Holds the chunk: an abort settles the batch, but the processor may still be reading the chunk.
    const release = holdChunk(pending.work.batch.chunk)
    const end = this.slow.begin(pending.work.batch)
    try {
      await waits
      pending.work.end()
    } catch (error) {
      if (this.destroyed) return
      await pending.work.processEach(this.processor)
      if (!pending.work.errors && !this.destroyed) this.#failures.batch(pending.work.batch, error)
    } finally {
      release?.()
      end()
    }
    pending.isDecided = true
    await this.#releaseDecided()
  }

  /** Releases decided batches, in order, while there is room for them. */
  async #releaseDecided(): Promise<void> {
    if (this.#isLeaving || this.destroyed) return
    this.#isLeaving = true
    while (this.#pending[0]?.isDecided && this.#isWanted) {
      const { work } = this.#pending.shift()!
      if (this.#pending.length === this.#concurrency - 1) this.busy.end()
      const letters = this.#leave(work)
      if (letters) await this.#failures.keep(letters, work.letterErrors)
      if (!(await this.#hasRoom())) return
    }
    this.#isLeaving = false
    this.#waiting?.advance()
    this.#takeNext()
    if (this.#isEmitDue) this.#emitInTime()
    this.#endIfDone()
  }

  #takeNext(): void {
    const next = this.#next
    if (!next || this.#pending.length >= this.#concurrency || this.#waiting?.isFull) return
    // A processor that keeps events would also keep all further events while it cannot emit.
    if (this.#isEmitDue && this.#plan.keeps) return
    this.#next = undefined
    if (this.#fullOutputs().length === 0) next()
    else void this.#hasRoom().then(hasRoom => hasRoom && next())
  }

  #leave(work: Work): EventBatch | undefined {
    const failures = this.#dispatch.failures(work)
    if (failures > 0) this.#failures.events(work, failures)
    const letters = this.#dispatch.send(work, failures)
    if (work.asked || work.kept) this.#waiting!.decided(work)
    return letters
  }

  #fullOutputs(): SideOutput[] {
    const full: SideOutput[] = []
    for (const output of this.outputs.values()) if (output.writableNeedDrain && !output.destroyed) full.push(output)
    return full
  }

  /** Resolves with true when every side output has room, or with false if the stage is destroyed. */
  async #hasRoom(): Promise<boolean> {
    while (this.#fullOutputs().length > 0) {
      // All callers share the listeners.
      this.#room ??= this.#fullOutputs()[0]!
        .drained()
        .finally(() => {
          this.#room = undefined
        })
      await this.#room
    }
    return !this.destroyed
  }

  /** Whether the main output accepts another batch. */
  get #isWanted(): boolean {
    return this.#isAsked || this.readableLength < this.readableHighWaterMark
  }

  override push(batch: unknown): boolean {
    this.#isAsked = false
    return super.push(batch)
  }

  override _read(size: number): void {
    // Node.js calls `_read` just before it takes a batch from a full queue. It does not repeat the call until the next
    // push. So the call must be remembered.
    this.#isAsked = true
    super._read(size)
    if (this.#pending.length > 0 || this.#isEmitDue) void this.#releaseDecided()
    // Waits for the next tick, since `_read` may be called while a batch is leaving.
    if (this.#waiting && !this.#waiting.isEmpty) process.nextTick(() => this.#waiting!.advance())
  }

  #setTimer(dueAt = Number.POSITIVE_INFINITY): void {
    const { every } = this.#plan
    if (every === undefined || this.destroyed || this.writableEnded) return
    const now = this.#context.clock.now()
    this.#dueAt = Math.min(dueAt, now + every)
    this.#cancelTimer = this.#context.clock.after(Math.max(0, this.#dueAt - now), () => {
      this.#setTimer()
      this.#emitInTime()
    })
  }

  /** Emits now, or when there is room. */
  #emitInTime(): void {
    const isBlocked = this.#fullOutputs().length > 0
    this.#isEmitDue = isBlocked || !this.#isWanted
    if (!this.#isEmitDue) {
      this.#emit('time')
      this.#takeNext()
    } else if (isBlocked) {
      void this.#hasRoom().then(hasRoom => hasRoom && this.#isEmitDue && this.#emitInTime())
    }
  }

  #emit(why: EmitReason): void {
    if (this.destroyed) return
    for (const { batch, output } of this.#emission.emitted(why)) this.passOn(batch, output)
  }

  override _flush(done: TransformCallback): void {
    this.#flushed = done
    this.#endIfDone()
  }

  #endIfDone(): void {
    if (!this.#flushed || this.#pending.length > 0 || this.#isLeaving || this.#waiting?.isDone === false) return
    this.#end(this.#flushed)
  }

  #end(done: TransformCallback): void {
    this.#flushed = undefined
    this.#cancelTimer?.()
    this.leftToSuccessor = this.#waiting?.takeLeft() ?? []
    this.#emit(this.isReplaced ? 'reload' : 'drain')
    for (const output of this.outputs.values()) output.end()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#cancelTimer?.()
    this.slow.stop()
    this.#ended.abort()
    for (const output of this.outputs.values()) if (!output.writableEnded) output.destroy()
    // Settles remaining shares as `errored`, so that the sources read the events of these shares again. If the
    // processor keeps events and has a successor, the shares belong to the successor and are not settled.
    if (!this.#plan.keeps || !this.isReplaced) for (const share of [...this.#shares]) share.settle('errored')
    for (const { work } of this.#pending) work.batch.ack.settle('errored')
    this.#waiting?.destroy()
    done(error)
  }
}
