import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import { TLSSocket, type Server as TlsServer } from 'node:tls'
import { gunzipSync } from 'node:zlib'
import { HOST, ownPort } from '../support/address.js'
import type { Certificates } from './certificates.js'
import type { Fault } from './scenario.js'
import type { Arrival } from './written.js'

/** A receiver without an answer breaks the connection after this long. */
const HANG_MS = 600
/** An answer later than this share of the time limit may have come too late. */
const CLEAR_SHARE = 1 / 3
const SLOW_READS = 10

export interface ReceiverOptions {
  readonly certificates: Certificates | undefined
  /** The daemon's limit of one attempt. */
  readonly timeoutMs: number
  /** The body of a request that is kept; throws what is wrong with it. */
  readonly onArrival: (arrival: Arrival, body: Buffer) => void
  /** The body of a request that is refused for good. */
  readonly onRefused: (body: Buffer) => void
  readonly onFailure: (error: unknown) => void
}

interface Exchange {
  readonly arrival: Arrival
  readonly began: number
  ended: number
}

/** A real HTTP server that does what receivers do on bad days. */
export class Receiver {
  /** Until it is healed. */
  mode: Fault | undefined
  /** For one request each. */
  readonly script: Fault[] = []
  /** What requests must carry. */
  key = 'key-0'
  requests = 0
  readonly faults = new Map<string, number>()
  readonly #options: ReceiverOptions
  readonly #exchanges: Exchange[] = []
  readonly #hanging = new Set<() => void>()
  #server: http.Server | undefined
  #port = 0

  constructor(options: ReceiverOptions) {
    this.#options = options
  }

  get url(): string {
    return `${this.#options.certificates ? 'https' : 'http'}://${HOST}:${this.#port}/ingest`
  }

  /** Whether a request made now, or some time later, is accepted. */
  get healthy(): boolean {
    return this.mode === undefined
  }

  async listen(): Promise<void> {
    const { certificates } = this.#options
    const answer = (request: http.IncomingMessage, response: http.ServerResponse) => {
      this.#answer(request, response).catch((error: unknown) => {
        request.socket.destroy()
        if (!request.errored && !response.errored) this.#options.onFailure(error)
      })
    }
    const server = certificates ? https.createServer(certificates.good, answer) : http.createServer(answer)
    // An idle connection is closed by the other side only: a close from here could cross a request.
    server.keepAliveTimeout = 0
    server.requestTimeout = 0
    server.on('connection', (socket: Socket) => socket.on('error', () => {}))
    server.on('tlsClientError', () => {})
    // It stays free while the receiver is gone.
    this.#port ||= await ownPort()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, HOST, resolve)
    })
    this.#server = server
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    for (const end of this.#hanging) end()
    server?.closeAllConnections()
    await new Promise<void>(resolve => (server ? server.close(() => resolve()) : resolve()))
  }

  async fail(fault: Fault, times: number | undefined): Promise<void> {
    const lasting = fault.fault === 'gone' || fault.fault === 'tls' || fault.fault === 'key'
    if (times !== undefined && !lasting) {
      for (let i = 0; i < times; i++) this.script.push(fault)
      return
    }
    if (fault.fault === 'tls' && !this.#options.certificates) return
    await this.#mend()
    this.mode = fault
    this.#count(fault)
    if (fault.fault === 'gone') await this.close()
    if (fault.fault === 'tls') this.#present(this.#options.certificates!.bad)
    if (fault.fault === 'key') this.key = `key-${Number(this.key.slice(4)) + 1}`
  }

  /** From now on all is well; requests that wait for an answer get none. */
  async heal(): Promise<void> {
    if (this.mode?.fault === 'gone' && this.mode.long) return
    await this.#mend()
  }

  /** As `heal`, however long it was to last. */
  async healForGood(): Promise<void> {
    await this.#mend()
  }

  async #mend(): Promise<void> {
    const mode = this.mode
    this.mode = undefined
    this.script.length = 0
    for (const end of this.#hanging) end()
    if (mode?.fault === 'gone') await this.listen()
    if (mode?.fault === 'tls') this.#present(this.#options.certificates!.good)
  }

  #present(certificate: { cert: Buffer; key: Buffer }): void {
    const server = this.#server as http.Server & TlsServer
    server.setSecureContext(certificate)
    server.closeAllConnections()
  }

  /** The daemon stood still between these times: what it was answered then it may have missed. */
  stoodStill(from: number, to: number): void {
    if (to - from < this.#options.timeoutMs * CLEAR_SHARE) return
    for (const { arrival, ended } of this.#exchanges) if (ended >= from - this.#options.timeoutMs) arrival.clear = false
  }

  #count(fault: Fault): void {
    const { status, when, long } = fault as { status?: number; when?: string; long?: boolean }
    const name = [fault.fault, status ?? when ?? (long ? 'long' : undefined)].filter(Boolean).join(' ')
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1)
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const number = ++this.requests
    const began = performance.now()
    const { socket } = request
    const scripted = this.script.shift()
    const fault = scripted ?? this.mode
    if (scripted) this.#count(scripted)
    if (fault?.fault === 'reset' && fault.when === 'before') return cut(socket)
    if (fault?.fault === 'hang' && fault.when === 'before') return await this.#hang(socket)
    if (fault?.fault === 'status' && fault.early) {
      const headers = { connection: 'close' }
      return void response.writeHead(fault.status, headers).end('early', () => socket.destroy())
    }
    const body = await this.#body(request, fault)
    if (body === undefined) return
    if (request.headers.authorization !== `Token ${this.key}`) {
      return void response.writeHead(fault?.fault === 'key' ? fault.status : 401).end('wrong key')
    }
    const events = count(body)
    if (fault?.fault === 'status') {
      const headers = fault.retryAfter === undefined ? {} : { 'retry-after': String(fault.retryAfter) }
      return void response.writeHead(fault.status, headers).end()
    }
    if (fault?.fault === 'too_large' && events > fault.events) return void response.writeHead(413).end()
    if (fault?.fault === 'half' && events > 1) {
      this.script.unshift({ fault: 'slow', ms: 1 }, { fault: 'refuse', status: fault.status })
      return void response.writeHead(413).end()
    }
    if (fault?.fault === 'refuse') {
      this.#options.onRefused(body)
      return void response.writeHead(fault.status).end('no')
    }
    const arrival: Arrival = { life: Number(request.headers['x-life']), number, clear: false }
    const divided = fault?.fault === 'some' ? divide(body, fault) : undefined
    if (divided?.refused.length) this.#options.onRefused(divided.refused)
    const stored = (fault?.fault !== 'reset' && fault?.fault !== 'hang') || fault.stored
    if (stored) this.#options.onArrival(arrival, divided?.taken ?? body)
    if (fault?.fault === 'reset' && fault.when === 'after') return cut(socket)
    if (fault?.fault === 'hang') return await this.#hang(socket)
    if (fault?.fault === 'reset') {
      response.writeHead(200, { 'content-length': '10' }).write('half', () => cut(socket))
      return
    }
    if (divided) {
      const { status, errors } = divided
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
    } else response.writeHead(202).end()
    response.on('finish', () => {
      const ended = performance.now()
      arrival.clear = ended - began < this.#options.timeoutMs * CLEAR_SHARE
      this.#exchanges.push({ arrival, began, ended })
    })
  }

  /** Undefined: it did not come to its end. */
  async #body(request: http.IncomingMessage, fault: Fault | undefined): Promise<Buffer | undefined> {
    const chunks: Buffer[] = []
    try {
      if (fault?.fault === 'slow') await pause(fault.ms / 2)
      for await (const chunk of request) {
        chunks.push(chunk as Buffer)
        // Slower than it is sent, so that the sender has to wait.
        if (fault?.fault === 'slow' && chunks.length < SLOW_READS) await pause(fault.ms / SLOW_READS)
      }
      if (fault?.fault === 'slow') await pause(fault.ms / 2)
    } catch {
      return undefined
    }
    const body = Buffer.concat(chunks)
    return request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
  }

  async #hang(socket: Socket): Promise<void> {
    await new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.#hanging.delete(end)
        resolve()
      }
      const timer = setTimeout(end, HANG_MS)
      this.#hanging.add(end)
    })
    cut(socket)
  }
}

/** Breaks the connection; below TLS there is no way to do it hard. */
function cut(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}

interface Divided {
  readonly status: number
  readonly errors: object[]
  readonly taken: Buffer
  readonly refused: Buffer
}

/** Which lines of a body are taken, which are refused for good, and which are to come again: some at its end. */
function divide(body: Buffer, { status, every, again }: Extract<Fault, { fault: 'some' }>): Divided {
  const lines = body.toString('latin1').split(/(?<=\n)/)
  const errors: object[] = []
  const taken: string[] = []
  const refused: string[] = []
  for (const [index, line] of lines.entries()) {
    if (again > 0 && index > lines.length / 2) errors.push({ index, status: again })
    else if (index % every === every - 1) {
      errors.push({ index, ...(index % 2 ? { status: 400, message: 'not this one' } : {}) })
      refused.push(line)
    } else if (status === 207) taken.push(line)
  }
  // A refusal that lists nothing would be one of the whole request.
  if (errors.length === 0) return { status: 207, errors, taken: body, refused: Buffer.alloc(0) }
  const join = (parts: string[]) => Buffer.from(parts.join(''), 'latin1')
  return { status, errors, taken: join(taken), refused: join(refused) }
}

function count(body: Buffer): number {
  let events = 0
  for (let at = body.indexOf(10); at >= 0; at = body.indexOf(10, at + 1)) events++
  return body.at(-1) === 10 ? events : events + 1
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
