import type { ClientRequest, ClientRequestArgs, IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { Agent, request as httpRequest } from '../../../lib/network/node-http.js'
import { nextTurn } from '../../../lib/time.js'
import { closeAll } from '../../dialer.js'
import { UnexpectedUpgrade } from '../../explain.js'
import type { TlsContent } from '../../tls-check.js'
import { isSuccess } from './answers/statuses.js'
import type { Body } from './request-body.js'

/** How long a response body may pause. The delivery limits the time of the whole attempt. */
const STALLED_BODY_MS = 10_000

export interface Sent {
  /** The origin to connect to, as a URL. */
  readonly target: URL
  readonly path: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body | null
}

/** A response; its body has not been read. */
export interface Answer {
  readonly statusCode: number
  readonly headers: IncomingHttpHeaders
  readonly body: Readable
  /** Resolves when the whole request was sent, or its connection has closed. */
  readonly sent: Promise<void>
}

/** Makes requests over a pool of connections. */
export class HttpClient {
  #content: TlsContent | undefined
  #pool = this.#newPool()
  readonly #connected = new Set<Socket>()
  /** Connections on which a response has arrived. */
  readonly #answered = new WeakSet<Socket>()
  /** Whether a connection was closed before its first response, and no response has arrived after that. */
  unanswered = false
  /** Connects to a URL that is only an origin. */
  dial!: (target: URL) => Promise<Socket>

  /** Resolves with the response. Rejects with the signal's reason as soon as the signal aborts. */
  async request({ target, path, method, headers, body }: Sent, signal: AbortSignal): Promise<Answer> {
    // Lets Node.js report if an idle connection has ended. If so, a new connection is made.
    await nextTurn()
    signal.throwIfAborted()
    const pool = this.#pool
    const length = body && { 'content-length': body.bytes }
    const all = { host: target.host, ...headers, ...length }
    const options: PooledRequest = { agent: pool, target, path, method, headers: all }
    return await new Promise<Answer>((resolve, reject) => {
      const sent = httpRequest(options)
      const abort = () => {
        reject(signal.reason)
        sent.destroy()
      }
      signal.addEventListener('abort', abort, { once: true })
      // `error` can occur twice, so its listener must stay. The other events occur only once.
      sent.on('error', reject)
      sent.on('close', () => signal.removeEventListener('abort', abort))
      const isSent = new Promise<void>(resolve => sent.on('finish', resolve).on('close', resolve))
      sent.on('socket', socket => socket.setTimeout(0))
      sent.on('upgrade', (_, socket) => {
        socket.destroy()
        reject(new UnexpectedUpgrade())
      })
      sent.on('response', body => {
        const { statusCode = 0, headers, socket } = body
        this.unanswered = false
        this.#answered.add(socket)
        pool.answered(socket, headers['keep-alive'])
        socket.setTimeout(STALLED_BODY_MS)
        if (!isSuccess(statusCode)) body.once('end', () => void closeUnlessSent(sent))
        resolve({ statusCode, headers, body, sent: isSent })
      })
      // The parts wait until there is a connection, and are then written together with the head in one call.
      if (body) for (const part of body.parts) sent.write(part)
      sent.end()
    })
  }

  /** From now on, new requests use connections with `content`. Requests in progress finish unchanged. */
  renew(content: TlsContent): void {
    const used = ({ ca, cert, key }: TlsContent) => [ca, cert, key]
    const isSame = this.#content && isDeepStrictEqual(used(content), used(this.#content))
    this.#content = content
    if (isSame) return
    this.#pool.retire()
    this.#pool = this.#newPool()
  }

  async close(): Promise<void> {
    this.#pool.retire()
    await closeAll(this.#connected)
  }

  #newPool(): Pool {
    return new Pool(async target => this.#made(await this.dial(target)))
  }

  #made(socket: Socket): Socket {
    this.#connected.add(socket)
    // These listeners are added before those of the HTTP client, because they must run before the client reports the
    // failed request.
    const ended = () => {
      if (!this.#answered.has(socket)) this.unanswered = true
    }
    socket.once('end', ended).once('error', () => {
      ended()
      // Otherwise, `end` would follow and replace this error, which may be a TLS alert with the reason.
      socket.destroy()
    })
    // Either the connection was idle for long enough, or a response has stalled.
    socket.on('timeout', () => socket.destroy(new Error('the answer stalled')))
    socket.once('close', () => this.#connected.delete(socket))
    return socket
  }
}

/**
 * Closes the connection if a request was answered before it was sent. Otherwise, a receiver that stops reading could
 * hold the connection and the body indefinitely. First waits a turn, because sent bytes count as written only then.
 */
async function closeUnlessSent(sent: ClientRequest): Promise<void> {
  await nextTurn()
  if (!sent.writableFinished) sent.destroy()
}

/** Idle connections are closed after this time, or sooner if the receiver asks for a shorter time. */
const IDLE_MS = 15_000
/**
 * Idle connections are closed this much earlier than the receiver announced. Otherwise, the receiver could close a
 * connection during a request.
 */
const EARLIER_MS = 2000
const SECONDS = /\btimeout=(\d+)/

export interface PooledRequest extends ClientRequestArgs {
  readonly target: URL
}

/** Keeps as many connections as there are concurrent requests. */
export class Pool extends Agent {
  readonly #connect: (target: URL) => Promise<Socket>
  /** The idle timeout that the receiver announced for each connection. */
  readonly #idleMs = new WeakMap<Duplex, number>()
  #isRetired = false

  constructor(connect: (target: URL) => Promise<Socket>) {
    super({ keepAlive: true })
    this.#connect = connect
  }

  /** Records the idle timeout that a response announces for its connection. */
  answered(socket: Socket, keepAlive: string | string[] | undefined): void {
    const seconds = typeof keepAlive === 'string' ? SECONDS.exec(keepAlive)?.[1] : undefined
    if (seconds !== undefined) this.#idleMs.set(socket, Math.min(IDLE_MS, Number(seconds) * 1000 - EARLIER_MS))
  }

  /** Closes idle connections now, and others after their request. */
  retire(): void {
    this.#isRetired = true
    for (const sockets of Object.values(this.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  override getName(options?: ClientRequestArgs): string {
    return (options as PooledRequest).target.href
  }

  override createConnection(
    options: ClientRequestArgs,
    done: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    this.#connect((options as PooledRequest).target).then(
      socket => done(null, socket),
      (error: Error) => (done as (error: Error) => void)(error),
    )
  }

  override keepSocketAlive(socket: Duplex): boolean {
    const idleMs = this.#idleMs.get(socket) ?? IDLE_MS
    if (this.#isRetired || idleMs <= 0) return false
    const idle = socket as Socket
    idle.unref()
    idle.setTimeout(idleMs)
    return true
  }
}
