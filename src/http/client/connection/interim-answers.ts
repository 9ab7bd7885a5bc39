import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

/**
 * Removes interim responses (`100 Continue`, `102 Processing`, `103 Early Hints`) from the bytes that a connection
 * receives. Any receiver may send them, in any number (RFC 9110, 15.2), but undici closes the connection on a 100, and
 * the same request would be repeated forever.
 */

const VERSION = Buffer.from('HTTP/1.')
const STATUS_LINE_BYTES = 'HTTP/1.1 100'.length
/** Every status from 100 to 199 except 101, which is final. */
const INTERIM = /^HTTP\/1\.\d 1(?!01)\d\d$/
const HEAD_END = '\r\n\r\n'
/** The parser rejects a longer head. */
const LONGEST_HEAD = 16 * 1024
const EMPTY = Buffer.alloc(0)

const heads = new WeakMap<object, AnswerHead>()

// Only undici knows this moment: the next bytes of the connection are the head of a response, not the rest of a body.
subscribe('undici:client:sendHeaders', message => {
  heads.get((message as { readonly socket: object }).socket)?.expect()
})

/** From now on, readers of the socket do not see interim responses. */
export function skipInterimAnswers(socket: Socket): void {
  if (heads.has(socket)) return
  const head = new AnswerHead()
  heads.set(socket, head)
  const read = socket.read.bind(socket)
  socket.read = size => {
    if (size !== undefined) return read(size)
    for (;;) {
      const chunk: unknown = read()
      if (!head.expected || !Buffer.isBuffer(chunk)) return chunk
      const rest = head.take(chunk)
      if (rest.length > 0) return rest
    }
  }
}

/** Whether a final response has begun to arrive on the connection. */
export function wasAnswered(socket: Socket): boolean {
  return heads.get(socket)?.answered ?? false
}

/** Buffers the beginning of a response as long as it may be an interim one. */
class AnswerHead {
  expected = false
  answered = false
  #pending: Buffer = EMPTY

  expect(): void {
    this.expected = true
    this.#pending = EMPTY
  }

  /** Returns the bytes that can be passed on. */
  take(chunk: Buffer): Buffer {
    let bytes = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    while (mayBeInterim(bytes)) {
      const end = bytes.indexOf(HEAD_END)
      if (end < 0) {
        this.#pending = bytes
        return EMPTY
      }
      bytes = bytes.subarray(end + HEAD_END.length)
    }
    this.expected = false
    this.answered = true
    this.#pending = EMPTY
    return bytes
  }
}

function mayBeInterim(bytes: Buffer): boolean {
  if (bytes.length > LONGEST_HEAD && !bytes.subarray(0, LONGEST_HEAD).includes(HEAD_END)) return false
  if (bytes.length >= STATUS_LINE_BYTES) return INTERIM.test(bytes.toString('latin1', 0, STATUS_LINE_BYTES))
  return bytes.subarray(0, VERSION.length).equals(VERSION.subarray(0, bytes.length))
}
