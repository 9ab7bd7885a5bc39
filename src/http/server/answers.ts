import type { IncomingMessage, ServerResponse } from 'node:http'

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

/** Writes an answer, with its body as JSON; nothing where the client has gone. */
export function sendAnswer(response: ServerResponse, answer: Answer): void {
  if (response.destroyed || response.writableEnded) return
  if (response.headersSent) throw new Error('a part of another reply has been sent')
  const body = answer.body === undefined ? '' : `${JSON.stringify(answer.body)}\n`
  response.writeHead(answer.status, {
    ...(body ? { 'content-type': 'application/json' } : {}),
    'content-length': Buffer.byteLength(body),
    ...answer.headers,
    ...(answer.close ? { connection: 'close' } : {}),
  })
  response.end(response.req.method === 'HEAD' ? '' : body)
}

/** Reads past what a client still sends of a request that is answered, so that it gets to see the answer. */
export function readPast(request: IncomingMessage): void {
  let left = DRAIN_BYTES
  request.on('data', (part: Buffer) => {
    left -= Math.max(part.length, PART_BYTES)
    if (left < 0) request.socket.destroy()
  })
  request.resume()
}
