import { type LookupAddress, lookup } from 'node:dns'
import { connect, isIP, type LookupFunction, type Socket } from 'node:net'
import type { Reach } from '../core/options/reach.js'
import { BoundedMap } from '../lib/bounded-map.js'
import { request as httpRequest } from '../lib/network/node-http.js'
import { nodeTls } from '../lib/network/node-tls.js'
import { after } from '../lib/time.js'
import type { Via } from './proxy.js'
import { type UrlPlace, urlPlace } from './urls.js'

/** TCP keep-alive probes start after a connection was idle for this time. */
const PROBE_MS = 60_000
const MOST_SESSIONS = 64

export interface ConnectorOptions {
  readonly ca?: Buffer | undefined
  readonly cert?: Buffer | undefined
  readonly key?: Buffer | undefined
  /** The name in the certificate, if it differs from the host of the URL. */
  readonly serverName?: string | undefined
  /** Time limit for connecting, including the TLS handshake, in milliseconds. */
  readonly timeoutMs: number
  readonly reach: Reach | undefined
}

/** Makes connections. Verifies certificates even if environment variables turn verification off. */
export class Connector {
  readonly #options: ConnectorOptions
  readonly #connecting: Set<Socket>
  /** The last TLS session with each receiver. It shortens the next handshake. */
  readonly #sessions = new BoundedMap<string, Buffer>(MOST_SESSIONS)

  /** `connecting` contains each socket while it connects. */
  constructor(options: ConnectorOptions, connecting: Set<Socket>) {
    this.#options = options
    this.#connecting = connecting
  }

  /** Connects to the host and port of a URL, through `tunnel` if there is one. */
  connect(target: URL, tunnel?: Socket): Promise<Socket> {
    const { reach, timeoutMs } = this.#options
    const denied = this.denied(target)
    if (denied) return Promise.reject(denied)
    const { isTls, ...place } = urlPlace(target)
    const tcp = { ...socketTo(place, reach), noDelay: true, keepAlive: true, keepAliveInitialDelay: PROBE_MS }
    if (!isTls) return tunnel ? Promise.resolve(tunnel) : this.#connected(connect(tcp), 'connect', timeoutMs)
    const name = `${place.host}:${place.port}`
    const session = this.#sessions.get(name)
    const socket = nodeTls().connect({
      ...(tunnel ? { socket: tunnel, ...place } : tcp),
      ...(target.protocol === 'https:' && { ALPNProtocols: ['http/1.1'] }),
      ...tlsTo(place, this.#options),
      ...(session && { session }),
    })
    socket.on('session', session => this.#sessions.set(name, session))
    return this.#connected(socket, 'secureConnect', timeoutMs)
  }

  /** If the host is an IP address that is denied, returns an error. Names are checked when they are looked up. */
  denied(target: URL): DeniedAddress | undefined {
    return deniedPlace(urlPlace(target), this.#options.reach)
  }

  #connected(socket: Socket, event: 'connect' | 'secureConnect', timeoutMs: number): Promise<Socket> {
    this.#connecting.add(socket)
    return new Promise<Socket>((resolve, reject) => {
      const cancel = after(timeoutMs, () => socket.destroy(coded('ETIMEDOUT', 'connecting timed out')))
      const closed = () => reject(coded('ECONNRESET', 'closed while connecting'))
      socket.once('error', reject).once('close', closed)
      socket.once(event, () => resolve(socket))
      const ended = () => {
        cancel()
        this.#connecting.delete(socket)
        socket.off('error', reject).off('close', closed)
      }
      socket.once(event, ended).once('close', ended)
    })
  }
}

/** Socket options for connecting to a place. Check the place with `deniedPlace` first. */
export function socketTo({ host, port }: Pick<UrlPlace, 'host' | 'port'>, reach: Reach | undefined) {
  return { host, port, ...(reach && { lookup: permittedLookup(reach, port) }) }
}

/** Additional socket options for TLS. */
export function tlsTo(
  { host }: Pick<UrlPlace, 'host'>,
  { ca, cert, key, serverName }: Pick<ConnectorOptions, 'ca' | 'cert' | 'key' | 'serverName'>,
) {
  const servername = serverName ?? (isIP(host) ? undefined : host)
  return {
    rejectUnauthorized: true as const,
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(servername !== undefined && { servername }),
  }
}

export function deniedPlace(
  { host, port }: Pick<UrlPlace, 'host' | 'port'>,
  reach: Reach | undefined,
): DeniedAddress | undefined {
  const denied = isIP(host) ? reach?.deniedAddress(host, port) : undefined
  return denied === undefined ? undefined : new DeniedAddress(host, host, denied)
}

export function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

/**
 * Returns a lookup function that finds only addresses allowed by `reach`. The connection itself uses this function, so
 * that a name server cannot give one address to the check and another to the connection.
 */
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

export class DeniedAddress extends Error {
  constructor(name: string, address: string, kind: string) {
    const leads = name === address ? name : `${name} resolves to ${address}, which`
    super(`${leads} is ${kind} and must not be connected to; the operator can allow it`)
  }
}

/** The proxy failed or refused to make a connection. */
export class ProxyError extends Error {
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause?: unknown) {
    super(message, { cause })
    this.status = status
  }
}

export async function connectProxy({ url }: Via, connector: Connector): Promise<Socket> {
  try {
    return await connector.connect(url)
  } catch (error) {
    throw new ProxyError('no connection to the proxy', undefined, error)
  }
}

/** Sends CONNECT to a proxy. The socket then leads to the host and port of `url`. Throws ProxyError. */
export function openTunnel(socket: Socket, { authorization }: Via, url: URL, timeoutMs: number): Promise<Socket> {
  const target = `${url.hostname}:${urlPlace(url).port}`
  return new Promise((resolve, reject) => {
    const headers = { host: target, ...(authorization && { 'proxy-authorization': authorization }) }
    const request = httpRequest({ method: 'CONNECT', path: target, headers, createConnection: () => socket })
    const fail = (error: ProxyError) => {
      cancel()
      socket.destroy()
      reject(error)
    }
    const cancel = after(timeoutMs, () => fail(new ProxyError('the proxy did not answer in time', undefined)))
    request.on('error', cause => fail(new ProxyError('the proxy closed the connection', undefined, cause)))
    request.on('connect', ({ statusCode = 0, statusMessage = '' }, _socket, head: Buffer) => {
      if (statusCode < 200 || statusCode > 299) return fail(new ProxyError(statusMessage, statusCode))
      cancel()
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
    request.end()
  })
}
