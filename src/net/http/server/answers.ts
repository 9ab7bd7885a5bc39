import type { IncomingMessage, ServerResponse } from 'node:http'

/** Most bytes of a refused body that are read in order to keep its connection. */
const DRAIN_BYTES = 1024 * 1024
/** Minimum cost of a part in bytes, however small it is. */
const PART_BYTES = 256

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Closes the connection after this response. */
  readonly close?: boolean
}

/** Sends a response with a JSON body. Does nothing if the client has disconnected. */
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

/** Discards the rest of a request that was already answered, which lets the client read the response. */
export function readPast(request: IncomingMessage): void {
  let left = DRAIN_BYTES
  request.on('data', (part: Buffer) => {
    left -= Math.max(part.length, PART_BYTES)
    if (left < 0) request.socket.destroy()
  })
  request.resume()
}
