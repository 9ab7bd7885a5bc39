import { sleep, systemClock } from '../../../lib/time.js'
import { ApiError } from '../errors.js'

/** Of one account; more are refused. */
const MOST_WAITING = 100

/**
 * Work that occupies the event loop for a while, such as checking a configuration. It is done one piece after the other,
 * the accounts by turns, and after each piece the process belongs to everybody else for as long as that piece took. Who is
 * alone with a small piece waits for nothing.
 */
export class PacedWork {
  readonly #waiting = new Map<string, (() => void)[]>()
  #working = false

  /** Throws what `work` throws; ApiError 429 when too much of the account waits. What `work` waits for is not paced. */
  do<T>(account: string, work: () => T | Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const run = () => {
        try {
          resolve(work())
        } catch (error) {
          reject(error as Error)
        }
      }
      const own = this.#waiting.get(account)
      if (!own) this.#waiting.set(account, [run])
      else if (own.length < MOST_WAITING) own.push(run)
      else reject(tooMany())
      if (!this.#working) void this.#workOff()
    })
  }

  async #workOff(): Promise<void> {
    this.#working = true
    for (let next = this.#take(); next; next = this.#take()) {
      const began = systemClock.now()
      next()
      const took = systemClock.now() - began
      await sleep(took)
    }
    this.#working = false
  }

  /** Of the account whose turn it is; it goes behind the others then. */
  #take(): (() => void) | undefined {
    const [first] = this.#waiting
    if (!first) return undefined
    const [account, own] = first
    const next = own.shift()
    this.#waiting.delete(account)
    if (own.length > 0) this.#waiting.set(account, own)
    return next
  }
}

function tooMany(): ApiError {
  const message = `${MOST_WAITING} changes of pipelines of this account wait to be checked; send this again later`
  return new ApiError(429, 'too_many_requests', message, { headers: { 'retry-after': '5' } })
}
