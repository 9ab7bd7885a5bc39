import { appendFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { HOST } from './address.js'
import { NONE, programOptions } from './program-options.js'

/** One request as it came, its body unpacked. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  readonly socket: Socket
  /** Number of the connection, from 1. */
  readonly connection: number
  body: string
  /** What was answered; undefined when nothing was. */
  status: number | undefined
}

/** How to answer. `reset` and `hang` are about when: the body unread, the body taken, half of the answer sent. */
export interface Answer {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly delayMs?: number
  /** Answers when this resolves. */
  readonly wait?: Promise<void>
  /** Answers without reading the body, and closes the connection. */
  readonly early?: boolean
  readonly reset?: 'before_body' | 'after_body' | 'in_answer'
  readonly hang?: 'before_body' | 'after_body' | 'in_answer'
}

/** A function decides when the body is there. */
export type Step = number | Answer | ((received: Received) => number | Answer)

export interface ReceiverOptions {
  readonly port?: number
  /** Requests are answered 401 without this in `Authorization`. */
  readonly authorization?: string | undefined
  /** Lines that were accepted are appended here as well. */
  readonly out?: string | undefined
  readonly tls?: https.ServerOptions
}

/** A real HTTP server at HOST that answers by script and remembers what it got. */
export class Receiver {
  readonly requests: Received[] = []
  /** Answers to come, one a request; then `otherwise`. */
  readonly script: Step[] = []
  otherwise: Step = 200
  authorization: string | undefined
  connections = 0
  readonly #server: http.Server
  readonly #out: string | undefined
  readonly #tls: boolean
  readonly #numbers = new WeakMap<Socket, number>()

  constructor(options: ReceiverOptions) {
    this.authorization = options.authorization
    this.#out = options.out
    this.#tls = options.tls !== undefined
    const answer = (request: http.IncomingMessage, response: http.ServerResponse) => {
      this.#answer(request, response).catch(() => request.socket.destroy())
    }
    this.#server = options.tls ? https.createServer(options.tls, answer) : http.createServer(answer)
    // Idle connections are closed by the other side only.
    this.#server.keepAliveTimeout = 0
    this.#server.on(options.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
      this.#numbers.set(socket, ++this.connections)
      socket.on('error', () => {})
    })
  }

  /** Its address, with a path of your choice. */
  url(path = '/ingest'): string {
    const { port } = this.#server.address() as AddressInfo
    return `${this.#tls ? 'https' : 'http'}://${HOST}:${port}${path}`
  }

  /** Lines of all requests that were answered with 2xx, in order. */
  lines(): string[] {
    return this.requests.flatMap(({ status, body }) => (status !== undefined && status < 300 ? linesOf(body) : []))
  }

  async listen(port = 0): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, HOST, resolve)
    })
    return this
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = '', url = '', headers, socket } = request
    const received: Received = {
      method,
      path: url,
      headers,
      socket,
      connection: this.#numbers.get(socket) ?? 0,
      body: '',
      status: undefined,
    }
    this.requests.push(received)
    let step = this.script.shift() ?? this.otherwise
    if (typeof step === 'object' && (step.reset ?? step.hang) === 'before_body')
      return step.reset ? cut(socket) : undefined
    if (typeof step === 'object' && step.early) {
      received.status = step.status ?? 200
      response
        .writeHead(received.status, { connection: 'close', ...step.headers })
        .end(step.body, () => socket.destroy())
      return
    }
    received.body = unpack(
      await bodyOf(request),
      headers['content-encoding'] ?? PACKED[headers['content-type'] ?? ''],
    ).toString()
    if (typeof step === 'function') step = step(received)
    const answer: Answer = typeof step === 'number' ? { status: step } : step
    if (answer.delayMs !== undefined) await new Promise(resolve => setTimeout(resolve, answer.delayMs))
    await answer.wait
    if (answer.reset === 'after_body') return cut(socket)
    if (answer.hang === 'after_body') return
    let status = answer.status ?? 200
    if (this.authorization !== undefined && headers.authorization !== this.authorization) status = 401
    response.writeHead(status, { 'x-request-id': `request-${this.requests.length}`, ...answer.headers })
    received.status = status
    if (status < 300 && this.#out && method !== 'HEAD') appendFileSync(this.#out, received.body)
    if (answer.reset !== 'in_answer' && answer.hang !== 'in_answer') response.end(answer.body)
    else response.write(`${answer.body ?? 'half of it'}`, () => answer.reset && cut(socket))
  }
}

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  return await new Receiver(options).listen(options.port)
}

function cut(socket: Socket): void {
  socket.resetAndDestroy()
}

async function bodyOf(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** Of objects, whose type says how they are compressed. */
const PACKED: Readonly<Record<string, string>> = { 'application/gzip': 'gzip', 'application/zstd': 'zstd' }

function unpack(body: Buffer, encoding: string | undefined): Buffer {
  if (encoding === 'gzip') return zlib.gunzipSync(body)
  if (encoding === 'zstd')
    return (zlib as unknown as { zstdDecompressSync: (b: Buffer) => Buffer }).zstdDecompressSync(body)
  return body
}

function linesOf(body: string): string[] {
  const lines = body.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** As a program: `receiver.js [--port N] [--authorization 'Token k'] [--out FILE]`; prints its address. */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { options } = programOptions({ port: 0, authorization: NONE, out: NONE })
  const receiver = await startReceiver(options)
  process.stdout.write(`${receiver.url()}\n`)
}
