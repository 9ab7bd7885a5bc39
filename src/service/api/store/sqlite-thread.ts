import { Worker } from 'node:worker_threads'
import type { Writer } from './sqlite-connection.js'

/** A call to the thread: a method of its connection, with arguments. Answers come in the order of the calls. */
export type WriterCall = ['close'] | ['exec', string] | ['execute', ...Parameters<Writer['execute']>]
export type WriterAnswer = { readonly result: unknown } | { readonly message: string; readonly errcode?: number }

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/** A connection in a separate thread, so that the event loop does not wait for the disk. */
export class WriterThread implements Writer {
  readonly #worker: Worker
  readonly #waiting: Waiting[] = []
  #end: Error | undefined

  constructor(path: string) {
    const url = new URL('./sqlite-thread-main.js', import.meta.url)
    this.#worker = new Worker(url, { name: 'store', workerData: path, execArgv: [], trackUnmanagedFds: false })
    this.#worker.unref()
    this.#worker.on('message', (answer: WriterAnswer) => this.#answer(answer))
    this.#worker.once('error', error => this.#fail(error))
    this.#worker.once('exit', () => this.#fail(new Error('the thread that writes has ended; restart the service')))
  }

  async exec(text: string): Promise<void> {
    await this.#call(['exec', text])
  }

  execute(...call: Parameters<Writer['execute']>): Promise<unknown> {
    return this.#call(['execute', ...call])
  }

  async close(): Promise<void> {
    if (!this.#end) await this.#call(['close'])
    await this.#worker.terminate()
  }

  #call(call: WriterCall): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#end) return reject(this.#end)
      // Keeps the process running until the answer.
      this.#worker.ref()
      this.#waiting.push({ resolve, reject })
      this.#worker.postMessage(call)
    })
  }

  #answer(answer: WriterAnswer): void {
    const { resolve, reject } = this.#waiting.shift()!
    if (this.#waiting.length === 0) this.#worker.unref()
    if ('result' in answer) resolve(answer.result)
    else reject(Object.assign(new Error(answer.message), { errcode: answer.errcode }))
  }

  #fail(error: Error): void {
    this.#end ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(this.#end)
  }
}
