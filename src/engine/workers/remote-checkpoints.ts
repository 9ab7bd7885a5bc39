import type { Checkpoints } from '../../core/component.js'
import type { TimerClock } from '../../lib/time.js'
import type { CheckpointStore } from '../state/checkpoints.js'
import type { FromWorker } from './messages.js'

const INTERVAL_MS = 200
/** Building and sending documents takes at most 1/20 of the time of the thread. */
const BUSY_SHARE = 20

/**
 * The positions of the sources on a worker thread. The main thread alone writes them: each change is sent to it soon,
 * as the whole document of the source.
 */
export class RemoteCheckpoints implements CheckpointStore {
  readonly counts = { written: 0, failed: 0, corrupt: 0 }
  readonly #post: (message: FromWorker) => void
  readonly #clock: TimerClock
  readonly #sources = new Map<string, RemotePositions>()
  readonly #flushes = new Map<number, (error: string | undefined) => void>()
  #flush = 0

  constructor(post: (message: FromWorker) => void, clock: TimerClock) {
    this.#post = post
    this.#clock = clock
  }

  /** Takes over what is saved, for sources that are about to be created. */
  begin(positions: ReadonlyMap<string, unknown>): void {
    for (const [id, document] of positions) {
      if (this.#sources.has(id)) continue
      const post = (message: FromWorker) => this.#post(message)
      const flush = () => this.#flushOf(id)
      this.#sources.set(id, new RemotePositions(id, document, this.#clock, { post, flush }))
    }
  }

  forSource(id: string): Checkpoints {
    return this.#sources.get(id)!
  }

  async flush(): Promise<boolean> {
    const results = await Promise.allSettled([...this.#sources.values()].map(source => source.flush()))
    return results.every(({ status }) => status === 'fulfilled')
  }

  #flushOf(source: string): Promise<void> {
    const id = ++this.#flush
    return new Promise((resolve, reject) => {
      this.#flushes.set(id, error => (error === undefined ? resolve() : reject(new Error(error))))
      this.#post({ type: 'flush', source, id })
    })
  }

  flushed(id: number, error: string | undefined): void {
    this.#flushes.get(id)?.(error)
    this.#flushes.delete(id)
  }

  saved(savedAt: ReadonlyMap<string, number>): void {
    for (const [id, at] of savedAt) this.#sources.get(id)?.saved(at)
  }

  release(ids: readonly string[]): void {
    for (const id of ids) {
      this.#sources.get(id)?.close()
      this.#sources.delete(id)
    }
  }

  close(): void {
    this.release([...this.#sources.keys()])
  }

  /** The main thread knows what could not be saved. */
  unsaved(): [] {
    return []
  }
}

interface MainThread {
  readonly post: (message: FromWorker) => void
  /** Resolves when everything that was posted is saved. */
  readonly flush: () => Promise<void>
}

class RemotePositions implements Checkpoints {
  readonly #id: string
  readonly #document: unknown
  readonly #clock: TimerClock
  readonly #main: MainThread
  #snapshot: (() => unknown) | undefined
  #savedAt = 0
  #isDirty = false
  #notBefore = 0
  #cancel: (() => void) | undefined

  constructor(id: string, document: unknown, clock: TimerClock, main: MainThread) {
    this.#id = id
    this.#document = document
    this.#clock = clock
    this.#main = main
  }

  read(): unknown {
    return this.#document
  }

  provide(snapshot: () => unknown): void {
    this.#snapshot = snapshot
  }

  changed(): void {
    this.#isDirty = true
    if (this.#cancel) return
    const waitMs = Math.max(this.#notBefore - this.#clock.now(), INTERVAL_MS / 10)
    this.#cancel = this.#clock.after(waitMs, () => this.#send())
  }

  #send(): void {
    this.#cancel?.()
    this.#cancel = undefined
    if (!this.#isDirty || !this.#snapshot) return
    this.#isDirty = false
    const started = this.#clock.now()
    this.#main.post({ type: 'positions', source: this.#id, document: this.#snapshot() })
    const now = this.#clock.now()
    this.#notBefore = now + Math.max(INTERVAL_MS, BUSY_SHARE * (now - started))
  }

  async flush(): Promise<void> {
    this.#send()
    await this.#main.flush()
  }

  saved(at: number): void {
    if (at !== Number.POSITIVE_INFINITY) this.#savedAt = at
    else if (!this.#isDirty) this.#savedAt = this.#clock.wall()
  }

  get savedAt(): number {
    return this.#savedAt
  }

  close(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#snapshot = undefined
  }
}
