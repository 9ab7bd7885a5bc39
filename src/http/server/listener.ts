import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import type { TlsOptions, Server as TlsServer } from 'node:tls'
import type { z } from 'zod'
import type { SourceContext } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import { duration, listenAddress } from '../../core/options.js'
import { exposeExpiries, TlsFiles } from '../../core/tls-files.js'
import { type ListenAddress, listenOn, listenText } from '../../lib/inherited-sockets.js'
import { plainAddress } from '../../lib/network-address.js'
import { every } from '../../lib/time.js'
import { addressTest, connectionOptions, perAddress } from './addresses.js'
import { ConnectionReport } from './connection-report.js'
import { Connections } from './connections.js'
import { serverOptions, tlsOptions } from './tls.js'
import { REFUSED_AGE, REFUSED_TOTAL, TlsRefusals } from './tls-refusals.js'

/** Options of every source that others connect to. */
export const listenOptions = {
  listen: listenAddress().describe(
    'HOST:PORT to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere. Or systemd:NAME, the socket of a .socket unit with FileDescriptorName=NAME: what connects while the daemon is started again waits, and ports below 1024 need no privilege.',
  ),
  tls: tlsOptions.optional().describe('Speaks TLS. Renewed files are read again within a minute.'),
  handshake_timeout: duration().prefault('10 Seconds').describe('Time for the handshake of TLS.'),
  ...connectionOptions(1000, 100_000),
}

export interface ListenerOptions {
  readonly listen: ListenAddress
  readonly tls?: z.output<typeof tlsOptions> | undefined
  readonly handshake_timeout: number
  readonly max_connections: number
  readonly max_connections_per_address?: number | undefined
  readonly shared_addresses: readonly string[]
}

/** What a server of HTTP has besides. */
export interface HttpTimeouts {
  readonly sendMs: number
  readonly closeMs: number
}

const RENEW_MS = 60_000
/** Of a peer that is gone without a word. */
const KEEP_ALIVE_MS = 60_000

/** A listening server with its limits, its metrics, and its end. */
export class Listener {
  readonly #options: ListenerOptions
  readonly #context: SourceContext
  readonly #tls: TlsFiles | undefined
  readonly #refusals: TlsRefusals
  readonly #watched = new WeakSet<Socket>()
  readonly #connections: Connections
  #server: Server | undefined
  #address = ''
  #stopRenewing: (() => void) | undefined

  /** `http`: undefined for a server without requests and answers. Its idle connections are not closed: they may be needed. */
  constructor(options: ListenerOptions, context: SourceContext, http?: HttpTimeouts) {
    this.#options = options
    this.#context = context
    this.#refusals = new TlsRefusals(context.log, context.clock)
    if (options.tls) this.#tls = this.#tlsFiles(options.tls)
    const { max_connections: max, max_connections_per_address: most, shared_addresses: shared } = options
    const { metrics, log } = context
    const report = new ConnectionReport('sluice_source', (...about) => metrics.counter(...about), log)
    const limits = {
      max,
      maxPerAddress: perAddress(max, most),
      isShared: addressTest(shared),
      handshakeMs: options.handshake_timeout,
      closesUsed: http !== undefined,
      ...http,
    }
    this.#connections = new Connections(limits, report)
    metrics.gauge('sluice_source_connections', 'Open connections.', () => this.#connections.size)
  }

  /** Listens with the server that `make` makes; rejects, in words for people, when that is not possible. */
  async open(make: (tls: TlsOptions | undefined) => Server, renewEveryMs = RENEW_MS): Promise<void> {
    const { listen } = this.#options
    const content = await this.#tls?.load()
    const server = make(content && serverOptions(content))
    this.#server = server
    if (content)
      server.prependListener('tlsClientError', (error: Error, socket: Socket) => this.#tlsFailed(error, socket))
    this.#connections.attach(server, this.#tls !== undefined)
    server.on('connection', socket => this.#connected(socket))
    try {
      this.#address = await listenOn(server, listen)
    } catch (cause) {
      throw new Error(whyNot(listen, cause), { cause })
    }
    server.on('error', error => this.#acceptFailed(error))
    if (this.#tls) {
      const renew = async (tls: TlsFiles) => {
        const renewed = await tls.renewed()
        if (renewed) (server as TlsServer).setSecureContext(serverOptions(renewed))
      }
      this.#stopRenewing = every(renewEveryMs, () => void renew(this.#tls!))
    }
    this.#context.log.info({ address: this.address, tls: this.#tls !== undefined }, 'listening')
  }

  /** HOST:PORT as it is, also where the port was chosen by the system. */
  get address(): string {
    return this.#address
  }

  #connected(socket: Socket): void {
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    // Asked for once, it is kept for the log when the connection is closed.
    if (this.#tls) peerOf(socket)
    this.watch(socket)
  }

  /** A request with all its headers has come. */
  request(request: IncomingMessage, response: ServerResponse): void {
    this.#connections.request(request, response)
  }

  /** Too many requests of a connection wait for the ones before them. */
  pipelined(socket: Socket): void {
    this.#connections.pipelined(socket)
  }

  /** Something complete has come over a connection without requests. */
  received(socket: Socket): void {
    this.#connections.received(socket)
  }

  /** Counts the failure of a connection, and of a TLS connection that was made over it. */
  watch(socket: Socket): void {
    if (this.#watched.has(socket)) return
    this.#watched.add(socket)
    const { log, metrics } = this.#context
    socket.on('error', error => {
      metrics.failed('connection')
      log.debug({ peer: peerOf(socket), error: errorText(error) }, 'connection failed')
    })
  }

  #tlsFiles(paths: NonNullable<ListenerOptions['tls']>): TlsFiles {
    const { log, clock, metrics, reach } = this.#context
    const files = new TlsFiles(paths, { log, clock, reach, failed: () => metrics.failed('tls_files') })
    exposeExpiries(metrics, () => files.expiries)
    metrics.gauges(REFUSED_AGE.name, REFUSED_AGE.help, () => this.#refusals.ages())
    return files
  }

  #tlsFailed(error: Error, socket: Socket): void {
    const { metrics } = this.#context
    const reason = this.#refusals.add(error, socket)
    metrics.failed('tls')
    metrics.counter(REFUSED_TOTAL.name, REFUSED_TOTAL.help, { reason }).value++
    socket.destroy()
  }

  #acceptFailed(error: Error): void {
    this.#context.metrics.failed('accept')
    this.#context.log.warn({ code: errorCode(error), error: errorText(error) }, 'a connection could not be accepted')
  }

  /** No connection is accepted any more; those that are open stay. */
  stopAccepting(): void {
    this.#stopRenewing?.()
    this.#server?.close()
  }

  /** Closes every connection, at once. */
  close(): void {
    this.stopAccepting()
    this.#connections.close()
  }
}

function whyNot(address: ListenAddress, error: unknown): string {
  if ('systemd' in address) return errorText(error)
  const why: Record<string, string> = {
    EADDRINUSE: 'another program listens there',
    EADDRNOTAVAIL: 'this machine does not have that address',
    EACCES: 'this user may not listen on a port below 1024',
    ENOTFOUND: 'that name cannot be resolved',
  }
  return `cannot listen on ${listenText(address)}: ${why[errorCode(error) ?? ''] ?? errorText(error)}`
}

/** The address of the other side, as a person would write it. */
export function peerOf(socket: Socket): string | undefined {
  const { remoteAddress } = socket
  return remoteAddress === undefined ? undefined : plainAddress(remoteAddress)
}

/** Whether only this machine reaches it, as far as that is known. */
export function isLocal(address: ListenAddress): boolean {
  return 'host' in address && /^(localhost|127\..*|::1)$/.test(address.host)
}
