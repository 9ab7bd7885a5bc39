import type { Server, Socket } from 'node:net'
import type { TlsOptions, Server as TlsServer } from 'node:tls'
import { z } from 'zod'
import type { SourceContext } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import { listenAddress } from '../../core/options.js'
import { type ListenAddress, listenOn, listenText } from '../../lib/inherited-sockets.js'
import { every } from '../../lib/time.js'
import { TlsFiles, tlsOptions } from './tls.js'

/** Options of every source that others connect to. */
export const listenOptions = {
  listen: listenAddress().describe(
    'HOST:PORT to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere. Or systemd:NAME, the socket of a .socket unit with FileDescriptorName=NAME: what connects while the daemon is started again waits, and ports below 1024 need no privilege.',
  ),
  tls: tlsOptions.optional().describe('Speaks TLS. Renewed files are read again within a minute.'),
  max_connections: z
    .int()
    .min(1)
    .max(100_000)
    .default(1000)
    .describe('Connections open at a time; further ones are closed at once.'),
}

export interface ListenerOptions {
  readonly listen: ListenAddress
  readonly tls?: z.output<typeof tlsOptions> | undefined
  readonly max_connections: number
}

const RENEW_MS = 60_000
/** Of a peer that is gone without a word. */
const KEEP_ALIVE_MS = 60_000

/** A listening server with its limits, its metrics, and its end. */
export class Listener {
  readonly #options: ListenerOptions
  readonly #context: SourceContext
  readonly #tls: TlsFiles | undefined
  readonly #sockets = new Set<Socket>()
  readonly #watched = new WeakSet<Socket>()
  readonly #refused: { value: number }
  #server: Server | undefined
  #address = ''
  #stopRenewing: (() => void) | undefined
  #full = false

  constructor(options: ListenerOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    if (options.tls) this.#tls = new TlsFiles(options.tls, context.log)
    this.#refused = context.metrics.counter(
      'sluice_source_refused_connections_total',
      'Connections that were closed at once, because as many as allowed were open.',
    )
    context.metrics.gauge('sluice_source_connections', 'Open connections.', () => this.#sockets.size)
  }

  /** Listens with the server that `make` makes; rejects, in words for people, when that is not possible. */
  async open(make: (tls: TlsOptions | undefined) => Server, renewEveryMs = RENEW_MS): Promise<void> {
    const { listen, max_connections } = this.#options
    const server = make(await this.#tls?.load())
    this.#server = server
    server.on('connection', socket => this.#connected(socket))
    const limits = { maxConnections: max_connections, dropped: () => this.#dropped() }
    try {
      this.#address = await listenOn(server, listen, limits)
    } catch (cause) {
      throw new Error(whyNot(listen, cause), { cause })
    }
    server.on('error', error => this.#acceptFailed(error))
    if (this.#tls) {
      const renew = (tls: TlsOptions) => (server as TlsServer).setSecureContext(tls)
      this.#stopRenewing = every(renewEveryMs, () => void this.#tls!.renew(renew))
    }
    this.#context.log.info({ address: this.address, tls: this.#tls !== undefined }, 'listening')
  }

  /** HOST:PORT as it is, also where the port was chosen by the system. */
  get address(): string {
    return this.#address
  }

  #connected(socket: Socket): void {
    this.#full = false
    this.#sockets.add(socket)
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.on('close', () => this.#sockets.delete(socket))
    this.watch(socket)
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

  #dropped(): void {
    this.#refused.value++
    if (!this.#full) {
      const { max_connections } = this.#options
      this.#context.log.warn({ max_connections }, 'too many connections: further ones are closed at once')
    }
    this.#full = true
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
    for (const socket of this.#sockets) socket.destroy()
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
  return socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '')
}

/** Whether only this machine reaches it, as far as that is known. */
export function isLocal(address: ListenAddress): boolean {
  return 'host' in address && /^(localhost|127\..*|::1)$/.test(address.host)
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
