import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { type DiskAnswer, type DiskCall, DONE, GIVEN_UP, WAITING } from './messages.js'

const START_MS = 5000

/**
 * A thread that makes synchronous calls of node:fs for a caller that waits a limited time. The descriptors that it
 * opens are valid in the whole process. After a timeout, the thread accepts no more calls. When the late call returns,
 * the thread closes any file that the call opened, and ends.
 */
export class FsThread {
  /** Resolves when the thread is ready or has failed. */
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  hasFailed = false
  readonly #flag = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  readonly #port: MessagePort

  constructor() {
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      name: 'remote files',
      workerData: { port: port2, flag: this.#flag },
      transferList: [port2],
      execArgv: [],
      env: {},
      // Files that the thread has opened stay open when the thread ends.
      trackUnmanagedFds: false,
    })
    worker.unref()
    worker.once('error', () => (this.hasFailed = true))
    this.ended = new Promise(resolve => worker.once('exit', () => resolve()))
    this.ready = Promise.race([this.ended, new Promise<void>(resolve => worker.once('message', () => resolve()))])
  }

  /** Returns the answer; undefined after a timeout. Do not use the thread again after a timeout. */
  call(call: DiskCall, ms: number): DiskAnswer | undefined {
    if (!this.#isDone(START_MS)) return undefined
    Atomics.store(this.#flag, 0, WAITING)
    this.#port.postMessage(call)
    return this.#isDone(ms) ? (receiveMessageOnPort(this.#port)!.message as DiskAnswer) : undefined
  }

  #isDone(ms: number): boolean {
    Atomics.wait(this.#flag, 0, WAITING, ms)
    return Atomics.compareExchange(this.#flag, 0, WAITING, GIVEN_UP) === DONE
  }
}
