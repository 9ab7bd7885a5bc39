import { type LookupAddress, lookup } from 'node:dns'
import { createRequire } from 'node:module'
import { isIP, type LookupFunction, Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { buildConnector as Connecting, Dispatcher, Agent as UndiciAgent } from 'undici'
import type { Reach } from '../../../core/options/reach.js'
import type { TlsContent } from '../../tls/tls-content.js'
import type { ClientOptions } from '../options.js'
import { skipInterimAnswers, wasAnswered } from './interim-answers.js'
import { DeniedAddress } from './network-error.js'
import type { Via } from './proxy.js'
import { connectProxy, openTunnel } from './tunnel.js'

// Loaded with require: this file is loaded while the daemon runs, and if node_modules is a symbolic link, Node.js
// resolves an import to an empty module when the last stat of the process was of a socket or a pipe.
const { Agent, buildConnector } = createRequire(import.meta.url)('undici') as typeof import('undici')

/** Idle connections are closed after this time, or earlier if the receiver asks for it. */
const KEEP_ALIVE_MS = 15_000
/** How long a response body may stall. The time limit of the delivery covers the attempt as a whole. */
const STALLED_BODY_MS = 10_000

export type ConnectionOptions = Pick<ClientOptions, 'tls' | 'connect_timeout'>

/** The proxy for a URL; undefined if there is none. */
export type FindProxy = (target: URL) => Promise<Via | undefined>

/** As many kept-alive connections as concurrent requests. Certificates are verified, whatever the environment says. */
export class Connections {
  readonly #options: ConnectionOptions
  readonly #reach: Reach | undefined
  #content: TlsContent
  #agent: UndiciAgent
  /** Replaced agents that still have requests in progress. */
  readonly #ending = new Set<UndiciAgent>()
  // Agent.destroy waits for a connection that is being established, up to its time limit, unless its socket is
  // destroyed.
  readonly #connecting = new Set<Socket>()
  readonly #connected = new Set<Socket>()
  /** Whether a connection was closed before any response, and none has received one since. */
  unanswered = false
  /** Selects the proxy of a connection. Not used for http URLs, whose requests go to the proxy itself. */
  findProxy: FindProxy | undefined

  constructor(options: ConnectionOptions, content: TlsContent, reach?: Reach) {
    this.#options = options
    this.#reach = reach
    this.#content = content
    this.#agent = this.#newAgent()
  }

  async request(request: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    const answer = await this.#agent.request(request)
    this.unanswered = false
    return answer
  }

  /** Whether no bytes of request bodies wait to be sent. */
  flushed(): boolean {
    for (const socket of this.#connected) if (socket.writableLength > 0) return false
    return true
  }

  /** Further requests use connections made with `content`; requests in progress finish unchanged. */
  renew(content: TlsContent): void {
    const { ca, cert, key } = content
    const { ca: oldCa, cert: oldCert, key: oldKey } = this.#content
    this.#content = content
    if (isDeepStrictEqual([ca, cert, key], [oldCa, oldCert, oldKey])) return
    const old = this.#agent
    this.#agent = this.#newAgent()
    this.#ending.add(old)
    const ended = () => this.#ending.delete(old)
    old.close().then(ended, ended)
  }

  /** Closes every connection, including those being established. */
  async close(): Promise<void> {
    const closed = [this.#agent, ...this.#ending].map(agent => agent.destroy())
    for (const socket of this.#connecting) socket.destroy(new Error('closing'))
    await Promise.all(closed)
  }

  #newAgent(): UndiciAgent {
    const { connect_timeout: timeout, tls } = this.#options
    const { ca, cert, key } = this.#content
    const connectorFor =
      (own: Partial<Connecting.BuildOptions>): MakeConnector =>
      permitted =>
        buildConnector({
          timeout,
          rejectUnauthorized: true,
          ...(ca && { ca }),
          ...own,
          ...(permitted && { lookup: permitted }),
        })
    const own = { ...(cert && { cert }), ...(key && { key }), ...(tls.server_name && { servername: tls.server_name }) }
    const [receiver, proxy] = [own, {}].map(own => {
      const connectorWith = connectorFor(own)
      return this.#tracked(this.#reach ? connectorWithin(this.#reach, connectorWith) : connectorWith())
    })
    const connect: Connecting.connector = (options, callback) => {
      this.#connect(options, { receiver: receiver!, proxy: proxy!, timeout }).then(
        socket => callback(null, socket),
        (error: Error) => callback(error, null),
      )
    }
    return new Agent({ keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: 0, bodyTimeout: STALLED_BODY_MS, connect })
  }

  async #connect(options: Connecting.Options, { receiver, proxy, timeout }: Connectors): Promise<Socket> {
    const { protocol, host = '', hostname, port } = options
    const target = new URL(`${protocol}//${host}`)
    const via = await this.findProxy?.(target)
    const isProxy = via && target.origin === via.url.origin
    if (!via || isProxy || protocol !== 'https:')
      return this.#made(await connected(isProxy ? proxy : receiver, options))
    const tunnel = await this.#tunnel(via, `${urlHost(hostname)}:${port || 443}`, proxy, timeout)
    return this.#made(await connected(receiver, { ...options, httpSocket: tunnel }))
  }

  async #tunnel(via: Via, target: string, proxy: Connecting.connector, timeout: number): Promise<Socket> {
    const socket = await connectProxy(via, proxy)
    this.#connecting.add(socket)
    try {
      return await openTunnel(socket, via, target, timeout)
    } finally {
      this.#connecting.delete(socket)
    }
  }

  /** Wraps a connector to track its sockets from the start, for closing them. */
  #tracked(connector: Connecting.connector): Connecting.connector {
    return (options, callback) => {
      const socket: unknown = connector(options, (...outcome) => {
        if (socket instanceof Socket) this.#connecting.delete(socket)
        callback(...outcome)
      })
      if (socket instanceof Socket) this.#connecting.add(socket)
    }
  }

  #made(socket: Socket): Socket {
    skipInterimAnswers(socket)
    this.#connected.add(socket)
    // Registered before undici's listener: it must run before the failed request is reported.
    const ended = () => {
      if (!wasAnswered(socket)) this.unanswered = true
    }
    socket.once('end', ended).once('error', () => {
      ended()
      // Otherwise the following `end` would replace the error, which may be a TLS alert with the reason.
      socket.destroy()
    })
    socket.once('close', () => this.#connected.delete(socket))
    return socket
  }
}

type MakeConnector = (permitted?: LookupFunction) => Connecting.connector

interface Connectors {
  readonly receiver: Connecting.connector
  readonly proxy: Connecting.connector
  readonly timeout: number
}

function connected(connector: Connecting.connector, options: Connecting.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connector(options, (error, socket) => {
      if (socket) resolve(socket)
      else reject(error)
    })
  })
}

/** Puts an IPv6 address in brackets. */
function urlHost(hostname: string): string {
  return isIP(hostname) === 6 ? `[${hostname}]` : hostname
}

/**
 * Connects only to addresses that `reach` allows. A resolved name is checked in the lookup of the connection itself, so
 * the name server cannot give another answer between check and connection.
 */
function connectorWithin(
  reach: Reach,
  connectorWith: (permitted: LookupFunction) => Connecting.connector,
): Connecting.connector {
  const byPort = new Map<number, Connecting.connector>()
  return (options, callback) => {
    const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80))
    const host = options.hostname.replace(/^\[|\]$/g, '')
    // Addresses are not looked up.
    const denied = isIP(host) ? reach.deniedAddress(host, port) : undefined
    if (denied !== undefined) return callback(new DeniedAddress(host, host, denied), null)
    let connector = byPort.get(port)
    if (!connector) byPort.set(port, (connector = connectorWith(permittedLookup(reach, port))))
    return connector(options, callback)
  }
}

function permittedLookup(reach: Reach, port: number): LookupFunction {
  return (name, options, callback) => {
    lookup(name, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error) return callback(error, '')
      const refused = found.map(({ address }) => reach.deniedAddress(address, port))
      const permitted = found.filter((_, i) => refused[i] === undefined)
      const first = permitted[0]
      if (!first) return callback(new DeniedAddress(name, found[0]?.address ?? name, refused[0] ?? 'unknown'), '')
      if (options.all) callback(null, permitted)
      else callback(null, first.address, first.family)
    })
  }
}
