import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Characters that must be encoded in a header value: all but printable ASCII without spaces and percent signs. */
const NOT_PLAIN = /[^\x21-\x24\x26-\x7e]/

/**
 * Encodes any text as a header value. Bytes of its UTF-8 form that are not printable ASCII, spaces and percent signs
 * are percent-encoded; `decodeURIComponent` returns the text. Lone surrogates become U+FFFD.
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

/** Responds with 500 in place of an unwritable reply, or destroys the connection if a part of it was already sent. */
export function failReply(response: ServerResponse): void {
  if (response.writableEnded || response.destroyed) return
  try {
    if (response.headersSent) throw new Error('the head has been sent')
    for (const name of response.getHeaderNames()) response.removeHeader(name)
    const body = `${JSON.stringify({ code: 'failed', message: 'the reply could not be written', errors: [] })}\n`
    const length = Buffer.byteLength(body)
    const headers = { 'content-type': 'application/json', 'content-length': length, connection: 'close' }
    response.writeHead(500, headers).end(response.req.method === 'HEAD' ? '' : body)
  } catch {
    response.destroy()
  }
}

/** Callbacks for the end of each connection. */
const closing = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `done` when the connection closes, immediately if it is closed. One listener serves all pipelined requests of a
 * connection. Returns a function that cancels it.
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
 * Calls `done` once, when a reply was sent or its connection is closed. The event `close` of the response is not
 * enough: the response to a pipelined request that waits for earlier ones never emits it when the connection closes.
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
