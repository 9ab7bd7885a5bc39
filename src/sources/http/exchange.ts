import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Refusal } from './refusal.js'

/** A request and its answer, until the answer is out or the connection is gone. */
export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly closed: Promise<void>
  /** While the body comes: ends that. */
  refuse: ((refusal: Refusal) => void) | undefined
  /** Whether the client still waits to be told to send the body. */
  #waits: boolean

  constructor(request: IncomingMessage, response: ServerResponse, waits: boolean) {
    this.request = request
    this.response = response
    this.#waits = waits
    this.closed = new Promise(resolve => response.once('close', resolve))
    response.on('error', () => {})
  }

  get waits(): boolean {
    return this.#waits
  }

  /** Tells a client that asked that it may send the body. */
  goOn(): void {
    if (this.#waits) this.response.writeContinue()
    this.#waits = false
  }
}
