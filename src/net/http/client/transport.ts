import type { DestinationContext, HandoverState } from '../../../core/component.js'
import { DeliveryError, errorText } from '../../../core/errors.js'
import { every } from '../../../lib/time.js'
import { networkError } from '../../explain.js'
import { ProxySettings, type Via, variableFor } from '../../proxy.js'
import { exposeExpiries, TlsFiles, TlsFilesError } from '../../tls.js'
import type { Answer, Connections, Sent } from './connections.js'
import type { ClientOptions } from './options.js'
import { withoutQuery } from './urls.js'

/** Polling interval for replaced files while there are requests. */
const POLL_MS = 1000
/** Polling interval for replaced files while there are none. */
const IDLE_POLL_MS = 60_000

/** The connections of a destination and their certificates. */
export class Transport {
  readonly #options: ClientOptions
  readonly #context: DestinationContext
  readonly #tls: TlsFiles
  #proxy: ProxySettings | undefined
  #connections: Connections | undefined
  /** The connections of the predecessor with the same options. */
  #inherited: Connections | undefined
  #polledAt = Number.NEGATIVE_INFINITY
  #stopPolling: (() => void) | undefined

  constructor(options: ClientOptions, context: DestinationContext) {
    const { log, clock, metrics, reach } = context
    this.#options = options
    this.#context = context
    this.#inherited = context.inherited as Connections | undefined
    this.#tls = new TlsFiles(tlsPaths(options), { log, clock, reach, failed: () => metrics.failed('tls_files') })
    exposeExpiries(metrics, () => this.#tls.expiries)
  }

  /** Reads the certificates. If they are unusable, throws an error that pauses delivery until they are replaced. */
  async open(): Promise<void> {
    if (this.#connections) return await this.#renew()
    this.#openProxy()
    const content = await this.#tls.load().catch(cause => {
      const reason = cause instanceof TlsFilesError && cause.denied ? 'file_denied' : 'tls_files'
      throw new DeliveryError(errorText(cause), { failure: 'hold', reason, cause })
    })
    // Loaded only when needed.
    const { Connections } = await import('./connections.js')
    this.#connections = this.#inherited ?? new Connections(this.#options, content, this.#context.reach)
    this.#connections.findProxy = this.#proxy && (target => this.#proxy!.viaFor(target))
    this.#connections.renew(content)
    this.#inherited = undefined
    if (hasTlsFiles(this.#options)) this.#stopPolling = every(IDLE_POLL_MS, () => void this.#renew())
  }

  /**
   * Makes one attempt, of a request for `url`. Throws the reason of the signal, or a DeliveryError if there was no
   * response.
   */
  async request(request: Sent, url: string, signal: AbortSignal): Promise<Answer> {
    if (hasTlsFiles(this.#options) && this.#context.clock.now() - this.#polledAt >= POLL_MS) await this.#renew()
    signal.throwIfAborted()
    const { target } = request
    const via = this.#proxy && target.protocol === 'http:' ? await this.#proxy.viaFor(target) : undefined
    const sent = via ? throughProxy(request, via) : request
    try {
      return await this.#connections!.request(sent, signal)
    } catch (error) {
      if (signal.aborted) throw error
      throw this.broken(error, `${request.method} ${withoutQuery(url)}`, url)
    }
  }

  /** The DeliveryError for a network error. */
  broken(error: unknown, place: string, url: string): DeliveryError {
    return networkError(error, place, {
      url,
      tls: this.#options.tls,
      unanswered: this.#connections?.unanswered ?? false,
      proxy: this.#proxy?.urlFor(new URL(url))?.origin,
    })
  }

  /** The proxy that may respond in place of the receiver; undefined if there is none, or if it only opens a tunnel. */
  answeringProxy(url: string): string | undefined {
    const target = new URL(url)
    return target.protocol === 'http:' ? this.#proxy?.urlFor(target)?.origin : undefined
  }

  /** Texts that must not be shown. */
  get secrets(): readonly string[] {
    return this.#proxy?.secrets ?? []
  }

  /** Resolves with true if certificates or the password were replaced since they were read. */
  async changed(): Promise<boolean> {
    const [files, password] = await Promise.all([
      hasTlsFiles(this.#options) && this.#tls.replaced(),
      this.#proxy?.changed() ?? false,
    ])
    return files || password
  }

  #openProxy(): void {
    const { proxy, url } = this.#options
    const { log } = this.#context
    const target = new URL(url)
    const variable = variableFor(target)
    if (proxy !== undefined) {
      this.#proxy ??= new ProxySettings(proxy, this.#context)
      const through = this.#proxy.urlFor(target)?.origin
      if (through !== undefined) log.info({ proxy: through }, 'sending requests through a proxy')
      else if (proxy === 'environment')
        log.warn('"proxy: environment" is set, and the environment names no proxy for this host; connecting directly')
    } else if (variable !== undefined && !this.#context.reach)
      log.info({ variable }, 'the environment names a proxy that is not used; set "proxy: environment" to use it')
  }

  handOver(): HandoverState | undefined {
    const connections = this.#release()
    return connections && { value: connections, release: () => connections.close() }
  }

  async stop(): Promise<void> {
    await this.#release()?.close()
  }

  #release(): Connections | undefined {
    this.#stopPolling?.()
    const connections = this.#connections ?? this.#inherited
    this.#connections = undefined
    this.#inherited = undefined
    return connections
  }

  async #renew(): Promise<void> {
    this.#polledAt = this.#context.clock.now()
    const content = await this.#tls.renewed()
    if (content) this.#connections?.renew(content)
  }
}

/** Requests for http URLs are sent to the proxy with the full URL of the receiver. */
function throughProxy(request: Sent, { url, authorization }: Via): Sent {
  const { target } = request
  const headers = {
    ...request.headers,
    host: target.host,
    ...(authorization && { 'proxy-authorization': authorization }),
  }
  return { ...request, target: new URL(url.origin), path: `${target.origin}${request.path}`, headers }
}

function tlsPaths({ tls: { ca_file, cert_file, key_file } }: ClientOptions) {
  return { ca_file, cert_file, key_file }
}

function hasTlsFiles(options: ClientOptions): boolean {
  return Object.values(tlsPaths(options)).some(path => path !== undefined)
}
