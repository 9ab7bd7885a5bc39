import type { Server as HttpServer } from 'node:http'
import type { Server } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Config } from '../../engine/config/load.js'
import { type ListenAddress, listenText } from '../../lib/network/inherited-sockets.js'
import type { Served } from '../admin/server.js'
import { listenAtSocket, socketPath } from '../admin/socket.js'
import type { Tappable } from '../admin/tap.js'

type Listen = Config['metrics']

/** The servers on which the daemon reports about itself: the metrics address and the Unix socket. */
export class Servers {
  readonly #reports: Served
  readonly #log: Logger
  #address: Listen
  #metrics: HttpServer | undefined
  #socket: HttpServer | undefined

  constructor(reports: Served, log: Logger) {
    this.#reports = reports
    this.#log = log
  }

  /** The URL of /metrics; undefined if metrics are not served. */
  get metricsUrl(): string | undefined {
    return this.#metrics && this.#address && urlOf('http', this.#metrics, this.#address, '/metrics')
  }

  /** Throws if the metrics address cannot be used. */
  async open({ metrics, dataDir }: Config, tappable: Tappable): Promise<void> {
    const prepared = await this.prepare(metrics)
    prepared.use()
    await this.openSocket(dataDir, tappable)
  }

  /** Opens the socket in data_dir, or reopens it if that is another folder now. */
  async openSocket(dataDir: string, tappable: Tappable): Promise<void> {
    closeServer(this.#socket)
    const path = socketPath(dataDir)
    try {
      const { socketServer } = await import('../admin/server.js')
      const server = socketServer(this.#reports, tappable, this.#log)
      await listenAtSocket(server, path)
      this.#socket = server
    } catch (error) {
      // Only inspecting commands need the socket, so the daemon runs without it.
      this.#log.info(
        { socket: path, error: errorText(error) },
        'cannot open the socket of the daemon; sluice status, top and tap cannot reach it',
      )
    }
  }

  /**
   * Serves metrics also at a new address: `use` closes the old server, `drop` the new one. Throws if that is
   * impossible.
   */
  async prepare(address: Listen): Promise<{ use(): void; drop(): void }> {
    if (isDeepStrictEqual(address, this.#address)) return { use() {}, drop() {} }
    const next = address && (await this.#serve(address))
    return {
      use: () => {
        if (next) this.#log.info({ url: urlOf('http', next, address!, '/metrics') }, 'metrics are served')
        closeServer(this.#metrics)
        this.#metrics = next
        this.#address = address
      },
      drop: () => closeServer(next),
    }
  }

  async #serve(address: NonNullable<Listen>): Promise<HttpServer> {
    const { serveAdmin } = await import('../admin/server.js')
    try {
      return await serveAdmin(address, this.#reports, this.#log)
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
      const hint = taken ? ': another program listens there; set metrics.listen to a free port' : ''
      const why = 'systemd' in address ? `: ${errorText(error)}` : hint
      throw new Error(`cannot serve metrics at ${listenText(address)}${why}`, { cause: error })
    }
  }

  close(): void {
    for (const server of [this.#metrics, this.#socket]) closeServer(server)
  }
}

/** Ends all connections, too. */
export function closeServer(server: HttpServer | undefined): void {
  server?.close()
  server?.closeAllConnections()
}

/** The URL of a server, with its actual port if the system chose it. */
export function urlOf(scheme: string, server: Server, address: ListenAddress, path: string): string {
  if ('systemd' in address) return listenText(address)
  const bound = server.address()
  const { port } = typeof bound === 'object' && bound ? bound : address
  return `${scheme}://${listenText({ ...address, port })}${path}`
}
