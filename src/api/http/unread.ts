import type { ServerResponse } from 'node:http'
import { onReplyOver } from '../../http/server/reply.js'
import { ApiError } from '../domain/errors.js'

/** Shorter answers are not counted: the number of connections bounds them. */
const SHORT = 16 * 1024
/** Of all answers that their clients have not read yet. */
const MOST_BYTES = 64 * 1024 * 1024
/** One account may hold so many times what is left, so that something is left for the next one. */
const TIMES_WHAT_IS_LEFT = 3

/** Bounds what answers hold in memory whose clients do not read them. */
export class Unread {
  #bytes = 0
  readonly #byAccount = new Map<string, number>()
  readonly #most: number

  constructor(most = MOST_BYTES) {
    this.#most = most
  }

  /** Throws ApiError 503 when there is no room for an answer of so many bytes. */
  check(account: string, bytes: number): void {
    if (bytes <= SHORT) return
    const left = this.#most - this.#bytes - bytes
    if ((this.#byAccount.get(account) ?? 0) + bytes <= TIMES_WHAT_IS_LEFT * left) return
    const message = 'clients of this account have not read the answers that they asked for; read them, and ask again'
    throw new ApiError(503, 'overloaded', message, { headers: { 'retry-after': '1' } })
  }

  /** Counts an answer until it is read, or its connection is gone. */
  hold(account: string, bytes: number, response: ServerResponse): void {
    if (bytes <= SHORT) return
    this.#add(account, bytes)
    onReplyOver(response, () => this.#add(account, -bytes))
  }

  #add(account: string, bytes: number): void {
    this.#bytes += bytes
    const own = (this.#byAccount.get(account) ?? 0) + bytes
    if (own > 0) this.#byAccount.set(account, own)
    else this.#byAccount.delete(account)
  }
}
