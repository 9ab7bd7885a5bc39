import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { OpenRequest } from '../../intake.js'
import type { Refusal } from './refusal.js'
import { onReplyOver } from './respond.js'

export class Exchange implements OpenRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly socket: Socket
  readonly closed: Promise<void>
  /** Whether the client waits for 100 Continue before it sends the body. */
  #waits: boolean
  #fail: ((refusal: Refusal) => void) | undefined
  #refusal: Refusal | undefined

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request
    this.response = response
    this.socket = request.socket
    // HTTP/1.0 clients do not support 100 Continue.
    this.#waits = request.headers.expect !== undefined && request.httpVersion === '1.1'
    this.closed = new Promise(resolve => onReplyOver(response, resolve))
    response.on('error', () => {})
  }

  /** Call before reading the body. If `fail` is called, it must end the reading. */
  reading(fail: (refusal: Refusal) => void): void {
    this.#fail = fail
    if (this.#refusal) fail(this.#refusal)
    else {
      if (this.#waits) this.response.writeContinue()
      this.#waits = false
    }
  }

  /** Call when the body was read completely. From then on, the request can no longer be refused. */
  read(): void {
    this.#fail = undefined
  }

  refuse(refusal: Refusal): void {
    this.#refusal ??= refusal
    this.#fail?.(refusal)
  }
}
