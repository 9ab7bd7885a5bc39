import type { ComponentContext, HandoverState } from '../../../core/component.js'
import type { DeliveryError } from '../../../core/errors.js'
import type { DialOptions } from '../../dial-options.js'
import { Dialer } from '../../dialer.js'
import type { Via } from '../../proxy.js'
import { withoutQuery } from '../../urls.js'
import type { Answer, HttpClient, Sent } from './http-client.js'

/** How to connect. `url`: the first URL to connect to. */
export type TransportOptions = DialOptions & { readonly url: string }

export class Transport {
  readonly #options: TransportOptions
  readonly #dialer: Dialer
  #client: HttpClient | undefined
  /** Connections of a predecessor with the same options, which this transport can use. */
  #inherited: HttpClient | undefined

  constructor(options: TransportOptions, context: ComponentContext) {
    this.#options = options
    this.#inherited = context.inherited as HttpClient | undefined
    this.#dialer = new Dialer(options, context)
  }

  /**
   * Reads the certificates. If they are unusable, throws an error that pauses delivery until the certificates are
   * replaced.
   */
  async open(): Promise<void> {
    if (this.#client) return await this.#dialer.renew()
    const { HttpClient } = await import('./http-client.js')
    const client = this.#inherited ?? new HttpClient()
    await this.#dialer.open(new URL(this.#options.url), content => client.renew(content))
    client.dial = target => this.#dialer.dial(target)
    this.#client = client
    this.#inherited = undefined
  }

  /** Attempts a request once. If the signal aborts, throws its reason. Without a response, throws a DeliveryError. */
  async request(request: Sent, url: string, signal: AbortSignal): Promise<Answer> {
    // A needless await would let sources read before the request is sent.
    const renewing = this.#dialer.renew(true)
    if (renewing) await renewing
    signal.throwIfAborted()
    const finding = this.#dialer.viaFor(request.target)
    const via = finding && (await finding)
    const sent = via ? throughProxy(request, via) : request
    try {
      return await this.#client!.request(sent, signal)
    } catch (error) {
      if (signal.aborted) throw error
      throw this.broken(error, `${request.method} ${withoutQuery(url)}`, url)
    }
  }

  /** Connects like a request for `url`, but sends nothing. Throws a DeliveryError. */
  async connect(url: string): Promise<void> {
    const target = new URL(new URL(url).origin)
    try {
      const via = await this.#dialer.viaFor(target)
      const socket = await this.#dialer.dial(via ? new URL(via.url.origin) : target)
      socket.destroy()
    } catch (error) {
      throw this.broken(error, withoutQuery(url), url)
    }
  }

  broken(error: unknown, place: string, url: string): DeliveryError {
    return this.#dialer.explain(error, place, url, this.#client?.unanswered)
  }

  answeringProxy(url: string): string | undefined {
    return this.#dialer.answeringProxy(new URL(url))
  }

  get secrets(): readonly string[] {
    return this.#dialer.secrets
  }

  changed(): Promise<boolean> {
    return this.#dialer.changed()
  }

  handOver(): HandoverState | undefined {
    this.#dialer.release()
    const client = this.#client ?? this.#inherited
    this.#client = undefined
    this.#inherited = undefined
    return client && { value: client, release: () => client.close() }
  }

  /**
   * Leaves unused inherited connections open: if a reload fails, the previous configuration inherits them again.
   * Otherwise, they close soon, because they are idle.
   */
  async stop(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await Promise.all([client?.close(), this.#dialer.close()])
  }
}

/** For http URLs: returns the request addressed to the proxy, with the receiver's full URL. */
function throughProxy(request: Sent, { url, authorization }: Via): Sent {
  const { target } = request
  const headers = {
    ...request.headers,
    host: target.host,
    ...(authorization && { 'proxy-authorization': authorization }),
  }
  return { ...request, target: new URL(url.origin), path: `${target.origin}${request.path}`, headers }
}
