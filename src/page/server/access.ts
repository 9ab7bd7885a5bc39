import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { type StatusPageOptions, tokenProblem } from '../../engine/config/status-page-options.js'
import { type Clock, sleep, systemClock } from '../../lib/time.js'
import { Refusal } from '../../net/http/server/refusal.js'
import { AccessKey } from '../../net/key.js'

const LOCAL_HOSTS = ['localhost', '127.0.0.1', '[::1]']
const SESSION_MS = 12 * 3_600_000
/** Above this number, a new session ends the oldest. */
const MOST_SESSIONS = 64
/** DELAY_MS: the delay of the response to a wrong token. MOST_DELAYED: the maximum number of delayed responses. */
const DELAY_MS = 1000
const MOST_DELAYED = 8

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Removes the port from a Host header. */
const hostOf = (header = ''): string => header.toLowerCase().replace(/:\d*$/, '')

/**
 * Other sites can make a browser send requests to the page, directly or by DNS rebinding. Returns the reason to refuse
 * such a request; undefined: accept the request. `hosts`: the host names of the page; undefined: any.
 */
export function foreign(
  { headers, method }: IncomingMessage,
  path: string,
  hosts: ReadonlySet<string> | undefined,
): Refusal | undefined {
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers
  if (hosts && !hosts.has(hostOf(host)))
    return new Refusal(
      403,
      'foreign_host',
      `the page is not served under this name; open it as ${LOCAL_HOSTS[0]}, as ${LOCAL_HOSTS[1]}, or at the address of status_page.listen`,
    )
  // Links from other sites are allowed, because those sites cannot see the content of the page.
  const isLink = path === '/' && method === 'GET' && mode === 'navigate' && dest === 'document'
  const isForeignSite = site !== undefined && site !== 'same-origin' && site !== 'none' && !isLink
  if (isForeignSite || !isOwnOrigin(origin, host, site, path))
    return new Refusal(403, 'foreign_site', 'pages of other sites may not ask for this; open the page itself')
  return undefined
}

function isOwnOrigin(origin: string | undefined, host: string, site: unknown, path: string): boolean {
  if (origin === undefined || site === 'same-origin') return true
  // With `no-referrer`, older browsers send forms with origin `null` and no `site`. The session form needs the token.
  if (origin === 'null') return path === '/api/v1/session' && site === undefined
  return [`http://${host}`, `https://${host}`].includes(origin.toLowerCase())
}

/** The host names of a page that only this machine can reach. `more`: the addresses at which the page listens. */
export const localNames = (...more: readonly string[]): ReadonlySet<string> =>
  new Set([...LOCAL_HOSTS, ...more.map(host => (host.includes(':') ? `[${host}]` : host).toLowerCase())])

/** Keeps the token, and the sessions of browsers that sent the token. Reads the token again when its file changes. */
export class Access {
  readonly #key: AccessKey | undefined
  readonly #log: Logger
  readonly #clock: Clock
  /** By hash of the session id, oldest first. */
  readonly #sessions = new Map<string, { readonly until: number; readonly token: Buffer }>()
  #delayed = 0
  #isUnusable = false

  constructor({ token, token_file, credential }: StatusPageOptions, log: Logger, clock: Clock = systemClock) {
    const isGiven = token ?? token_file ?? credential
    const source = { key: token, key_file: token_file, credential }
    if (isGiven) this.#key = new AccessKey(source, log, undefined, 'token')
    this.#log = log
    this.#clock = clock
  }

  get hasToken(): boolean {
    return this.#key !== undefined
  }

  /** Rejects with a message for people if the token cannot be used. */
  async check(): Promise<void> {
    const problem = this.#key && tokenProblem(await this.#key.current())
    if (problem) throw new Error(problem)
  }

  /** The hash of the token; undefined if no token is usable. */
  async #token(): Promise<Buffer | undefined> {
    const token = await this.#key?.current().catch(() => undefined)
    const problem = token === undefined ? undefined : tokenProblem(token)
    if (problem !== undefined && !this.#isUnusable)
      this.#log.warn({ error: problem }, 'the token of the page is unusable')
    this.#isUnusable = problem !== undefined
    return token === undefined || problem !== undefined ? undefined : hashOf(token)
  }

  /** Whether a request has the token or belongs to a session. Throws a Refusal if the token is wrong. */
  async isKnown({ headers }: IncomingMessage): Promise<boolean> {
    const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
    const ids = bearer === undefined ? cookiesOf(headers.cookie, cookieName(headers.host)) : []
    if (bearer === undefined && ids.length === 0) return false
    const token = await this.#token()
    if (!token) return false
    if (bearer !== undefined) {
      await this.#compare(bearer, token)
      return true
    }
    return ids.some(id => {
      const session = this.#sessions.get(hashOf(id).toString('hex'))
      return session !== undefined && session.until > this.#clock.now() && timingSafeEqual(session.token, token)
    })
  }

  async #compare(given: string, token: Buffer): Promise<void> {
    if (timingSafeEqual(hashOf(given), token)) return
    if (this.#delayed >= MOST_DELAYED)
      throw new Refusal(429, 'too_many', 'too many wrong tokens; try again in a second', { 'retry-after': '1' })
    this.#delayed++
    await sleep(DELAY_MS).finally(() => this.#delayed--)
    throw new Refusal(401, 'wrong_token', 'the token is wrong')
  }

  /** If `given` is the token, begins a session and returns the value of Set-Cookie. Otherwise throws a Refusal. */
  async begin(given: string, { host, origin }: IncomingMessage['headers']): Promise<string> {
    const token = await this.#token()
    if (!token) throw new Refusal(400, 'no_token', 'the page has no token; set status_page.token_file')
    await this.#compare(given, token)
    const id = randomBytes(32).toString('base64url')
    const [oldest] = this.#sessions.keys()
    if (this.#sessions.size >= MOST_SESSIONS) this.#sessions.delete(oldest!)
    this.#sessions.set(hashOf(id).toString('hex'), { until: this.#clock.now() + SESSION_MS, token })
    const secure = origin?.startsWith('https:') ? '; Secure' : ''
    return `${cookieName(host)}=${id}; Max-Age=${SESSION_MS / 1000}; Path=/; HttpOnly; SameSite=Strict${secure}`
  }
}

/** The name contains the port: browsers send cookies to all ports of a host, where several daemons may serve pages. */
const cookieName = (host = ''): string => `sluice_page${/:(\d+)$/.exec(host)?.[1]?.replace(/^/, '_') ?? ''}`

const cookiesOf = (header = '', name: string): string[] =>
  header.split(';').flatMap(one => (one.trim().startsWith(`${name}=`) ? [one.trim().slice(name.length + 1)] : []))
