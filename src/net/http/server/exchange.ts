import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { OpenRequest } from '../../intake.js'
import type { Refusal } from './refusal.js'
import { onReplyOver } from './respond.js'

/** A request that can be refused until its body was read. */
export class Refusable {
  #fail: ((refusal: Refusal) => void) | undefined
  #refusal: Refusal | undefined

  /** Call before reading the body. If `fail` is called, it must end the reading. Returns false if it was called. */
  reading(fail: (refusal: Refusal) => void): boolean {
    this.#fail = fail
    if (this.#refusal) fail(this.#refusal)
    return !this.#refusal
  }

  /** Call when the body was read completely. From then on, the request can no longer be refused. */
  read(): void {
    this.#fail = undefined
  }

  /** Refuses the request, unless its body was already read. */
  refuse(refusal: Refusal): void {
    this.#refusal ??= refusal
    this.#fail?.(refusal)
  }
}

export class Exchange extends Refusable implements OpenRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly socket: Socket
  readonly closed: Promise<void>
  /** Whether the client waits for 100 Continue before it sends the body. */
  #waits: boolean

  constructor(request: IncomingMessage, response: ServerResponse) {
    super()
    this.request = request
    this.response = response
    this.socket = request.socket
    // HTTP/1.0 clients do not support 100 Continue.
    this.#waits = request.headers.expect !== undefined && request.httpVersion === '1.1'
    this.closed = new Promise(resolve => onReplyOver(response, resolve))
    response.on('error', () => {})
  }

  override reading(fail: (refusal: Refusal) => void): boolean {
    const isOpen = super.reading(fail)
    if (isOpen && this.#waits) this.response.writeContinue()
    if (isOpen) this.#waits = false
    return isOpen
  }
}
