import type { Server, Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { SourceContext } from '../../../core/component.js'
import { errorCode, errorText } from '../../../core/errors.js'
import { type ListenAddress, listenOn, listenText } from '../../../lib/network/inherited-sockets.js'
import { plainAddress } from '../../../lib/network/network-address.js'
import { exposeExpiries } from '../../tls/tls-files.js'
import { boundConnections } from './addresses.js'
import { ConnectionReport } from './connection-report.js'
import type { Connections } from './connections.js'
import type { ConnectionOptions, TlsFileOptions } from './listen-options.js'
import { ServerTls } from './server-tls.js'
import { REFUSED_AGE, REFUSED_TOTAL } from './tls-refusals.js'

export interface ListenerOptions extends ConnectionOptions {
  readonly listen: ListenAddress
  readonly tls?: TlsFileOptions | undefined
}

/** Detects peers that vanished silently. */
const KEEP_ALIVE_MS = 60_000

/** A listening server with its limits and metrics. */
export class Listener {
  readonly #options: ListenerOptions
  readonly #context: SourceContext
  readonly #tls: ServerTls | undefined
  readonly #watched = new WeakSet<Socket>()
  readonly connections: Connections
  #server: Server | undefined
  #address = ''
  #stopRenewing: (() => void) | undefined

  /** `http`: as for `boundConnections`. */
  constructor(options: ListenerOptions, context: SourceContext, http?: Parameters<typeof boundConnections>[2]) {
    this.#options = options
    this.#context = context
    const { metrics, log } = context
    if (options.tls) this.#tls = this.#tlsOf(options.tls)
    const report = new ConnectionReport('sluice_source', (...about) => metrics.counter(...about), log)
    this.connections = boundConnections(options, report, http)
    metrics.gauge('sluice_source_connections', 'Open connections.', () => this.connections.size)
  }

  /** Listens with the server that `make` creates. Rejects with a message for people on failure. */
  async open(make: (tls: TlsOptions | undefined) => Server, renewEveryMs?: number): Promise<void> {
    const { listen } = this.#options
    const server = make(await this.#tls?.load())
    this.#server = server
    this.#stopRenewing = this.#tls?.attach(server, reason => this.#tlsRefused(reason), renewEveryMs)
    this.connections.attach(server, this.#tls !== undefined)
    server.on('connection', socket => {
      socket.setKeepAlive(true, KEEP_ALIVE_MS)
      this.watch(socket)
    })
    this.#address = await listening(listen, () => listenOn(server, listen))
    server.on('error', error => this.#acceptFailed(error))
    this.#context.log.info({ address: this.address, tls: this.#tls !== undefined }, 'listening')
  }

  /** The actual HOST:PORT, including a port chosen by the system. */
  get address(): string {
    return this.#address
  }

  /** Counts errors of a connection, and of a TLS connection on top of it. */
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
    exposeExpiries(metrics, () => tls.files.expiries)
    metrics.gauges(REFUSED_AGE.name, REFUSED_AGE.help, () => tls.refusals.ages())
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

  /** Stops accepting connections; open ones stay. */
  stopAccepting(): void {
    this.#stopRenewing?.()
    this.#server?.close()
  }

  /** Closes every connection immediately. */
  close(): void {
    this.stopAccepting()
    this.connections.close()
  }
}

/** Runs `listen`, which makes a server listen. Rejects with a message for people on failure. */
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

/** The address of the peer in its usual notation. */
export function peerOf(socket: Socket): string | undefined {
  const { remoteAddress } = socket
  return remoteAddress === undefined ? undefined : plainAddress(remoteAddress)
}
