import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { STATUS_CODES } from '../../../lib/network/node-http.js'

/** To keep a connection, at most this many bytes of a refused body are read. */
const DRAIN_BYTES = 1024 * 1024
/** A part counts as at least this many bytes. */
const PART_BYTES = 256

export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly close?: boolean
}

/** Sends a response with a JSON body. A Buffer is sent as it is. Does nothing if the client has disconnected. */
export function sendReply(response: ServerResponse, reply: Reply): void {
  if (response.destroyed || response.writableEnded) return
  if (response.headersSent) throw new Error('a part of another reply has been sent')
  const { body: given = '' } = reply
  const body = given === '' || Buffer.isBuffer(given) ? given : `${JSON.stringify(given)}\n`
  response.writeHead(reply.status, {
    ...(body ? { 'content-type': 'application/json' } : {}),
    'content-length': Buffer.byteLength(body),
    ...reply.headers,
    ...(reply.close ? { connection: 'close' } : {}),
  })
  response.end(response.req.method === 'HEAD' ? '' : body)
}

/** Reads and discards the remaining body of an answered request, so that the client can read the response. */
export function readPast(request: IncomingMessage): void {
  let left = DRAIN_BYTES
  request.on('data', (part: Buffer) => {
    left -= Math.max(part.length, PART_BYTES)
    if (left < 0) request.socket.destroy()
  })
  request.resume()
}

/** Characters to encode in a header value: spaces, percent signs, and characters that are not printable ASCII. */
const NOT_PLAIN = /[^\x21-\x24\x26-\x7e]/

/**
 * Encodes any text as a header value. Percent-encodes spaces, percent signs, and UTF-8 bytes that are not printable
 * ASCII. `decodeURIComponent` returns the text. Lone surrogates become U+FFFD.
 */
export function headerText(text: string): string {
  if (!NOT_PLAIN.test(text)) return text
  let encoded = ''
  for (const byte of Buffer.from(text)) {
    const character = String.fromCharCode(byte)
    encoded += NOT_PLAIN.test(character) ? `%${byte.toString(16).toUpperCase().padStart(2, '0')}` : character
  }
  return encoded
}

/** Responds with 500 instead of a reply that cannot be written. If a part was already sent, destroys the connection. */
export function failReply(response: ServerResponse): void {
  if (response.writableEnded || response.destroyed) return
  try {
    for (const name of response.getHeaderNames()) response.removeHeader(name)
    const body = { code: 'failed', message: 'the reply could not be written', errors: [] }
    sendReply(response, { status: 500, body, close: true })
  } catch {
    response.destroy()
  }
}

/** Functions to call when a connection closes. */
const closing = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `done` when the connection closes, or immediately if it is closed already. Returns a function that cancels this
 * call. The pipelined requests of a connection share one listener.
 */
export function onConnectionClosed(socket: Socket, done: () => void): () => void {
  if (socket.closed) {
    done()
    return () => {}
  }
  const all = closing.get(socket) ?? new Set()
  if (!closing.has(socket)) {
    closing.set(socket, all)
    socket.once('close', () => {
      for (const one of all) one()
    })
  }
  all.add(done)
  return () => void all.delete(done)
}

/**
 * Calls `done` once, when a reply was sent or its connection was closed. Listening for the event `close` of the
 * response is not enough. If the connection closes while a pipelined request waits for earlier requests, the response
 * to the waiting request never emits `close`.
 */
export function onReplyOver(response: ServerResponse, done: () => void): void {
  const over = () => {
    response.off('close', over)
    cancel()
    if (!isOver) done()
    isOver = true
  }
  let isOver = false
  let cancel = () => {}
  response.once('close', over)
  cancel = onConnectionClosed(response.req.socket, over)
}

/** Ends a connection with a response that does not belong to a request. */
export function endWith(
  socket: Socket,
  status: number,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): void {
  const all = { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // After a timeout (408), closes the connection, because the client may never close its side. After other errors, the
  // client may still be sending, and closing the connection could discard the response.
  if (status === 408) socket.destroySoon()
}
