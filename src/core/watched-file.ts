import { stat } from 'node:fs/promises'
import { fileSystems } from '../lib/files/disk/file-systems.js'
import type { TimerClock } from '../lib/time.js'
import { errorCode } from './errors.js'

const LOOK_EVERY_MS = 1000

/**
 * A component's file that is read again when it changes. A change is applied only when two consecutive observations see
 * the same version, because a writer may not have finished at the first observation.
 */
export class WatchedFile<T> {
  readonly path: string
  readonly #clock: TimerClock
  readonly #read: () => Promise<T>
  /** The version that was read last, and the version that was observed last. */
  #version = ''
  #seen = ''
  #isStopped = false
  #cancel: (() => void) | undefined

  /** `read` reads the file. Instead of throwing, it returns a value that describes the error. */
  constructor(path: string, clock: TimerClock, read: () => Promise<T>) {
    this.path = path
    this.#clock = clock
    this.#read = read
  }

  async first(): Promise<T> {
    this.#version = this.#seen = await this.#look()
    return this.#read()
  }

  /** Observes the file every second until `stop`. `use` receives the new content after a change. */
  watch(use: (read: T) => void): void {
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => {
      void this.#check(use).finally(() => {
        if (!this.#isStopped) this.watch(use)
      })
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
  }

  async #check(use: (read: T) => void): Promise<void> {
    const before = this.#seen
    this.#seen = await this.#look()
    if (this.#seen === this.#version || this.#seen !== before) return
    const read = await this.#read()
    if (this.#isStopped || (await this.#look()) !== this.#seen) return
    this.#version = this.#seen
    use(read)
  }

  /** Returns a text that changes when the file is written or replaced. */
  async #look(): Promise<string> {
    const { path } = this
    try {
      const found = await fileSystems.runInTime(path, () => stat(path, { bigint: true }))
      return `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`
    } catch (error) {
      return String(errorCode(error))
    }
  }
}
