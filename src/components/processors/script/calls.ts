import { isAscii } from 'node:buffer'
import { errorText } from '../../../core/errors.js'
import { systemClock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import type { Job, JobDone, ScriptData } from './messages.js'
import { Results, Routed } from './results.js'
import { scriptError } from './script-error.js'
import type { ScriptContext } from './types.js'

export type ScriptFunction = (given: unknown, context: ScriptContext) => unknown

/** The time is checked whenever this many calls have begun, even if they return without waiting. */
const LOOK_EVERY = 16

interface Running {
  readonly job: Job
  readonly lines: readonly string[]
  readonly results: Results
  readonly context: ScriptContext
  readonly abort: AbortController
  /**
   * The time on the system clock at which the batch reaches its timeout. With `isNoted`, each call has the whole timeout,
   * because calls that usually run at the same time run one after the other.
   */
  end: number
  readonly done: (result: JobDone) => void
  /** Calls that have not returned. */
  open: number
  isBegun: boolean
  isOver: boolean
  cancel: (() => void) | undefined
}

/**
 * Calls a user's function for the events of batches, in order, with at most `concurrency` calls at a time. If a batch
 * has `isNoted`, makes one call at a time: the process may end long after a call has begun, and then it must be known
 * which call this was.
 */
export class Calls {
  readonly #call: ScriptFunction
  readonly #data: ScriptData
  readonly #late: string
  readonly #begins: (batch: number, event: number) => void
  /** Number of calls that have not returned, in all batches that have not ended. */
  #open = 0
  /** Resumes the batch that waits until a running call returns. */
  #continue: (() => void) | undefined
  /** Resolves when the calls for all batches received so far have begun. */
  #begun = Promise.resolve()

  /** `begins`: called before each call of the user's function, if the batch has `isNoted`. */
  constructor(call: ScriptFunction, data: ScriptData, begins: (batch: number, event: number) => void) {
    this.#call = call
    this.#data = data
    this.#begins = begins
    this.#late = `the batch took longer than ${formatDuration(data.timeoutMs)}`
  }

  /** Runs a batch after all calls for earlier batches have begun. */
  run(job: Job, done: (result: JobDone) => void): void {
    this.#begun = this.#begun.then(() => this.#batch(this.#running(job, done)))
  }

  #running(job: Job, done: (result: JobDone) => void): Running {
    const lines = linesOf(job)
    const abort = new AbortController()
    const { id, timeoutMs } = this.#data
    return {
      job,
      lines,
      results: new Results(job.id, lines, job.lines.length),
      context: { id, signal: abort.signal, to: (output, event) => this.#route(output, event) },
      abort,
      end: systemClock.now() + timeoutMs,
      done,
      open: 0,
      isBegun: false,
      isOver: false,
      cancel: undefined,
    }
  }

  async #batch(batch: Running): Promise<void> {
    const { per, concurrency } = this.#data
    const calls = per === 'batch' ? 1 : batch.lines.length
    const most = batch.job.isNoted ? 1 : concurrency
    const skip = new Map(batch.job.skip)
    for (let n = 0; n < calls; n++) {
      while (this.#open >= most && !batch.isOver) {
        await new Promise<void>(resolve => {
          this.#continue = resolve
        })
      }
      if (n % LOOK_EVERY === 0 && systemClock.now() >= batch.end) this.#finish(batch)
      if (batch.isOver) return
      const skipped = skip.get(n)
      if (skipped !== undefined) batch.results.fail(n, skipped)
      else this.#begin(batch, n)
    }
    batch.isBegun = true
    if (batch.open === 0) this.#finish(batch)
  }

  #begin(batch: Running, n: number): void {
    const { per, timeoutMs } = this.#data
    if (batch.job.isNoted) {
      this.#begins(batch.job.id, n)
      batch.cancel?.()
      batch.cancel = undefined
      batch.end = systemClock.now() + timeoutMs
    }
    try {
      const result = this.#call(
        per === 'batch' ? batch.lines.map(line => JSON.parse(line)) : JSON.parse(batch.lines[n]!),
        batch.context,
      )
      if (isPromise(result)) this.#wait(batch, n, result)
      else this.#took(batch, n, result)
    } catch (error) {
      this.#failed(batch, n, error)
    }
  }

  #wait(batch: Running, n: number, result: PromiseLike<unknown>): void {
    batch.open++
    this.#open++
    batch.cancel ??= systemClock.after(batch.end - systemClock.now(), () => this.#finish(batch))
    const returned = (use: () => void) => {
      if (batch.isOver) return
      use()
      batch.open--
      this.#release(1)
      if (batch.isBegun && batch.open === 0) this.#finish(batch)
    }
    result.then(
      value => returned(() => this.#took(batch, n, value)),
      error => returned(() => this.#failed(batch, n, error)),
    )
  }

  #took({ results, lines }: Running, n: number, result: unknown): void {
    if (this.#data.per === 'event') {
      set(results, n, result)
      return
    }
    if (!Array.isArray(result) || result.length !== lines.length) {
      const what = Array.isArray(result) ? `${result.length} results` : 'a value that is not an array'
      results.failRest(`the script returned ${what} for ${lines.length} events; return an array with a result for each`)
    } else for (const [i, one] of result.entries()) set(results, i, one)
  }

  #failed({ results }: Running, n: number, error: unknown): void {
    if (this.#data.per === 'event') results.fail(n, scriptError(error))
    else results.failRest(scriptError(error))
  }

  /** Ends a batch. Events without a result fail. */
  #finish(batch: Running): void {
    if (batch.isOver) return
    batch.isOver = true
    batch.cancel?.()
    batch.results.failRest(this.#late)
    batch.done(batch.results.done())
    if (!batch.isBegun || batch.open > 0) batch.abort.abort(new Error(this.#late))
    this.#release(batch.open)
  }

  #release(calls: number): void {
    this.#open -= calls
    this.#continue?.()
    this.#continue = undefined
  }

  #route(name: string, event: object): Routed {
    const n = this.#data.outputs.indexOf(name)
    if (n >= 0) return new Routed(n, event)
    throw new Error(`the output ${name} does not exist; name it in the option outputs`)
  }
}

function set(results: Results, i: number, result: unknown): void {
  try {
    results.set(i, result)
  } catch (error) {
    results.fail(i, `the script ${errorText(error)}`)
  }
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

function linesOf({ lines, length }: Job): string[] {
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.length)
  const texts = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8').split('\n')
  texts.length = length
  return texts
}
