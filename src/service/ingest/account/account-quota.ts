import type { Lease } from '../../../net/http/server/quota.js'
import { overloaded, Refusal } from '../../../net/http/server/refusal.js'

/**
 * One account may hold at most this many times the capacity that it leaves free. A single account can thus hold three
 * quarters. Even if many accounts take their share, some capacity remains for the next account.
 */
const TIMES_WHAT_IS_LEFT = 3

interface Used {
  requests: number
  bytes: number
}

/** Limits the number and the memory of unanswered requests, in total and for each account. */
export class AccountQuotas {
  readonly #max: Used
  readonly #used: Used = { requests: 0, bytes: 0 }
  readonly #accounts = new Map<string, Used>()
  readonly #which: string

  /** `which` describes the requests in a Refusal. */
  constructor(max: { readonly requests: number; readonly bytes: number }, which = 'that wait to be delivered') {
    this.#max = { ...max }
    this.#which = which
  }

  get requests(): number {
    return this.#used.requests
  }

  get bytes(): number {
    return this.#used.bytes
  }

  /**
   * Counts a request until its lease is released; the release also releases `other`. Throws Refusal after too many
   * requests.
   */
  lease(account: string, other?: Lease): Lease {
    try {
      this.#check(account, 'requests', 1)
    } catch (error) {
      other?.release()
      throw error
    }
    const own = this.#accounts.get(account) ?? { requests: 0, bytes: 0 }
    this.#accounts.set(account, own)
    own.requests++
    this.#used.requests++
    let held = 0
    const add = (bytes: number) => {
      own.bytes += bytes
      this.#used.bytes += bytes
      held += bytes
    }
    return {
      hold: bytes => {
        other?.hold(bytes)
        if (bytes > held) this.#check(account, 'bytes', bytes - held)
        add(bytes - held)
      },
      received: () => {},
      release: () => {
        other?.release()
        add(-held)
        own.requests--
        this.#used.requests--
        if (own.requests === 0) this.#accounts.delete(account)
      },
    }
  }

  #check(account: string, what: keyof Used, more: number): void {
    const left = this.#max[what] - this.#used[what] - more
    if (left < 0) throw overloaded()
    const own = (this.#accounts.get(account)?.[what] ?? 0) + more
    if (own <= TIMES_WHAT_IS_LEFT * left) return
    const share = Math.floor((TIMES_WHAT_IS_LEFT * (left + own)) / (TIMES_WHAT_IS_LEFT + 1))
    throw new Refusal(
      503,
      'account_share_exceeded',
      `at present, this account may have ${share} ${what} ${this.#which}; with this request it would have ${own}. Send this again later`,
      { 'retry-after': '5' },
    )
  }
}
