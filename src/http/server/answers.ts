import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

/** More of a body that is refused is not read to keep its connection. */
const DRAIN_BYTES = 1024 * 1024
/** A part costs as much as so many bytes, however small it is. */
const PART_BYTES = 256

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** The connection ends with it. */
  readonly close?: boolean
}

export function sendAnswer(response: ServerResponse, answer: Answer, close: boolean): void {
  if (response.destroyed || response.writableEnded) return
  if (response.headersSent) throw new Error('a part of another reply has been sent')
  const body = answer.body === undefined ? '' : `${JSON.stringify(answer.body)}\n`
  response.writeHead(answer.status, {
    ...(body ? { 'content-type': 'application/json' } : {}),
    'content-length': Buffer.byteLength(body),
    ...answer.headers,
    ...(close ? { connection: 'close' } : {}),
  })
  response.end(response.req.method === 'HEAD' ? '' : body)
}

/** Reads past what a client still sends of a request that is answered, so that it gets to see the answer. */
export function readPast(request: IncomingMessage, done: () => void): void {
  let left = DRAIN_BYTES
  request.on('data', (part: Buffer) => {
    left -= Math.max(part.length, PART_BYTES)
    if (left < 0) request.socket.destroy()
  })
  request.once('end', done)
  request.resume()
}

/** The status for what did not come in time, or is not HTTP; undefined when it is the connection that failed. */
export function statusOf(code: string | undefined): number | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code === 'HPE_HEADER_OVERFLOW') return 431
  return code?.startsWith('HPE_') ? 400 : undefined
}

/** Ends a connection with an answer that no request belongs to. */
export function endWith(socket: Socket, status: number): void {
  endWithText(
    socket,
    status,
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
  )
}

export function endWithText(socket: Socket, status: number, text: string): void {
  socket.end(text)
  // Who was too slow may never close its side. Others may still send: closing at once could take the answer away.
  if (status === 408) socket.destroySoon()
}
