import type { Server as HttpServer } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { PageState } from '../../core/status-document.js'
import type { Config } from '../../engine/config/load.js'
import { type ListenAddress, listenText } from '../../lib/network/inherited-sockets.js'
import { closeServer, urlOf } from '../../net/http/server/bounded-server.js'
import type { Served } from '../admin/server.js'
import { listenAtSocket, socketPath } from '../admin/socket.js'
import type { Tappable } from '../admin/tap.js'
import { type PageSources, pageWing, type ServedPage } from './page-wing.js'

type Listen = Pick<Config, 'metrics' | 'statusPage'>

interface Prepared {
  use(): void
  drop(): void
}
const UNCHANGED: Prepared = { use() {}, drop() {} }

/** The servers on which the daemon reports about itself: the metrics address, its page, and the Unix socket. */
export class Servers {
  readonly #reports: Served
  readonly #pageSources: PageSources | undefined
  readonly #log: Logger
  #address: Listen['metrics']
  #metrics: HttpServer | undefined
  #page: ServedPage | undefined
  #socket: HttpServer | undefined

  /** A configuration with a page needs `pageSources`. */
  constructor(reports: Served, log: Logger, pageSources?: PageSources) {
    this.#reports = reports
    this.#pageSources = pageSources
    this.#log = log
  }

  /** The URL of /metrics; undefined if metrics are not served. */
  get metricsUrl(): string | undefined {
    return this.#metrics && this.#address && urlOf('http', this.#metrics, this.#address, '/metrics')
  }

  get pageUrl(): string | undefined {
    return this.#page?.url
  }

  get pageState(): PageState | undefined {
    return this.#page?.state
  }

  /** Throws if the address of the metrics or of the page cannot be used. */
  async open(config: Config, tappable: Tappable): Promise<void> {
    const prepared = await this.prepare(config)
    prepared.use()
    await this.openSocket(config.dataDir, tappable)
  }

  /** Opens the socket in `dataDir`, and closes the socket in an earlier data_dir. */
  async openSocket(dataDir: string, tappable: Tappable): Promise<void> {
    closeServer(this.#socket)
    const path = socketPath(dataDir)
    try {
      const { socketServer } = await import('../admin/server.js')
      const server = socketServer(this.#reports, tappable, this.#log, () => this.#page)
      await listenAtSocket(server, path)
      this.#socket = server
    } catch (error) {
      // The daemon runs without the socket, since only the commands that inspect the daemon need it.
      this.#log.info(
        { socket: path, error: errorText(error) },
        'cannot open the socket of the daemon; sluice status, top and tap cannot reach it',
      )
    }
  }

  /**
   * Listens at new addresses of the metrics and the page, in addition to the old ones. `use` closes the old servers,
   * `drop` the new ones. Throws if listening is impossible.
   */
  async prepare({ metrics, statusPage }: Listen): Promise<Prepared> {
    const first = await this.#prepareMetrics(metrics)
    const second = await this.#preparePage(statusPage).catch(error => {
      first.drop()
      throw error
    })
    const both = [first, second]
    return {
      use: () => {
        for (const one of both) one.use()
      },
      drop: () => {
        for (const one of both) one.drop()
      },
    }
  }

  async #prepareMetrics(address: Listen['metrics']): Promise<Prepared> {
    if (isDeepStrictEqual(address, this.#address)) return UNCHANGED
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

  async #preparePage(options: Listen['statusPage']): Promise<Prepared> {
    const before = this.#page
    if (!options) {
      const use = () => {
        before?.close()
        this.#page = undefined
      }
      return { use, drop() {} }
    }
    if (!pageWing.load) throw new Error('status_page: this installation has no page')
    // Without a page, none of its modules are loaded.
    const { StatusPage } = await pageWing.load()
    const page = before ?? new StatusPage(this.#pageSources!, options, this.#log)
    try {
      const { use, drop } = await page.prepare(options)
      const undo = () => {
        drop()
        if (!before) page.close()
      }
      return {
        use: () => {
          this.#page = page
          use()
        },
        drop: undo,
      }
    } catch (error) {
      if (!before) page.close()
      throw this.#cannotServe('the page', options.listen, 'status_page.listen', error)
    }
  }

  async #serve(address: ListenAddress): Promise<HttpServer> {
    const { serveAdmin } = await import('../admin/server.js')
    try {
      return await serveAdmin(address, this.#reports, this.#log)
    } catch (error) {
      throw this.#cannotServe('metrics', address, 'metrics.listen', error)
    }
  }

  #cannotServe(what: string, address: ListenAddress, option: string, error: unknown): Error {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    const isSamePort = (url: string) => 'port' in address && new URL(url).port === String(address.port)
    // A reload opens the new server before it closes the old one.
    const own = [this.metricsUrl, this.pageUrl].find(url => url !== undefined && isSamePort(url))
    const why = !isTaken
      ? errorText(error)
      : own === undefined
        ? `another program listens there; set ${option} to a free port`
        : `this daemon uses the port for ${own}; restart the daemon to change only the host, or set ${option} to a free port`
    return new Error(`cannot serve ${what} at ${listenText(address)}: ${why}`, { cause: error })
  }

  close(): void {
    for (const server of [this.#metrics, this.#socket]) closeServer(server)
    this.#page?.close()
  }
}
