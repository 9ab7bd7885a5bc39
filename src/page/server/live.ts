import type { ServerResponse } from 'node:http'
import { Refusal } from '../../net/http/server/refusal.js'
import { onReplyOver } from '../../net/http/server/respond.js'

/** Maximum number of readers. Each reader has a connection and gets one message per second. */
const MOST_READERS = 32
/** A reader with more unread bytes than this is slow, and misses messages until it catches up. */
const BEHIND_BYTES = 256 * 1024
/** A reader with more unread bytes than this is disconnected. */
const UNREAD_BYTES = 1024 * 1024
const AGAIN_MS = 2000

interface Reader {
  readonly response: ServerResponse
  /** Whether the reader has not received the newest status yet. */
  wantsStatus: boolean
}

/** Sends server-sent events to all readers of the page. A slow reader does not delay the others. */
export class Live {
  readonly #readers = new Set<Reader>()
  #status = ''

  get isRead(): boolean {
    return this.#readers.size > 0
  }

  /** Sends the status first, and then the messages that follow, until the client disconnects. Throws a Refusal. */
  add(response: ServerResponse, status: string): void {
    if (this.#readers.size >= MOST_READERS)
      throw new Refusal(503, 'too_many', `the page is open ${MOST_READERS} times; close one of them`, {
        'retry-after': '5',
      })
    const reader = { response, wantsStatus: true }
    this.#readers.add(reader)
    onReplyOver(response, () => this.#readers.delete(reader))
    // `x-accel-buffering` keeps proxies from buffering the response.
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
    response.write(`retry: ${AGAIN_MS}\n\n`)
    this.#status = status
    this.#send(reader)
  }

  /** Sends the numbers of one second. If the status is new, sends it first. Skips slow readers. */
  second(text: string): void {
    for (const reader of this.#readers) this.#send(reader, text)
  }

  /** Sets the status that the next call of `second` sends. */
  status(text: string): void {
    this.#status = text
    for (const reader of this.#readers) reader.wantsStatus = true
  }

  #send(reader: Reader, second?: string): void {
    const { response } = reader
    if (response.writableLength > UNREAD_BYTES) {
      response.destroy()
      return
    }
    if (response.writableLength > BEHIND_BYTES) return
    if (reader.wantsStatus) response.write(`event: status\ndata: ${this.#status}\n\n`)
    reader.wantsStatus = false
    if (second !== undefined) response.write(`event: second\ndata: ${second}\n\n`)
  }
}
