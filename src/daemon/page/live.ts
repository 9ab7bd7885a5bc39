import type { ServerResponse } from 'node:http'
import { Refusal } from '../../net/http/server/refusal.js'
import { onReplyOver } from '../../net/http/server/respond.js'

/** Each has a connection, and gets a message a second. */
const MOST_READERS = 32
/** A reader with more unread bytes is slow: it misses seconds. */
const BEHIND_BYTES = 256 * 1024
/** Bytes left unread that end the connection. */
const UNREAD_BYTES = 1024 * 1024
/** How soon a browser connects again. */
const AGAIN_MS = 2000

interface Reader {
  readonly response: ServerResponse
  /** Whether it has yet to get the newest status. */
  wantsStatus: boolean
}

/** Server-sent events for all readers of the page. A message is made once, and never waits for a reader. */
export class Live {
  readonly #readers = new Set<Reader>()
  #status = ''

  get isRead(): boolean {
    return this.#readers.size > 0
  }

  /** Sends what happens until the client disconnects, the status first. Throws a Refusal. */
  add(response: ServerResponse, status: string): void {
    if (this.#readers.size >= MOST_READERS)
      throw new Refusal(503, 'too_many', `the page is open ${MOST_READERS} times; close one of them`, {
        'retry-after': '5',
      })
    const reader = { response, wantsStatus: true }
    this.#readers.add(reader)
    onReplyOver(response, () => this.#readers.delete(reader))
    // Otherwise proxies collect what is sent.
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
    response.write(`retry: ${AGAIN_MS}\n\n`)
    this.#status = status
    this.#send(reader)
  }

  /** Sends numbers to all who read in time, and the status to those who do not have the newest one. */
  second(text: string): void {
    for (const reader of this.#readers) this.#send(reader, text)
  }

  /** The status to send with the next second. */
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
