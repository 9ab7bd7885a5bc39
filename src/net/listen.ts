import type { Server, Socket } from 'node:net'
import type { TlsOptions, Server as TlsServer } from 'node:tls'
import type { Logger } from 'pino'
import type { SourceContext } from '../core/component.js'
import { errorCode, errorText } from '../core/errors.js'
import type { Fact } from '../core/fact.js'
import { LogLimit } from '../lib/log-limit.js'
import { AddressList } from '../lib/network/address-list.js'
import { type ListenAddress, listenOn, listenText } from '../lib/network/inherited-sockets.js'
import { plainAddress } from '../lib/network/network-address.js'
import { type Clock, every } from '../lib/time.js'
import { counted, lasting } from '../lib/units.js'
import { type ConnectionEvents, ConnectionLimits, ConnectionReport } from './limits.js'
import type { ConnectionOptions, TlsFileOptions } from './listen-options.js'
import { expiryFact, TlsFiles, type TlsFilesContext } from './tls.js'
import { opensslText, type TlsContent, tlsAlertOf } from './tls-check.js'

export interface ListenerOptions extends ConnectionOptions {
  readonly tls?: TlsFileOptions | undefined
}

/** TCP keep-alive probes start after this idle time. They detect peers that disappeared silently. */
const KEEP_ALIVE_MS = 60_000

/** Where a source listens, with the same limits and certificates at all of its addresses. */
export class Listener {
  readonly #context: SourceContext
  readonly #tls: ServerTls | undefined
  readonly #watched = new WeakSet<Socket>()
  readonly connections: ConnectionLimits
  readonly #servers = new Set<Server>()
  #address = ''

  /** `http`: as for `boundConnections`. */
  constructor(options: ListenerOptions, context: SourceContext, http?: Parameters<typeof boundConnections>[2]) {
    this.#context = context
    const { metrics, log } = context
    if (options.tls) this.#tls = this.#tlsOf(options.tls)
    const report = new ConnectionReport('sluice_source', (...about) => metrics.counter(...about), log)
    this.connections = boundConnections(options, report, http)
    metrics.gauge('sluice_source_connections', 'Open connections.', () => this.connections.size)
  }

  /** Listens with the server that `make` creates. If that fails, rejects with a message for people. */
  async open(
    listen: ListenAddress,
    make: (tls: TlsOptions | undefined) => Server,
    renewEveryMs?: number,
  ): Promise<void> {
    const server = make(await this.#tls?.load())
    this.#servers.add(server)
    this.#tls?.attach(server, reason => this.#tlsRefused(reason), renewEveryMs)
    this.connections.attach(server, this.#tls !== undefined)
    server.on('connection', socket => {
      socket.setKeepAlive(true, KEEP_ALIVE_MS)
      this.watch(socket)
    })
    this.#address = await listening(listen, () => listenOn(server, listen))
    server.on('error', error => this.#acceptFailed(error))
    this.#context.log.info({ address: this.address, tls: this.#tls !== undefined }, 'listening')
  }

  /** HOST:PORT of the last server, with the actual port, which the system may have chosen. */
  get address(): string {
    return this.#address
  }

  /** Counts errors of a TCP socket, or of the TLS socket on it. */
  watch(socket: Socket): void {
    if (this.#watched.has(socket)) return
    this.#watched.add(socket)
    const { log, metrics } = this.#context
    socket.on('error', error => {
      metrics.failed('connection')
      log.debug({ peer: peerOf(socket), error: errorText(error) }, 'connection failed')
    })
  }

  #tlsOf(paths: TlsFileOptions): ServerTls {
    const { log, clock, metrics, reach } = this.#context
    const tls = new ServerTls(paths, { log, clock, reach, failed: () => metrics.failed('tls_files') })
    metrics.fact(expiryFact(() => tls.files.expiries))
    metrics.fact(tls.refusals.fact)
    return tls
  }

  #tlsRefused(reason: string): void {
    const { metrics } = this.#context
    metrics.failed('tls')
    metrics.counter(REFUSED_TOTAL.name, REFUSED_TOTAL.help, { reason }).value++
  }

  #acceptFailed(error: Error): void {
    this.#context.metrics.failed('accept')
    this.#context.log.warn({ code: errorCode(error), error: errorText(error) }, 'cannot accept a connection')
  }

  /** Stops accepting connections. Open connections stay. */
  stopAccepting(): void {
    this.#tls?.stopRenewing()
    for (const server of this.#servers) server.close()
  }

  close(): void {
    this.stopAccepting()
    this.connections.close()
  }
}

/** Calls `listen`, which makes a server listen. If that fails, rejects with a message for people. */
export async function listening<T>(address: ListenAddress, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen()
  } catch (cause) {
    const error = errorText(cause)
    if ('systemd' in address) throw new Error(error, { cause })
    throw new Error(`cannot listen on ${listenText(address)}: ${WHY_NOT[errorCode(cause) ?? ''] ?? error}`, { cause })
  }
}

const WHY_NOT: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there',
  EADDRNOTAVAIL: 'this machine does not have that address',
  EACCES: 'this user may not listen on a port below 1024',
  ENOTFOUND: 'that name cannot be resolved',
}

/** The peer's address in its usual notation. */
export function peerOf(socket: Socket): string | undefined {
  const { remoteAddress } = socket
  return remoteAddress === undefined ? undefined : plainAddress(remoteAddress)
}

export function addressTest(ranges: readonly string[]): (address: string) => boolean {
  const list = new AddressList(ranges)
  return address => list.has(address)
}

/** How long a client may keep its side of a connection open after the last response. */
const CLOSE_MS = 2000

/** Limits the connections of a server. If the protocol has no requests, omit `http`, so that clients may stay idle. */
export function boundConnections(
  options: ConnectionOptions,
  events: ConnectionEvents,
  http?: { readonly headers_timeout: number; readonly send_timeout: number },
): ConnectionLimits {
  const { max_connections: max, max_connections_per_address: own, shared_addresses: shared } = options
  const bounds = http && { sendMs: http.send_timeout, closeMs: Math.min(CLOSE_MS, http.headers_timeout) }
  const isShared = addressTest(shared)
  const handshakeMs = options.handshake_timeout
  return new ConnectionLimits(
    { max, maxPerAddress: perAddress(max, own), isShared, handshakeMs, closesUsed: http !== undefined, ...bounds },
    events,
  )
}

/** Returns the limit per address: `given`, or else the default. */
export const perAddress = (max: number, given: number | undefined): number => given ?? Math.max(1, Math.ceil(max / 2))

/** The longest timer of Node.js. Node.js must not apply `handshake_timeout`, because `ConnectionLimits` applies it. */
const NEVER_MS = 2 ** 31 - 1
const RENEW_MS = 60_000

/** Reads a server's certificate, and reads it again when its files are replaced. Reports failed handshakes. */
export class ServerTls {
  readonly files: TlsFiles
  readonly refusals: TlsRefusals
  readonly #servers: TlsServer[] = []
  #stop: (() => void) | undefined

  constructor(paths: TlsFileOptions, context: TlsFilesContext) {
    this.files = new TlsFiles(paths, context)
    this.refusals = new TlsRefusals(context.log, context.clock)
  }

  /** The TLS options for creating the server. Throws TlsFilesError if a file is unusable. */
  async load(): Promise<TlsOptions> {
    return serverOptions(await this.files.load())
  }

  /**
   * Reports failed handshakes of `server`, and checks for replaced files until `stopRenewing`. Several servers may have
   * the same files.
   */
  attach(server: Server, refused: (reason: string) => void = () => {}, renewEveryMs = RENEW_MS): void {
    // Reading the address makes the socket cache it, so the log can show it after the connection has closed.
    server.on('connection', (socket: Socket) => void socket.remoteAddress)
    server.prependListener('tlsClientError', (error: Error, socket: Socket) => {
      refused(this.refusals.add(error, socket))
      socket.destroy()
    })
    this.#servers.push(server as TlsServer)
    // Only one check runs at a time. Otherwise an older check could overwrite the files that a newer check has read.
    let renewing = false
    this.#stop ??= every(renewEveryMs, () => {
      if (renewing) return
      renewing = true
      void this.#renew().finally(() => {
        renewing = false
      })
    })
  }

  stopRenewing(): void {
    this.#stop?.()
  }

  async #renew(): Promise<void> {
    const content = await this.files.renewed()
    if (content) for (const server of this.#servers) server.setSecureContext(serverOptions(content))
  }
}

function serverOptions({ ca, cert, key }: TlsContent): TlsOptions {
  const client = ca && { ca, requestCert: true, rejectUnauthorized: true }
  return { cert, key, ...client, minVersion: 'TLSv1.2', handshakeTimeout: NEVER_MS }
}

export interface Labelled {
  readonly labels: { readonly reason: string }
  readonly value: number
}

export const REFUSED_TOTAL = {
  name: 'sluice_tls_refused_connections_total',
  help: 'Connections that failed in the TLS handshake, by reason.',
} as const
/** Older refusals are not a problem. */
const RECENT_S = 3600

/** Counts failed TLS handshakes by reason. Logs them at a limited rate. */
export class TlsRefusals {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #limit: LogLimit
  readonly #refused = new Map<string, { value: number; at: number }>()

  constructor(log: Logger, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#limit = new LogLimit(clock)
  }

  /** Call it with the arguments of `tlsClientError`. Returns the reason. */
  add(error: Error, socket: Socket): string {
    const reason = reasonOf(error, socket)
    const { value } = this.#refused.get(reason) ?? { value: 0 }
    this.#refused.set(reason, { value: value + 1, at: this.#clock.now() })
    const fields = { peer: peerOf(socket) ?? peerBefore(socket), reason, error: opensslText(error) }
    // Port scans and health checks often close connections during the handshake.
    if (reason === 'closed') this.#log.debug(fields, 'a connection was closed during the TLS handshake')
    else {
      const connections = this.#limit.count(reason)
      const why = { why: WORDS[reason], connections }
      if (connections > 0) this.#log.warn({ code: 'SLUICE_TLS_REFUSED', ...fields, ...why }, 'refused a TLS connection')
    }
    return reason
  }

  totals(): Labelled[] {
    return [...this.#refused].map(([reason, { value }]) => ({ labels: { reason }, value }))
  }

  /** When clients were refused last. */
  get fact(): Fact {
    return {
      name: 'sluice_tls_last_refusal_age_seconds',
      help: 'Time since a connection was last refused in the TLS handshake, by reason.',
      read: () => {
        const now = this.#clock.now()
        return Array.from(this.#refused, ([reason, { at }]) => ({ labels: { reason }, value: (now - at) / 1000 }))
      },
      problem: (age, { id, labels: { reason = '' } }) => {
        const total = counted(this.#refused.get(reason)?.value ?? 0, 'TLS connection')
        const what = `${id} refused ${total} (${reason}), the last one ${lasting(age)} ago`
        const todo = 'The log names the address of the client and the cause (SLUICE_TLS_REFUSED).'
        return age <= RECENT_S && reason !== 'closed' && { gravity: 'connections', what, todo }
      },
    }
  }
}

const WORDS: Record<string, string> = {
  plain_http: 'the client speaks HTTP without TLS; its URL must begin with https://',
  not_tls: 'the client does not speak TLS',
  no_certificate: 'the client sent no certificate, but tls.client_ca_file requires one',
  expired_certificate: "the client's certificate has expired",
  unknown_authority: "the client's certificate is not from an authority in tls.client_ca_file",
  bad_certificate: "the client's certificate cannot be used",
  refused_by_client: 'the client does not accept the certificate in tls.cert_file',
  version: 'the client and the server have no TLS version or cipher in common',
  timeout: 'the client did not finish the handshake in time',
}

const CODES: Record<string, string> = {
  ERR_SSL_HTTP_REQUEST: 'plain_http',
  ERR_SSL_HTTPS_PROXY_REQUEST: 'plain_http',
  ERR_SSL_WRONG_VERSION_NUMBER: 'not_tls',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'not_tls',
  ERR_SSL_BAD_RECORD_TYPE: 'not_tls',
  ERR_SSL_UNEXPECTED_MESSAGE: 'not_tls',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'no_certificate',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'version',
  ERR_SSL_VERSION_TOO_LOW: 'version',
  ERR_SSL_NO_SHARED_CIPHER: 'version',
  ERR_SSL_NO_SHARED_GROUP: 'version',
  ERR_TLS_HANDSHAKE_TIMEOUT: 'timeout',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
}

function reasonOf(error: Error, socket: Socket): string {
  // Node.js verifies the certificate after the handshake, and only this property has the reason of a failure.
  const { authorizationError } = socket as { readonly authorizationError?: unknown }
  if (authorizationError) return ofVerification(String(authorizationError))
  const code = errorCode(error) ?? ''
  const alert = tlsAlertOf(code)
  if (alert === 'PROTOCOL_VERSION') return 'version'
  if (alert !== undefined) return 'refused_by_client'
  return CODES[code] ?? 'other'
}

function ofVerification(code: string): string {
  if (code === 'UNSPECIFIED') return 'no_certificate'
  if (code === 'CERT_HAS_EXPIRED') return 'expired_certificate'
  if (/ISSUER|SELF_SIGNED|VERIFY_LEAF|UNTRUSTED/.test(code)) return 'unknown_authority'
  return 'bad_certificate'
}

/** The peer of a TLS connection that Node.js closed. If the address was read, the underlying socket has it. */
function peerBefore(socket: Socket): string | undefined {
  const { _parent: beneath } = socket as { readonly _parent?: Socket }
  return beneath && peerOf(beneath)
}
