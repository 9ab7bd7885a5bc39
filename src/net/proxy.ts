import { isIP } from 'node:net'
import { z } from 'zod'
import type { ComponentContext } from '../core/component.js'
import { DeliveryError } from '../core/errors.js'
import { once, refuse, secret } from '../core/options/options.js'
import { filePath, reaches } from '../core/options/reach.js'
import { AddressList, isAddressOrRange } from '../lib/network/address-list.js'
import { AccessKey, basicCredentials } from './key.js'
import { urlPlace } from './urls.js'

/** An http or https URL that cannot contain secrets. */
export const httpUrl = once(() => {
  const schema = z.string().superRefine((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      refuse(context, 'must be a whole address that begins with http:// or https://')
    } else if (url.username || url.password) {
      refuse(context, 'must not hold a user name or password; use "auth" or "headers"')
    } else if (url.hash) refuse(context, 'must not have a part after "#"')
  })
  return reaches('urls', schema)
})

const proxyUrl = httpUrl().superRefine((text, context) => {
  const { pathname, search } = URL.canParse(text) ? new URL(text) : { pathname: '/', search: '' }
  if (pathname !== '/' || search !== '') refuse(context, 'must be a scheme, a host and a port, as in http://proxy:3128')
})

const auth = z
  .strictObject({
    user: reaches('nothing', z.string().min(1))
      .refine(text => !text.includes(':'), { error: 'must be a name without a colon', params: { constant: true } })
      .describe('The user name.'),
    password: secret()
      .optional()
      .describe('The password itself. Prefer an environment variable, as in ${PROXY_PASSWORD}.'),
    password_file: filePath().optional().describe('File that holds the password, read again when it changes.'),
    credential: reaches('credentials', z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/))
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the password.'),
  })
  .superRefine((auth, context) => {
    const given = (['password', 'password_file', 'credential'] as const).filter(name => auth[name] !== undefined)
    if (given.length !== 1)
      refuse(
        context,
        `needs exactly one of password, password_file and credential; ${given.join(' and ') || 'none'} given`,
      )
  })

const withoutProxy = reaches('nothing', z.string().min(1)).superRefine((text, context) => {
  const host = text.replace(/:\d+$/, '').replace(/^\*?\./, '')
  if (text !== '*' && !isAddressOrRange(text) && !/^[\w.-]+$/.test(host) && !/^\[[\da-f:.]+\]$/i.test(host))
    refuse(
      context,
      'must be a host, a domain such as .example.com, an address, a range such as 10.0.0.0/8, or "*"',
      true,
    )
})

/** How requests reach the receiver through a proxy. */
export const proxy = z.union([
  z.literal('environment'),
  z.strictObject({
    url: proxyUrl.describe('The proxy, as in http://proxy.example.com:3128.'),
    auth: auth.optional().describe('User and password for the proxy (Basic). They are never logged.'),
    no_proxy: z
      .array(withoutProxy)
      .default([])
      .describe('Hosts, domains, addresses and ranges that are reached without the proxy.'),
  }),
])

export type ProxyOptions = z.output<typeof proxy>

export interface Via {
  readonly url: URL
  /** The value of Proxy-Authorization; undefined if the proxy does not need it. */
  readonly authorization: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Selects the proxy, and its password, for a URL. */
export class ProxySettings {
  readonly #options: ProxyOptions
  readonly #env: Environment
  readonly #direct: DirectHosts
  readonly #password: AccessKey | undefined
  #secrets: readonly string[] = []

  constructor(options: ProxyOptions, { log, reach }: ComponentContext, env: Environment = process.env) {
    // The proxy of the environment could open connections that this pipeline must not open.
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
    this.#password = new AccessKey(source, log.child({ option: 'proxy.auth' }), reach)
  }

  /** Texts to redact from messages. */
  get secrets(): readonly string[] {
    return this.#secrets
  }

  /** The URL of the proxy for `target`, without the password of `auth`; undefined if `target` is reached directly. */
  urlFor(target: URL): URL | undefined {
    if (this.#direct.has(target)) return undefined
    return this.#options === 'environment' ? proxyFrom(this.#env, target) : new URL(this.#options.url)
  }

  /** Returns the proxy for `target` with its authorization; undefined if `target` is reached directly. */
  async viaFor(target: URL): Promise<Via | undefined> {
    const url = this.urlFor(target)
    if (!url) return undefined
    const user = this.#options === 'environment' ? decoded(url.username) : this.#options.auth?.user
    if (!user) return { url, authorization: undefined }
    const password = this.#password ? await this.#current() : decoded(url.password)
    const encoded = basicCredentials(user, password)
    this.#secrets = password === '' ? [encoded] : [encoded, password]
    return { url, authorization: `Basic ${encoded}` }
  }

  /** Resolves with true if the password was replaced. */
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

/** The names of the proxy variables for a URL, in order of precedence. */
function variablesFor({ protocol }: URL): string[] {
  const all = ['all_proxy', 'ALL_PROXY']
  if (protocol !== 'https:' && protocol !== 'http:') return all
  const name = `${protocol.slice(0, -1)}_proxy`
  return [name, name.toUpperCase(), ...all]
}

/** The environment variable that names a proxy for the URL; undefined if there is none. */
export function variableFor(target: URL, env: Environment = process.env): string | undefined {
  return directHostsOf(env).has(target) ? undefined : variablesFor(target).find(name => env[name])
}

/** Returns the proxy that the environment names for a URL. The URL must not be one that is reached directly. */
function proxyFrom(env: Environment, target: URL): URL | undefined {
  const name = variablesFor(target).find(name => env[name])
  const text = name && env[name]
  if (!text) return undefined
  const full = text.includes('://') ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  // The value may contain a password.
  const message = `the variable ${name} must be the address of a proxy that begins with http:// or https://`
  throw new DeliveryError(message, { failure: 'hold', reason: 'proxy' })
}

function directHostsOf(env: Environment): DirectHosts {
  return new DirectHosts((env.no_proxy ?? env.NO_PROXY ?? '').split(/[\s,]+/).filter(entry => entry !== ''))
}

const withoutBrackets = (host: string) => host.replace(/^\[|\]$/g, '')

/** A list of hosts as in NO_PROXY. */
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

  has(url: URL): boolean {
    const place = urlPlace(url)
    const host = place.host.toLowerCase()
    const usedPort = String(place.port)
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
