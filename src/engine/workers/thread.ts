import { Worker } from 'node:worker_threads'
import { errorCode, errorText } from '../../core/errors.js'
import type { FromWorker, PartData, ThreadData, ToWorker } from './messages.js'

/** What a thread reports. */
export interface ThreadEvents {
  /** Any message but those that the thread handles itself. */
  message(message: FromWorker): void
  /** It ended without being asked to; nothing comes from it any more. */
  died(reason: string): void
}

/** One life of a worker thread. */
export class Thread {
  readonly #worker: Worker
  #isOver = false
  #built: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined
  #reason = 'it ended'

  constructor(name: string, data: ThreadData, events: ThreadEvents) {
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), { name, workerData: data })
    this.#worker.on('message', (message: FromWorker) => {
      if (this.#isOver) return
      if (message.type === 'built') this.#built?.resolve()
      else if (message.type === 'failed') this.#built?.reject(new Error(message.error))
      else events.message(message)
    })
    this.#worker.once('error', error => {
      this.#reason =
        errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? 'it ran out of memory' : `it failed: ${errorText(error)}`
    })
    this.#worker.once('exit', () => {
      if (this.#isOver) return
      this.#isOver = true
      this.#built?.reject(new Error(this.#reason))
      events.died(this.#reason)
    })
  }

  get isOver(): boolean {
    return this.#isOver
  }

  post(message: ToWorker, transfer: readonly ArrayBuffer[] = []): void {
    if (!this.#isOver) this.#worker.postMessage(message, transfer)
  }

  /** Builds a part; throws if it cannot be built. */
  async build(part: PartData): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        this.#built = { resolve, reject }
        if (this.#isOver) reject(new Error(this.#reason))
        else this.post({ type: 'build', part })
      })
    } finally {
      this.#built = undefined
    }
  }

  end(): void {
    this.#isOver = true
    this.#built?.reject(new Error('it was ended'))
    void this.#worker.terminate()
  }
}
