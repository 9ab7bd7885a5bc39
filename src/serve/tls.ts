import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { TlsOptions, Server as TlsServer } from 'node:tls'
import type { Logger } from 'pino'
import { EXPIRY_SERIES, expirySeries, TlsFiles } from '../core/tls-files.js'
import type { Metrics } from '../engine/metrics.js'
import { peerOf } from '../http/server/listener.js'
import { serverOptions, type TlsFileOptions } from '../http/server/tls.js'
import { REFUSED_AGE, REFUSED_TOTAL, TlsRefusals } from '../http/server/tls-refusals.js'
import { systemClock } from '../lib/time.js'

/** The certificate of the service, and the clients that do not get through the handshake. */
export class ServiceTls {
  readonly #files: TlsFiles
  readonly #refusals: TlsRefusals
  #failed = 0

  constructor(options: TlsFileOptions, log: Logger) {
    this.#refusals = new TlsRefusals(log, systemClock)
    this.#files = new TlsFiles(options, { log, clock: systemClock, failed: () => this.#failed++ })
  }

  async load(): Promise<TlsOptions> {
    return serverOptions(await this.#files.load())
  }

  /** Counts what the server refuses. */
  follow(server: Server, metrics: Metrics): void {
    // Asked for once, the address is kept for the log when the connection is closed.
    server.on('connection', peerOf)
    server.prependListener('tlsClientError', (error: Error, socket: Socket) => void this.#refusals.add(error, socket))
    metrics.series('counter', REFUSED_TOTAL.name, REFUSED_TOTAL.help, () => this.#refusals.totals())
    metrics.series('gauge', REFUSED_AGE.name, REFUSED_AGE.help, () => this.#refusals.ages())
    metrics.series('gauge', EXPIRY_SERIES.name, EXPIRY_SERIES.help, () => expirySeries(this.#files.expiries))
    const help = 'Renewed TLS files of the service that could not be used.'
    metrics.series('counter', 'sluice_api_tls_renewal_errors_total', help, () => [{ labels: {}, value: this.#failed }])
  }

  /** Takes replaced files into use. */
  async renew(server: Server): Promise<void> {
    const content = await this.#files.renewed()
    if (content) (server as unknown as TlsServer).setSecureContext(serverOptions(content))
  }
}
