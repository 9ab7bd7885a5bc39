import { Transform, type TransformCallback } from 'node:stream'
import type { Logger } from 'pino'
import type { Processor } from '../core/component.js'
import { errorText } from '../core/errors.js'
import { Ack } from '../core/event/ack.js'
import type { EventBatch } from '../core/event/batch.js'
import type { Share } from '../core/event/share.js'
import { type EmitReason, MAIN, outputNames, type Plan } from '../core/processor.js'
import { holdChunk } from '../lib/lines/chunk-pool.js'
import { LogLimit } from '../lib/log-limit.js'
import { aborted, sleep, type TimerClock } from '../lib/time.js'
import { BatchWork } from './batch-work.js'
import { Busy } from './busy.js'
import type { DeadLetters } from './dead-letters.js'
import { Decided, type DecidedContext } from './decided.js'
import { FailedEvents } from './failed-events.js'
import { lineBatch, madeLine } from './made-batch.js'
import { SideOutput, STREAM_DEPTH } from './side-output.js'

export interface StageContext extends DecidedContext {
  readonly log: Logger
  readonly clock: TimerClock
  /** Whether an error of the processor fails the stream instead of the events that cause it. */
  readonly isStrict?: boolean
  readonly highWaterMark?: number | undefined
  /** Receives events that could not be processed, if `onError` is `dead_letter`. */
  readonly deadLetters?: DeadLetters | undefined
}

/** A processor that holds a batch for longer than this is stuck, not just waiting. */
const LONGEST_WAIT_MS = 60_000
/** How long a processor may take to stop after its deadline. */
const LATE_STOP_MS = 1000

/** A batch that has not left yet. */
interface Pending {
  readonly work: BatchWork
  readonly since: number
  isDecided: boolean
}

const WHAT_BECOMES = {
  pass: 'they are passed on with the field processing_error',
  discard: 'they are discarded',
  dead_letter: 'they are kept as dead letters',
} as const

/**
 * A processor as a stream of batches. The processor decides; the stage does everything else. Invariants:
 * - Batches leave in the order in which they arrived, each event once: to the main output, to a side output, or
 *   discarded, consumed or kept as a dead letter; and each event is counted accordingly.
 * - At most `plan.concurrency` batches are in the processor, and no batch is taken while an output is full.
 * - A failure of the processor is never an error of the stream, and never affects other events.
 */
export class Stage extends Transform {
  readonly outputs: ReadonlyMap<string, SideOutput>
  readonly busy = new Busy()
  readonly processor: Processor
  /** Set before the end of the stream when a successor replaces this stage. */
  isReplaced = false
  readonly #plan: Plan
  readonly #concurrency: number
  readonly #context: StageContext
  readonly #decided: Decided
  readonly #pending: Pending[] = []
  readonly #failed: FailedEvents
  readonly #ended = new AbortController()
  /** Shares held by the processor. */
  readonly #shares = new Set<Share>()
  readonly #limit: LogLimit
  /** The column for the next batch. */
  #column = new Uint8Array(1024)
  #isLeaving = false
  /** Takes the next batch. */
  #next: TransformCallback | undefined
  #flushed: TransformCallback | undefined
  #cancelTimer: (() => void) | undefined
  #isEmitDue = false
  /** Whether the main output requested a batch and got none since. */
  #isAsked = false

  constructor(processor: Processor, plan: Plan, context: StageContext) {
    const { highWaterMark = STREAM_DEPTH } = context
    super({ objectMode: true, highWaterMark })
    this.processor = processor
    this.#plan = plan
    this.#concurrency = plan.concurrency ?? 1
    this.#context = context
    this.#limit = new LogLimit(context.clock)
    this.#failed = new FailedEvents(context, this.#limit, this.#ended.signal)
    this.outputs = new Map(outputNames(plan, context.onError).map(name => [name, new SideOutput(highWaterMark)]))
    this.#decided = new Decided(plan, context, this.outputs, (batch, output) => this.hand(batch, output))
  }

  protected hand(batch: EventBatch, output?: SideOutput): void {
    if (output) output.write(batch)
    else this.push(batch)
  }

  async start(signal: AbortSignal): Promise<void> {
    // A processor that ignores its signal must not keep the daemon from stopping.
    await Promise.race([this.processor.start?.(signal), aborted(signal)])
    this.#setTimer()
  }

  /** Never throws, and returns soon after the deadline, so that others can save their state. */
  async stop(deadline: AbortSignal): Promise<void> {
    const { log, clock } = this.#context
    this.#cancelTimer?.()
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

  /** Whether it waits because dead letters cannot be written. */
  get isUnwritable(): boolean {
    return this.#failed.isUnwritable
  }

  /** Events and bytes that were taken and have not left. */
  holds(): { events: number; bytes: number } {
    const batches = this.#pending.map(({ work }) => work.batch)
    if (this.#failed.held) batches.push(this.#failed.held)
    const held = { events: 0, bytes: 0 }
    for (const { length, bytes } of batches) {
      held.events += length
      held.bytes += bytes
    }
    return held
  }

  /** Whether it has work and no good reason to wait. */
  get owes(): boolean {
    if (this.destroyed || this.writableLength + this.readableLength === 0) return false
    if ([this, ...this.outputs.values()].some(({ readableFlowing }) => readableFlowing === false)) return false
    const first = this.#pending[0]
    return !first || first.isDecided || this.#context.clock.now() - first.since > LONGEST_WAIT_MS
  }

  override _transform(batch: EventBatch, _encoding: string, done: TransformCallback): void {
    if (batch.length === 0) {
      // A processor may assume an event. Without one it could take a share that is never settled.
      batch.ack.settle('delivered')
      done()
      return
    }
    this.#context.metrics.took(batch.length, batch.bytes)
    const to = this.#columnFor(batch.length)
    const work = new BatchWork(batch, to, this.#shares, this.#ended.signal)
    if (!this.#context.isStrict) batch.remember()
    if (this.#pending.length === this.#concurrency - 1) this.busy.begin()
    let waits: void | Promise<void>
    try {
      waits = this.processor.process(batch, to, work)
      if (!waits) work.end()
    } catch (error) {
      if (this.#context.isStrict) {
        done(error as Error)
        return
      }
      waits = Promise.reject(error)
    }
    if (!waits && this.#pending.length === 0 && !this.#isLeaving && !this.#decided.needsLetters(work)) {
      this.#leave(work)
      this.busy.end()
      this.#whenRoom(done)
      return
    }
    // The processor may still write to the column.
    this.#column = new Uint8Array(this.#column.length)
    const pending = { work, since: this.#context.clock.now(), isDecided: waits === undefined }
    this.#pending.push(pending)
    this.#next = done
    if (waits) void this.#decide(pending, waits)
    else void this.#releaseDecided()
    this.#takeNext()
  }

  #columnFor(length: number): Uint8Array {
    if (this.#column.length < length) this.#column = new Uint8Array(length * 2)
    return this.#column.fill(MAIN, 0, length)
  }

  async #decide(pending: Pending, waits: Promise<void>): Promise<void> {
    // After an abort the batch is settled while the processor may still read its bytes.
    const release = holdChunk(pending.work.batch.chunk)
    try {
      await waits
      pending.work.end()
    } catch (error) {
      if (this.destroyed) return
      await pending.work.processEach(this.processor)
      if (!pending.work.errors && !this.destroyed) this.#logBatchFailure(pending.work, error)
    } finally {
      release?.()
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
      if (letters) await this.#failed.keep(letters, [...(work.errors?.values() ?? [])])
      if (!(await this.#hasRoom())) return
    }
    this.#isLeaving = false
    this.#takeNext()
    if (this.#isEmitDue) this.#emitInTime()
    if (this.#flushed && this.#pending.length === 0) this.#end(this.#flushed)
  }

  #takeNext(): void {
    const next = this.#next
    if (!next || this.#pending.length >= this.#concurrency) return
    this.#next = undefined
    this.#whenRoom(next)
  }

  #leave(work: BatchWork): EventBatch | undefined {
    const failures = this.#decided.failures(work)
    if (failures > 0) this.#logFailures(work, failures)
    return this.#decided.send(work, failures)
  }

  #logFailures({ batch, errors, hasBug }: BatchWork, events: number): void {
    const limited = this.#limit.next(hasBug ? 'bug' : 'failed')
    if (!limited) return
    const { source, path: file, peer } = batch.origin
    const [error] = errors?.values() ?? []
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', source, file, peer, events, error, ...limited }
    const text = `processor failed on some events; ${WHAT_BECOMES[this.#context.onError]}`
    if (hasBug) this.#context.log.error(fields, text)
    else this.#context.log.warn(fields, text)
  }

  /** Logs a failure that no single event reproduces. */
  #logBatchFailure({ batch }: BatchWork, cause: unknown): void {
    this.#context.metrics.failed('bug')
    const limited = this.#limit.next('batch')
    if (!limited) return
    const { source, path: file, peer } = batch.origin
    const error = errorText(cause)
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', source, file, peer, events: batch.length, error, ...limited }
    this.#context.log.warn(fields, 'processor failed on a batch, but on none of its events alone; all were processed')
  }

  #whenRoom(done: TransformCallback): void {
    const full = this.#fullOutputs()
    if (full.length === 0) done()
    else void this.#hasRoom().then(hasRoom => hasRoom && done())
  }

  #fullOutputs(): SideOutput[] {
    const full: SideOutput[] = []
    for (const output of this.outputs.values()) if (output.writableNeedDrain && !output.destroyed) full.push(output)
    return full
  }

  /** Resolves when every side output has room; false: it never will. */
  async #hasRoom(): Promise<boolean> {
    for (const output of this.#fullOutputs()) {
      await new Promise<void>(resolve => {
        const go = () => {
          output.off('drain', go)
          output.off('close', go)
          resolve()
        }
        output.on('drain', go)
        output.on('close', go)
      })
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
    // Node.js calls this before it takes a batch from a full queue, and not again before it receives one.
    this.#isAsked = true
    super._read(size)
    if (this.#pending.length > 0 || this.#isEmitDue) void this.#releaseDecided()
  }

  #setTimer(): void {
    const { every } = this.#plan
    if (every === undefined || this.destroyed || this.writableEnded) return
    this.#cancelTimer = this.#context.clock.after(every, () => {
      this.#setTimer()
      this.#emitInTime()
    })
  }

  /** Emits now, or later if there is no room. */
  #emitInTime(): void {
    this.#isEmitDue = !this.#isWanted
    if (!this.#isEmitDue) this.#emit('time')
  }

  #emit(why: EmitReason): void {
    const { metrics, origin, clock } = this.#context
    if (this.destroyed || !this.processor.emit) return
    const lines: string[] = []
    const shares = new Set<Share>()
    const unwritten: Share[] = []
    try {
      for (const { fields, shares: own = [] } of this.processor.emit(why)) {
        try {
          lines.push(madeLine(fields))
          for (const share of own) shares.add(share)
        } catch (error) {
          unwritten.push(...own)
          this.#logEmitFailure(error)
        }
      }
    } catch (error) {
      this.#logEmitFailure(error)
    }
    // The source would read the same events again, with the same result.
    for (const share of unwritten) if (!shares.has(share)) share.settle('rejected')
    if (lines.length === 0) return
    for (const share of shares) this.#shares.delete(share)
    const ack = new Ack(status => {
      for (const share of shares) share.settle(status)
    })
    const batch = lineBatch(Buffer.from(lines.join('')), origin, clock.wall(), ack)
    metrics.emitted(batch.length, batch.bytes)
    metrics.sent(batch.length, batch.bytes)
    this.hand(batch)
  }

  #logEmitFailure(cause: unknown): void {
    this.#context.metrics.failed('bug')
    const limited = this.#limit.next('emit')
    if (!limited) return
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', error: errorText(cause), ...limited }
    this.#context.log.error(fields, 'processor failed to emit events')
  }

  override _flush(done: TransformCallback): void {
    if (this.#pending.length === 0 && !this.#isLeaving) this.#end(done)
    else this.#flushed = done
  }

  #end(done: TransformCallback): void {
    this.#flushed = undefined
    this.#cancelTimer?.()
    this.#emit(this.isReplaced ? 'reload' : 'drain')
    for (const output of this.outputs.values()) output.end()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#cancelTimer?.()
    this.#ended.abort()
    for (const output of this.outputs.values()) if (!output.writableEnded) output.destroy()
    // The source reads the events again.
    for (const share of [...this.#shares]) share.settle('errored')
    for (const { work } of this.#pending) work.batch.ack.settle('errored')
    done(error)
  }
}
