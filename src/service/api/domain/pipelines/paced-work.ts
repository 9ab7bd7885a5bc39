import { sleep, systemClock } from '../../../../lib/time.js'
import { ApiError } from '../errors.js'

/** Maximum waiting work per account. Further work is refused. */
const MOST_WAITING = 100

/**
 * Runs pieces of work that block the event loop for a while, such as checking a configuration. One piece runs after the
 * other, and accounts take turns. After each piece, the event loop is free for as long as the piece took. A piece
 * starts immediately if no piece is waiting or has just run.
 */
export class PacedWork {
  readonly #waiting = new Map<string, (() => void)[]>()
  #working = false

  /** Rejects with the errors of `work`, or with ApiError 429. Only the synchronous part of `work` is paced. */
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

  /** Takes work of the account whose turn it is, and moves the account to the end of the queue. */
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
  const message = `${MOST_WAITING} pipeline changes of this account already wait to be checked; send this again later`
  return new ApiError(429, 'too_many_requests', message, { headers: { 'retry-after': '5' } })
}
