import { type AddressInfo, createServer, Socket } from 'node:net'
import { snappyDecompress } from '@platformatic/wasm-utils'
import { programOptions } from '../test/support/program-options.js'
import { COUNTED, countLines } from './line-counter.js'
import { eachRecord, type MessageKind } from './peers/otlp.js'
import { type RequestHead, RequestReader } from './request-reader.js'

/**
 * The receiver that the HTTP jobs deliver to, as a process of its own: counts the lines and bytes of every request.
 * Sends its parent its port; answers any message with the counts so far. With --records bodies are messages of the
 * OpenTelemetry protocol (`otlp`) or of Loki (`loki`), whose log records count as lines. With --bulk it answers as the
 * bulk API of Elasticsearch does. With --reply every answer has that body, for senders that read it.
 *
 * It shares the processor with what is measured. So all connections read into one memory, where the lines are counted.
 */

const LF = 0x0a
const { options } = programOptions({ records: '', bulk: false, reply: '' })
const records = options.records as MessageKind | ''
const STATUS = records === 'loki' ? '204 No Content' : '200 OK'
let lines = 0
let bytes = 0

/** What Elasticsearch says about itself, and about its license, which Filebeat asks for. */
const ABOUT = JSON.stringify({
  name: 'bench',
  cluster_name: 'bench',
  cluster_uuid: 'bench',
  version: { number: '7.17.29', build_flavor: 'default', lucene_version: '8.11.3' },
  tagline: 'You Know, for Search',
  license: { uid: 'bench', type: 'basic', mode: 'basic', status: 'active' },
})
const ITEM = '{"create":{"status":201}}'
let items: string[] = []

/** The response of the bulk API to a request with this number of events. */
function bulkReply(method: string, events: number): string {
  if (method !== 'POST') return ABOUT
  if (items.length < events) items = new Array<string>(events * 2).fill(ITEM)
  return `{"took":1,"errors":false,"items":[${items.slice(0, events).join()}]}`
}

/** Clients of S3 expect an ETag, and those of Elasticsearch the name of the product. */
function headersOf(reply: string): string {
  if (records === 'loki') return ''
  const body = reply === '' ? '' : 'content-type: application/json\r\nx-elastic-product: Elasticsearch\r\n'
  return `etag: "bench"\r\ncontent-length: ${reply.length}\r\n${body}`
}

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Counts one body after the other. */
class Counting {
  /** Of this body, without a line whose end was left out. */
  lines = 0
  #lastByte = LF
  /** With --records, the body so far. */
  #message = Buffer.alloc(0)
  #length = 0

  take(part: Buffer, from: number, to: number): void {
    if (records) this.#collect(part, from, to)
    else {
      bytes += to - from
      const found = countLines(from, to)
      lines += found
      this.lines += found
      this.#lastByte = part[to - 1]!
    }
  }

  /** A line end that a sender left out is counted as well, so that bytes can be compared. */
  end(): void {
    if (records) {
      const body = this.#message.subarray(0, this.#length)
      const count = (_: Buffer, begin: number, end: number) => {
        lines++
        bytes += end - begin + 1
      }
      eachRecord(records === 'loki' ? snappyDecompress(body) : body, count, records)
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
      counting.lines = 0
      if (head.expects) socket.write(CONTINUE)
    },
    body: (part, from, to) => counting.take(part, from, to),
    end() {
      counting.end()
      const closing = request.closes ? 'connection: close\r\n' : ''
      const reply = options.bulk ? bulkReply(request.method, counting.lines / 2) : options.reply
      socket.write(`HTTP/1.1 ${STATUS}\r\n${headersOf(reply)}${closing}\r\n${request.method === 'HEAD' ? '' : reply}`)
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
