import type { ServerResponse } from 'node:http'
import { onReplyOver } from '../../../net/http/server/respond.js'
import { ApiError } from '../domain/errors.js'

/** Shorter responses are not counted: the number of connections limits them. */
const SHORT = 16 * 1024
/** Limit of all responses that clients have not read yet. */
const MOST_BYTES = 64 * 1024 * 1024
/** One account may hold at most this many times the memory that is left, which leaves some for others. */
const TIMES_WHAT_IS_LEFT = 3

/** Limits the memory of responses that clients do not read. */
export class Unread {
  #bytes = 0
  readonly #byAccount = new Map<string, number>()
  readonly #most: number

  constructor(most = MOST_BYTES) {
    this.#most = most
  }

  /** Throws ApiError 503 if there is no room for a response with this text. */
  check(account: string, text: string): void {
    const bytes = Buffer.byteLength(text)
    if (bytes <= SHORT) return
    const left = this.#most - this.#bytes - bytes
    if ((this.#byAccount.get(account) ?? 0) + bytes <= TIMES_WHAT_IS_LEFT * left) return
    const message = 'clients of this account have not read the answers that they asked for; read them, and ask again'
    throw new ApiError(503, 'overloaded', message, { headers: { 'retry-after': '1' } })
  }

  /** Counts a response until it is sent or its connection is closed. */
  hold(account: string, text: string, response: ServerResponse): void {
    const bytes = Buffer.byteLength(text)
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
