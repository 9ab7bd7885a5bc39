import { after } from '../../../lib/time.js'

/** One waits, others wake it. A call that comes before the wait is not lost. */
export class Waker {
  #woken = false
  #resume: (() => void) | undefined

  wake(): void {
    this.#woken = true
    this.#resume?.()
  }

  /** Resolves after `ms`, or as soon as somebody calls `wake`. */
  wait(ms: number): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        cancel()
        this.#resume = undefined
        this.#woken = false
        resolve()
      }
      const cancel = after(ms, done)
      this.#resume = done
      if (this.#woken) done()
    })
  }
}
