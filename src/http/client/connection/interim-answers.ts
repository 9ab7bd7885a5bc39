import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

/**
 * Removes interim answers (`100 Continue`, `102 Processing`, `103 Early Hints`) from what a connection receives. Any
 * receiver may send them, in any number (RFC 9110, 15.2), but undici closes the connection at a 100, and the same
 * request would be sent for ever.
 */

const VERSION = Buffer.from('HTTP/1.')
const STATUS_LINE_BYTES = 'HTTP/1.1 100'.length
/** Every status from 100 to 199 but 101, after which no other answer follows. */
const INTERIM = /^HTTP\/1\.\d 1(?!01)\d\d$/
const HEAD_END = '\r\n\r\n'
/** The parser refuses a head that is longer. */
const LONGEST_HEAD = 16 * 1024
const EMPTY = Buffer.alloc(0)

const heads = new WeakMap<object, AnswerHead>()

// The one moment that only undici knows: a connection's next bytes are the head of an answer, and not the rest of a body.
subscribe('undici:client:sendHeaders', message => {
  heads.get((message as { readonly socket: object }).socket)?.expect()
})

/** From now on nobody who reads from the socket sees interim answers. */
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

/** Whether a final answer has begun to arrive over the connection. */
export function wasAnswered(socket: Socket): boolean {
  return heads.get(socket)?.answered ?? false
}

/** The beginning of an answer, for as long as it may be that of an interim one. */
class AnswerHead {
  expected = false
  answered = false
  #pending: Buffer = EMPTY

  expect(): void {
    this.expected = true
    this.#pending = EMPTY
  }

  /** What of the bytes so far is to be passed on. */
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
