import type { ProcessorContext } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { FAILED } from '../../core/processor.js'
import { LogLimit } from '../../lib/log-limit.js'
import { after, nextTurn } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import type { Job, JobDone, ScriptData } from './messages.js'
import type { ScriptOptions } from './options.js'
import { jobOf } from './script-job.js'
import { ScriptThread, scriptData } from './script-thread.js'

/**
 * A thread that works answers within the timeout. One that did not after this time, twice, is in a call that does not
 * end. Twice, because both threads may have stood still.
 */
const GRACE_MS = 500

/** A batch that the thread has not answered. */
interface Unanswered {
  readonly id: number
  readonly batch: EventBatch
  readonly answer: (result: JobDone) => void
  /** The event in whose call the thread ended before, and why it ended. */
  skip: Job['skip']
}

/**
 * Runs a script in a thread, and starts the thread again when a call does not return from it, uses too much memory, or
 * ends it. The event of that call fails, and the others of the batch are given to the script again; when it happens a
 * second time in a batch, all its events fail.
 */
export class ScriptRunner {
  readonly #options: ScriptOptions
  readonly #context: ProcessorContext
  readonly #data: ScriptData
  readonly #limit: LogLimit
  readonly #restarts: { value: number }
  /** In the order of their arrival. */
  readonly #unanswered = new Map<number, Unanswered>()
  #lastId = 0
  #thread: ScriptThread | undefined
  #isStarting = false
  #isOver = false
  /** The batch whose answer is waited for. */
  #watched: Unanswered | undefined
  #cancel: (() => void) | undefined

  /** Throws if the script cannot be loaded. */
  static async open(options: ScriptOptions, context: ProcessorContext): Promise<ScriptRunner> {
    const runner = new ScriptRunner(options, context)
    runner.#thread = await runner.#open()
    return runner
  }

  private constructor(options: ScriptOptions, context: ProcessorContext) {
    this.#options = options
    this.#context = context
    this.#limit = new LogLimit(context.clock)
    this.#data = scriptData(context.id, options)
    const help = 'How often the thread of the script was started again because it ended or did not answer.'
    this.#restarts = context.metrics.counter('sluice_script_restarts_total', help)
  }

  #open(): Promise<ScriptThread> {
    return ScriptThread.open(this.#data, this.#options.max_memory, {
      done: result => this.#answered(result),
      wrote: output => this.#context.log.info({ output }, 'the script wrote'),
      died: reason => this.#died(reason),
    })
  }

  /** What the script makes of a batch. Never throws. */
  run(batch: EventBatch): Promise<JobDone> {
    return new Promise(answer => {
      this.#lastId = (this.#lastId + 1) & 0x3fffffff
      const id = this.#lastId
      const job: Unanswered = { id, batch, answer, skip: undefined }
      this.#unanswered.set(id, job)
      if (this.#thread) this.#thread.post(jobOf(job))
      else void this.#restart()
      this.#watch()
    })
  }

  /** Ends the thread. What it has not answered by then is read again, since it was not acknowledged. */
  end(): void {
    this.#isOver = true
    this.#cancel?.()
    this.#thread?.end()
  }

  #answered(result: JobDone): void {
    const job = this.#unanswered.get(result.id)
    this.#unanswered.delete(result.id)
    this.#watch()
    job?.answer(result)
  }

  /** Watches over the oldest batch. */
  #watch(): void {
    const [oldest] = this.#unanswered.values()
    if (oldest === this.#watched) return
    this.#cancel?.()
    this.#watched = oldest
    this.#cancel = oldest && after(this.#data.timeoutMs + GRACE_MS, () => this.#doubt(oldest))
  }

  #doubt(job: Unanswered): void {
    this.#cancel = after(GRACE_MS, async () => {
      // An answer may have arrived while this thread was busy.
      await nextTurn()
      if (this.#watched !== job || !this.#thread) return
      this.#thread.end()
      this.#died(`a call did not return within ${formatDuration(this.#data.timeoutMs)}`)
    })
  }

  /** The thread has ended. */
  #died(reason: string): void {
    this.#thread = undefined
    this.#cancel?.()
    this.#watched = undefined
    if (this.#isOver) return
    this.#restarts.value++
    const limited = this.#limit.next('died')
    const fields = { code: 'SLUICE_SCRIPT_ENDED', error: reason, ...limited }
    if (limited) this.#context.log.error(fields, 'the script is started again; what it kept between events is lost')
    const [oldest] = this.#unanswered.values()
    if (!oldest) return
    const [id, event] = this.#data.current as unknown as [number, number]
    if (id === oldest.id && !oldest.skip && this.#data.per === 'event') oldest.skip = { event, reason }
    else this.#fail(oldest, reason)
    if (this.#unanswered.size > 0) void this.#restart()
  }

  async #restart(): Promise<void> {
    if (this.#isStarting || this.#isOver) return
    this.#isStarting = true
    try {
      const thread = await this.#open()
      if (this.#isOver) return thread.end()
      this.#thread = thread
      for (const job of this.#unanswered.values()) thread.post(jobOf(job))
      // Its time begins now: whoever watched it so far gave up when there was no thread.
      this.#watched = undefined
      this.#watch()
    } catch (error) {
      const limited = this.#limit.next('start')
      const fields = { code: 'SLUICE_SCRIPT_ENDED', error: errorText(error), ...limited }
      if (limited) this.#context.log.error(fields, 'the script cannot be started again; its events fail until it can')
      this.#failAll(`the script cannot be started again: ${errorText(error)}`)
    } finally {
      this.#isStarting = false
    }
  }

  #failAll(reason: string): void {
    for (const job of [...this.#unanswered.values()]) this.#fail(job, reason)
  }

  #fail({ id, batch: { length } }: Unanswered, reason: string): void {
    const errors = Array.from({ length }, (_, i) => [i, reason] as const)
    const to = new Uint8Array(length).fill(FAILED)
    const none = new Int32Array(length)
    const nothing = { starts: none, ends: none, bytes: new Uint8Array(), several: [] }
    this.#answered({ type: 'done', id, to, errors, ...nothing })
  }
}
