import { isIP } from 'node:net'
import type { DestinationContext } from '../../../core/component.js'
import { DeliveryError } from '../../../core/errors.js'
import { AddressList } from '../../../lib/network/address-list.js'
import { AccessKey } from '../../auth/access-key.js'
import type { ProxyOptions } from './proxy-options.js'

/** The proxy that a request goes through. */
export interface Via {
  readonly url: URL
  /** Undefined: it wants none. */
  readonly authorization: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Which proxy is used for which address, and with what password. */
export class ProxySettings {
  readonly #options: ProxyOptions
  readonly #env: Environment
  readonly #direct: DirectHosts
  readonly #password: AccessKey | undefined
  #secrets: readonly string[] = []

  constructor(options: ProxyOptions, { log, reach }: DestinationContext, env: Environment = process.env) {
    // The operator's proxy would make connections that this pipeline must not make.
    if (options === 'environment' && reach)
      throw new DeliveryError('"proxy: environment" is not available to a published pipeline', {
        failure: 'hold',
        reason: 'proxy_denied',
      })
    this.#options = options
    this.#env = env
    this.#direct = options === 'environment' ? directHostsOf(env) : new DirectHosts(options.no_proxy)
    if (options === 'environment' || !options.auth) return
    const { password, password_file, credential } = options.auth
    const source = { key: password, key_file: password_file, credential }
    const auth = { type: 'token', scheme: '', header: 'proxy-authorization', ...source } as const
    this.#password = new AccessKey(auth, log.child({ option: 'proxy.auth' }), reach)
  }

  /** What must not be shown. */
  get secrets(): readonly string[] {
    return this.#secrets
  }

  /** The address of the proxy for an address, without its password; undefined: none. */
  urlFor(target: URL): URL | undefined {
    if (this.#direct.has(target)) return undefined
    return this.#options === 'environment' ? proxyFrom(this.#env, target) : new URL(this.#options.url)
  }

  /** Undefined: the address is reached directly. */
  async viaFor(target: URL): Promise<Via | undefined> {
    const url = this.urlFor(target)
    if (!url) return undefined
    const user = this.#options === 'environment' ? decoded(url.username) : this.#options.auth?.user
    if (!user) return { url, authorization: undefined }
    const password = this.#password ? await this.#current() : decoded(url.password)
    const encoded = Buffer.from(`${user}:${password}`).toString('base64')
    this.#secrets = password === '' ? [encoded] : [encoded, password]
    return { url, authorization: `Basic ${encoded}` }
  }

  /** Whether the password was replaced. */
  async changed(): Promise<boolean> {
    return (await this.#password?.changed()) ?? false
  }

  async #current(): Promise<string> {
    try {
      return await this.#password!.current()
    } catch (cause) {
      if (!(cause instanceof DeliveryError)) throw cause
      const { failure, reason, message } = cause
      throw new DeliveryError(`proxy.auth: ${message}`, { failure, reason, cause })
    }
  }
}

/** The names of the variables for the proxy of an address, in order. */
function variablesFor({ protocol }: URL): string[] {
  const name = protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  return [name, name.toUpperCase(), 'all_proxy', 'ALL_PROXY']
}

/** The variable that names a proxy for the address; undefined: none does. */
export function variableFor(target: URL, env: Environment = process.env): string | undefined {
  return directHostsOf(env).has(target) ? undefined : variablesFor(target).find(name => env[name])
}

/** The proxy that the environment names for an address that is not reached directly. */
function proxyFrom(env: Environment, target: URL): URL | undefined {
  const name = variablesFor(target).find(name => env[name])
  const text = name && env[name]
  if (!text) return undefined
  const full = text.includes('://') ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  // The value may hold a password.
  const message = `the variable ${name} must be the address of a proxy that begins with http:// or https://`
  throw new DeliveryError(message, { failure: 'hold', reason: 'proxy' })
}

function directHostsOf(env: Environment): DirectHosts {
  return new DirectHosts((env.no_proxy ?? env.NO_PROXY ?? '').split(/[\s,]+/).filter(entry => entry !== ''))
}

const withoutBrackets = (host: string) => host.replace(/^\[|\]$/g, '')

/** The hosts of a list as in NO_PROXY. */
class DirectHosts {
  readonly #all: boolean
  readonly #ranges = new AddressList()
  readonly #hosts: readonly { readonly domain: string; readonly port: string | undefined }[]

  constructor(list: readonly string[]) {
    this.#all = list.includes('*')
    for (const entry of list) if (entry.includes('/')) this.#ranges.tryAdd(entry)
    this.#hosts = list
      .filter(entry => !entry.includes('/'))
      .map(entry => {
        const [, name = '', port] = isIP(entry) ? [entry, entry] : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? [])
        const domain = withoutBrackets(name).replace(/^\*?\./, '')
        return { domain: domain.toLowerCase(), port }
      })
  }

  has({ hostname, port, protocol }: URL): boolean {
    const host = withoutBrackets(hostname).toLowerCase()
    const usedPort = port || (protocol === 'https:' ? '443' : '80')
    if (this.#all || this.#ranges.has(host)) return true
    return this.#hosts.some(
      ({ domain, port }) =>
        (port === undefined || port === usedPort) && (host === domain || host.endsWith(`.${domain}`)),
    )
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
