import { type AddressInfo, createServer, Socket } from 'node:net'
import { programOptions } from '../test/support/program-options.js'
import { COUNTED, countLines } from './line-counter.js'
import { eachRecord } from './peers/otlp.js'
import { type RequestHead, RequestReader } from './request-reader.js'

/**
 * The receiver that the HTTP jobs deliver to, as a process of its own: counts the lines and bytes of every request.
 * Sends its parent its port; answers any message with the counts so far. With --otlp bodies are requests of the
 * OpenTelemetry protocol, whose log records count as lines. With --reply every answer has that body, for senders that
 * read it.
 *
 * It shares the processor with what is measured. So all connections read into one memory, where the lines are counted.
 */

const LF = 0x0a
const { options } = programOptions({ otlp: false, reply: '' })
let lines = 0
let bytes = 0

const BODY_HEADERS = `content-length: ${options.reply.length}\r\n${options.reply === '' ? '' : 'content-type: application/json\r\n'}`
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Counts one body after the other. */
class Counting {
  #lastByte = LF
  /** With --otlp, the body so far. */
  #message = Buffer.alloc(0)
  #length = 0

  take(part: Buffer, from: number, to: number): void {
    if (options.otlp) this.#collect(part, from, to)
    else {
      bytes += to - from
      lines += countLines(from, to)
      this.#lastByte = part[to - 1]!
    }
  }

  /** A line end that a sender left out is counted as well, so that bytes can be compared. */
  end(): void {
    if (options.otlp) {
      eachRecord(this.#message.subarray(0, this.#length), (_, begin, end) => {
        lines++
        bytes += end - begin + 1
      })
      this.#length = 0
    } else if (this.#lastByte !== LF) {
      lines++
      bytes++
    }
    this.#lastByte = LF
  }

  #collect(part: Buffer, from: number, to: number): void {
    const length = this.#length + to - from
    if (length > this.#message.length) {
      const larger = Buffer.allocUnsafeSlow(length * 2)
      this.#message.copy(larger, 0, 0, this.#length)
      this.#message = larger
    }
    part.copy(this.#message, this.#length, from, to)
    this.#length = length
  }
}

const server = createServer({ pauseOnConnect: true }, accepted => {
  const counting = new Counting()
  let request: RequestHead
  const reader = new RequestReader({
    head(head) {
      request = head
      if (head.expects) socket.write(CONTINUE)
    },
    body: (part, from, to) => counting.take(part, from, to),
    end() {
      counting.end()
      const closing = request.closes ? 'connection: close\r\n' : ''
      socket.write(`HTTP/1.1 200 OK\r\n${BODY_HEADERS}${closing}\r\n${request.method === 'HEAD' ? '' : options.reply}`)
      if (request.closes) socket.end()
    },
  })
  const callback = (length: number) => {
    reader.read(COUNTED, length)
    return true
  }
  // Only the constructor says where to read to, so a second socket takes over the connection.
  const { _handle: handle } = accepted as unknown as { readonly _handle: object }
  const socket = new Socket({ handle, readable: true, writable: true, onread: { buffer: COUNTED, callback } } as object)
  socket.on('error', () => socket.destroy()).resume()
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('message', () => process.send?.({ lines, bytes }))
process.on('disconnect', () => process.exit())
