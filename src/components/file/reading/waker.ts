import { after } from '../../../lib/time.js'

/** Lets one caller wait until others wake it. A call of `wake` before the wait is not lost. */
export class Waker {
  #woken = false
  #resume: (() => void) | undefined

  wake(): void {
    this.#woken = true
    this.#resume?.()
  }

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
