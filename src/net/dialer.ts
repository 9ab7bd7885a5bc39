import type { Socket } from 'node:net'
import type { ComponentContext } from '../core/component.js'
import { DeliveryError, errorText } from '../core/errors.js'
import { every } from '../lib/time.js'
import { Connector, connectProxy, openTunnel } from './dial.js'
import type { DialOptions } from './dial-options.js'
import { networkError } from './explain.js'
import { ProxySettings, type Via, variableFor } from './proxy.js'
import { expiryFact, TlsFiles, TlsFilesError } from './tls.js'
import type { TlsContent } from './tls-check.js'

/** Time between checks for replaced files while requests are sent. */
const POLL_MS = 1000
/** Time between checks for replaced files while the destination is idle. */
const IDLE_POLL_MS = 60_000

/** Connects a destination to its receiver with current certificates, through a proxy, within the limits of `reach`. */
export class Dialer {
  readonly #options: DialOptions
  readonly #context: ComponentContext
  readonly #tls: TlsFiles
  readonly #hasTlsFiles: boolean
  readonly #connecting = new Set<Socket>()
  #proxy: ProxySettings | undefined
  #connectors: { readonly receiver: Connector; readonly proxy: Connector } | undefined
  #polledAt = Number.NEGATIVE_INFINITY
  #stopPolling: (() => void) | undefined
  /** Called with the certificates at the start and after each replacement. */
  #renewed: (content: TlsContent) => void = () => {}

  constructor(options: DialOptions, context: ComponentContext) {
    const { log, clock, metrics, reach } = context
    const { ca_file, cert_file, key_file } = options.tls
    this.#options = options
    this.#context = context
    this.#hasTlsFiles = [ca_file, cert_file, key_file].some(path => path !== undefined)
    const failed = () => metrics.failed('tls_files')
    this.#tls = new TlsFiles({ ca_file, cert_file, key_file }, { log, clock, reach, failed })
    metrics.fact(expiryFact(() => this.#tls.expiries))
  }

  /**
   * Reads the certificates. If they are unusable, throws an error that pauses delivery until the certificates are
   * replaced. Calls `renewed` with the certificates now and after each replacement. `renewed` must stop using older
   * connections.
   */
  async open(target: URL, renewed: (content: TlsContent) => void): Promise<void> {
    this.#openProxy(target)
    const content = await this.#tls.load().catch(cause => {
      const reason = cause instanceof TlsFilesError && cause.denied ? 'file_denied' : 'tls_files'
      throw new DeliveryError(errorText(cause), { failure: 'hold', reason, cause })
    })
    this.#renewed = renewed
    this.#use(content)
    if (this.#hasTlsFiles) this.#stopPolling = every(IDLE_POLL_MS, () => void this.renew())
  }

  /** Applies replaced certificates. With `isRequest`, does nothing if the last check was less than a second ago. */
  renew(isRequest = false): Promise<void> | undefined {
    const now = this.#context.clock.now()
    if (isRequest && (!this.#hasTlsFiles || now - this.#polledAt < POLL_MS)) return undefined
    this.#polledAt = now
    return this.#tls.renewed().then(content => {
      if (content) this.#use(content)
    })
  }

  /** Connects to a URL's host and port, and verifies the receiver's certificate. Call `open` first. */
  async dial(target: URL): Promise<Socket> {
    const { receiver, proxy } = this.#connectors!
    const via = await this.#proxy?.viaFor(target)
    const isProxy = via && target.origin === via.url.origin
    // A request for an http URL is sent to the proxy itself, and not through a tunnel.
    if (!via || isProxy || target.protocol === 'http:') return await (isProxy ? proxy : receiver).connect(target)
    const denied = receiver.denied(target)
    if (denied) throw denied
    return await receiver.connect(target, await this.#tunnel(via, target, proxy))
  }

  /** The proxy to which a request for an http URL is sent; undefined for other URLs and without a proxy. */
  viaFor(target: URL): Promise<Via | undefined> | undefined {
    return target.protocol === 'http:' ? this.#proxy?.viaFor(target) : undefined
  }

  /**
   * Origin of the proxy that may respond instead of the receiver; undefined if there is none or it is only a tunnel.
   */
  answeringProxy(target: URL): string | undefined {
    return target.protocol === 'http:' ? this.#proxy?.urlFor(target)?.origin : undefined
  }

  /** Converts a connection error to a DeliveryError. `unanswered`: as in `Way`. */
  explain(error: unknown, place: string, url: string, unanswered = false): DeliveryError {
    const proxy = this.#proxy?.urlFor(new URL(url))?.origin
    return networkError(error, place, { url, tls: this.#options.tls, unanswered, proxy })
  }

  get secrets(): readonly string[] {
    return this.#proxy?.secrets ?? []
  }

  /** Resolves with true if certificates or the proxy's password were replaced since they were read. */
  async changed(): Promise<boolean> {
    const files = this.#hasTlsFiles && this.#tls.replaced()
    const [replaced, password] = await Promise.all([files, this.#proxy?.changed() ?? false])
    return replaced || password
  }

  async close(): Promise<void> {
    this.release()
    await closeAll(this.#connecting)
  }

  /** Stops polling files. */
  release(): void {
    this.#stopPolling?.()
  }

  #use(content: TlsContent): void {
    const { connect_timeout: timeoutMs, tls } = this.#options
    const { ca, cert, key } = content
    const common = { ca, timeoutMs, reach: this.#context.reach }
    const receiver = new Connector({ ...common, cert, key, serverName: tls.server_name }, this.#connecting)
    this.#connectors = { receiver, proxy: new Connector(common, this.#connecting) }
    this.#renewed(content)
  }

  #openProxy(target: URL): void {
    const { proxy } = this.#options
    const { log } = this.#context
    const variable = variableFor(target)
    if (proxy !== undefined) {
      this.#proxy ??= new ProxySettings(proxy, this.#context)
      const through = this.#proxy.urlFor(target)?.origin
      if (through !== undefined) log.info({ proxy: through }, 'sending requests through a proxy')
      else if (proxy === 'environment')
        log.warn(
          '"proxy: environment" is set, but the environment does not name a proxy for this host; connecting directly',
        )
    } else if (variable !== undefined && !this.#context.reach)
      log.info({ variable }, 'the environment names a proxy that is not used; set "proxy: environment" to use it')
  }

  async #tunnel(via: Via, target: URL, proxy: Connector): Promise<Socket> {
    const socket = await connectProxy(via, proxy)
    this.#connecting.add(socket)
    try {
      return await openTunnel(socket, via, target, this.#options.connect_timeout)
    } finally {
      this.#connecting.delete(socket)
    }
  }
}

/** Destroys sockets. Resolves when they are closed. */
export async function closeAll(sockets: Iterable<Socket>): Promise<void> {
  const all = [...sockets]
  const closed = all.map(socket => new Promise(resolve => socket.once('close', resolve)))
  for (const socket of all) socket.destroy(new Error('closing'))
  await Promise.all(closed)
}
