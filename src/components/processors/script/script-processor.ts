import { encodeLines } from '../../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import type { Processor, ProcessorContext } from '../../../core/component.js'
import { errorText, OptionError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { after, nextTurn } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import type { Job, JobDone, JobHead, ScriptData } from './messages.js'
import type { ScriptOptions } from './options.js'
import { NotLoadable, type ProcessEvents, ScriptProcess, scriptData } from './script-process.js'
import { WrittenLines } from './written-lines.js'

/**
 * A healthy process answers within the timeout. If it has not answered after the timeout plus 2 × GRACE_MS, one of its
 * calls does not return. GRACE_MS counts twice, because both processes may have been suspended.
 */
const GRACE_MS = 500
/**
 * How many times a process that sends data gets more time. The process may be sending its answer, or may be in an
 * endless call.
 */
const MOST_GRACES = 5
/**
 * How many events of a batch may be skipped because their calls ended the process. If another call ends the process,
 * the batch fails.
 */
const MOST_DEATHS = 10

interface Unanswered {
  readonly id: number
  readonly length: number
  /** Bytes of the lines sent to the process. */
  bytes: number
  readonly batch: EventBatch
  readonly answer: (result: JobDone) => void
  /** Whether a process ended while it had this batch. */
  isNoted: boolean
  /** The last event whose call began after the batch was posted. */
  at: number | undefined
  /** Events to skip because a process ended during their call, and how that process ended. */
  readonly skip: JobHead['skip'][number][]
}

/**
 * Runs a script in a process. Restarts the process when a call does not return, uses too much memory, or ends the
 * process. The new process gets the batch again, makes one call at a time, and reports each call before the call begins.
 * If the new process also ends, the event of the last call fails, and the next process gets the other events. With
 * `per: batch`, all events of the batch fail instead.
 */
export class ScriptProcessor implements Processor {
  readonly #options: ScriptOptions
  readonly #context: ProcessorContext
  readonly #data: ScriptData
  readonly #limit: LogLimit
  readonly #restarts: { value: number }
  /** Batches by id, in the order of arrival. */
  readonly #unanswered = new Map<number, Unanswered>()
  #lastId = 0
  #process: ScriptProcess | undefined
  #isStarting = false
  #isOver = false
  /** The batch whose answer is due. */
  #watched: Unanswered | undefined
  #cancel: (() => void) | undefined

  /** Throws if the script cannot be loaded. The error is an OptionError if the script itself is wrong. */
  static async open(options: ScriptOptions, context: ProcessorContext): Promise<ScriptProcessor> {
    const processor = new ScriptProcessor(options, context)
    try {
      processor.#process = await processor.#open()
    } catch (cause) {
      const option = options.file === undefined ? 'code' : 'file'
      if (cause instanceof NotLoadable) throw new OptionError(option, cause.message, cause)
      throw new Error(`processors.${context.id}.${option}: ${errorText(cause)}`, { cause })
    }
    return processor
  }

  private constructor(options: ScriptOptions, context: ProcessorContext) {
    this.#options = options
    this.#context = context
    this.#limit = new LogLimit(context.clock)
    this.#data = scriptData(context.id, options)
    const help = 'How often the process of the script was started again because it ended or did not answer.'
    this.#restarts = context.metrics.counter('sluice_script_restarts_total', help)
  }

  #open(): Promise<ScriptProcess> {
    // The output is limited here again, because a script may evade the limit in its process.
    const written = new WrittenLines(output => this.#context.log.info({ output }, 'the script wrote'))
    const events: ProcessEvents = {
      expected: id => this.#unanswered.get(id as number),
      done: result => this.#answered(result),
      at: (id, event) => {
        const job = this.#unanswered.get(id)!
        // Each call has the whole timeout.
        if (job.at === undefined || job.at < event) this.#watchAgain()
        job.at = event
      },
      wrote: line => written.add(line),
      died: reason => this.#died(reason),
    }
    return ScriptProcess.open(this.#data, this.#options.max_memory, events)
  }

  async process(batch: EventBatch, to: Uint8Array, scope: BatchScope): Promise<void> {
    const result = await this.#run(batch)
    // The batch has been settled.
    if (scope.signal.aborted) return
    apply(batch, to, scope, result)
  }

  /** Never rejects. */
  #run(batch: EventBatch): Promise<JobDone> {
    return new Promise(answer => {
      this.#lastId = (this.#lastId + 1) & 0x3fffffff
      const id = this.#lastId
      const { length } = batch
      const job: Unanswered = { id, length, bytes: 0, batch, answer, isNoted: false, at: undefined, skip: [] }
      this.#unanswered.set(id, job)
      if (this.#process) this.#post(this.#process, job)
      else void this.#restart()
      this.#watch()
    })
  }

  #post(process: ScriptProcess, job: Unanswered): void {
    const { id, isNoted, skip } = job
    const posted = jobOf(job.batch, { id, isNoted, skip })
    job.bytes = posted.lines.length
    job.at = undefined
    process.post(posted)
  }

  /** Ends the process. Unanswered batches were not acknowledged, so the events in them are read again. */
  async stop(): Promise<void> {
    this.#isOver = true
    this.#cancel?.()
    this.#process?.end()
  }

  #answered(result: JobDone): void {
    const job = this.#unanswered.get(result.id)
    this.#unanswered.delete(result.id)
    this.#watch()
    job?.answer(result)
  }

  #watch(): void {
    const [oldest] = this.#unanswered.values()
    if (oldest === this.#watched) return
    this.#cancel?.()
    this.#watched = oldest
    this.#cancel = oldest && after(this.#data.timeoutMs + GRACE_MS, () => this.#doubt(oldest))
  }

  /** The time of the oldest batch begins again. */
  #watchAgain(): void {
    this.#watched = undefined
    this.#watch()
  }

  #doubt(job: Unanswered, times = 0): void {
    const before = this.#process?.received
    this.#cancel = after(GRACE_MS, async () => {
      // An answer that arrived while the daemon was busy is read in the next turn.
      await nextTurn()
      if (this.#watched !== job || !this.#process) return
      if (this.#process.received !== before && times < MOST_GRACES) return this.#doubt(job, times + 1)
      this.#process.end()
      this.#died(`a call did not return within ${formatDuration(this.#data.timeoutMs)}`)
    })
  }

  #died(reason: string): void {
    this.#process = undefined
    this.#cancel?.()
    this.#watched = undefined
    if (this.#isOver) return
    this.#restarts.value++
    const limited = this.#limit.next('died')
    const fields = { code: 'SLUICE_SCRIPT_ENDED', error: reason, ...limited }
    if (limited) this.#context.log.error(fields, 'restarting the script; values that it kept between events are lost')
    const [oldest] = this.#unanswered.values()
    if (!oldest) return
    if (!oldest.isNoted) oldest.isNoted = true
    else if (oldest.at !== undefined && oldest.skip.length < MOST_DEATHS && this.#data.per === 'event')
      oldest.skip.push([oldest.at, reason])
    else this.#fail(oldest, reason)
    if (this.#unanswered.size > 0) void this.#restart()
  }

  async #restart(): Promise<void> {
    if (this.#isStarting || this.#isOver) return
    this.#isStarting = true
    try {
      const process = await this.#open()
      if (this.#isOver) return process.end()
      this.#process = process
      for (const job of this.#unanswered.values()) this.#post(process, job)
      // The earlier watch on the oldest batch ended with the process.
      this.#watchAgain()
    } catch (error) {
      const limited = this.#limit.next('start')
      const fields = { code: 'SLUICE_SCRIPT_ENDED', error: errorText(error), ...limited }
      if (limited) this.#context.log.error(fields, 'cannot restart the script; its events fail until it starts')
      this.#failAll(`cannot restart the script: ${errorText(error)}`)
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
    this.#answered({ id, to, errors, ...nothing })
  }
}

function jobOf(batch: EventBatch, head: Omit<JobHead, 'length'>): Job {
  const { parts, bytes } = encodeLines(JSON_OBJECTS, [batch])
  const lines = Buffer.allocUnsafeSlow(bytes)
  let at = 0
  for (const part of parts) at += part.copy(lines, at)
  return { ...head, length: batch.length, lines }
}

function apply(batch: EventBatch, to: Uint8Array, scope: BatchScope, done: JobDone): void {
  to.set(done.to)
  for (const [i, error] of done.errors) scope.because(i, error)
  const { starts, ends, bytes, several } = done
  if (bytes.length === 0) return
  const lines = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  for (const i of several) {
    scope.replaceByLines(i, lines, starts[i], ends[i])
    ends[i] = 0
  }
  const texts = batch.textsToChange()
  const at = texts.reserve(bytes.length - 1, 0)
  texts.bytes.set(bytes, at)
  texts.end(at + bytes.length - 1)
  for (let i = 0; i < batch.length; i++) if (ends[i] !== 0) batch.setText(i, at + starts[i]!, at + ends[i]!)
}
