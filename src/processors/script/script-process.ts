import { Worker } from 'node:worker_threads'
import { errorCode } from '../../core/errors.js'
import { after } from '../../lib/time.js'
import type { FromScript, Job, JobDone, ScriptData } from './messages.js'
import type { ScriptOptions } from './options.js'
import { scriptError } from './script-error.js'

/** How long loading a script may take. */
const LOAD_MS = 10_000

/** What a thread is started with. */
export function scriptData(id: string, options: ScriptOptions): ScriptData {
  const { code, file, per, outputs, timeout: timeoutMs, concurrency } = options
  const current = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
  return { id, code, file, per, outputs, timeoutMs, concurrency, current }
}

export interface ThreadEvents {
  done(result: JobDone): void
  /** The script wrote this to its standard output or error. */
  wrote(line: string): void
  /** The thread ended without being asked to; nothing comes from it any more. */
  died(reason: string): void
}

/** One life of the thread that a script runs in. Once the script is loaded, it does not keep the process alive. */
export class ScriptThread {
  readonly #worker: Worker
  #isOver = false
  /** While it loads. */
  #loading: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined
  #reason = 'it ended itself'

  /** Resolves when the script is loaded. Throws if it cannot be. */
  static async open(data: ScriptData, maxMemory: number, events: ThreadEvents): Promise<ScriptThread> {
    const thread = new ScriptThread(data, maxMemory, events)
    const cancel = after(LOAD_MS, () =>
      thread.#loading?.reject(new Error(`it was not loaded within ${LOAD_MS / 1000} s`)),
    )
    try {
      await new Promise<void>((resolve, reject) => {
        thread.#loading = { resolve, reject }
      })
      thread.#worker.unref()
      return thread
    } catch (error) {
      thread.end()
      throw error
    } finally {
      cancel()
      thread.#loading = undefined
    }
  }

  private constructor(data: ScriptData, maxMemory: number, events: ThreadEvents) {
    this.#worker = new Worker(new URL('./script-worker.js', import.meta.url), {
      name: `script ${data.id}`,
      workerData: data,
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(maxMemory / 1024 / 1024) },
    })
    this.#worker.on('message', (message: FromScript) => {
      if (this.#isOver) return
      if (message.type === 'done') events.done(message)
      else if (message.type === 'wrote') events.wrote(message.line)
      else if (message.type === 'ready') this.#loading?.resolve()
      else this.#loading?.reject(new Error(message.error))
    })
    this.#worker.once('error', error => {
      const isMemory = errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY'
      this.#reason = isMemory ? 'it needed more than max_memory' : `it failed: ${scriptError(error)}`
    })
    this.#worker.once('exit', () => {
      if (this.#isOver) return
      this.#isOver = true
      if (this.#loading) this.#loading.reject(new Error(this.#reason))
      else events.died(this.#reason)
    })
  }

  post(job: Job): void {
    if (!this.#isOver) this.#worker.postMessage(job, [job.lines.buffer as ArrayBuffer])
  }

  end(): void {
    this.#isOver = true
    void this.#worker.terminate()
  }
}
