import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { PageState } from '../../core/status-document.js'
import type { PageSources, ServedPage } from '../../daemon/run/page-wing.js'
import type { StatusPageOptions } from '../../engine/config/status-page-options.js'
import { sameOptions } from '../../engine/run/same-components.js'
import { listenOn } from '../../lib/network/inherited-sockets.js'
import { boundedServer, closeServer, urlOf } from '../../net/http/server/bounded-server.js'
import { Refusal } from '../../net/http/server/refusal.js'
import { addressOf, checkMethod, reply, routeAt } from '../../net/http/server/router.js'
import { isLocal } from '../../net/listen-options.js'
import { Access, foreign, localNames } from './access.js'
import { PageData } from './data.js'
import { loginHtml, statusHtml } from './first-paint.js'
import { ROUTES, type ServedRoute } from './routes.js'
import { beginSession } from './session.js'
import { StaticFiles } from './static-files.js'
import type { Turn } from './watch/budget.js'

/**
 * Sent with every response. With these headers, the browser loads only the page's own files, and other pages cannot
 * embed the page.
 */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}
const SESSION = '/api/v1/session'
/** The host name that the documentation uses in requests over the socket. */
const SOCKET_HOST = 'sluice'

/** Limits the data that requests may see. */
interface Door {
  readonly access: Access | undefined
  /** The host names under which the page is served; undefined: any. */
  readonly hosts: ReadonlySet<string> | undefined
  /**
   * The data that requests see without a token. `all`: everything. `numbers`: everything except texts of events.
   * `nothing`: only the form for the token.
   */
  readonly open: 'all' | 'numbers' | 'nothing'
}

/** Serves the page of the daemon: over HTTP at the page's address, and to the owner over the socket. */
export class StatusPage implements ServedPage {
  readonly #data: PageData
  readonly #log: Logger
  readonly #events: PageSources['reports']['connections']
  readonly #files = new StaticFiles()
  readonly #owner: Door = { access: undefined, hosts: localNames(SOCKET_HOST), open: 'all' }
  #options: StatusPageOptions | undefined
  #server: Server | undefined
  #door: Door | undefined

  constructor(from: PageSources, { memory }: StatusPageOptions, log: Logger) {
    this.#data = new PageData(from, memory)
    this.#events = from.reports.connections
    this.#log = log
  }

  get url(): string | undefined {
    return this.#server && urlOf('http', this.#server, this.#options!.listen, '/')
  }

  get state(): PageState {
    return { ...this.#data.state, token: this.#door?.access?.hasToken ?? false }
  }

  /**
   * Reads the token. If the address is new, also listens at the new address. `use` then closes the old server, and
   * `drop` closes the new server. If reading or listening fails, rejects with a message for people.
   */
  async prepare(options: StatusPageOptions): Promise<{ use(): void; drop(): void }> {
    if (sameOptions(options, this.#options)) return { use() {}, drop() {} }
    const { listen } = options
    const access = new Access(options, this.#log)
    await access.check()
    const isOpen = isLocal(listen)
    const hosts = isOpen && 'host' in listen ? localNames(listen.host) : undefined
    const next: Door = { access, hosts, open: isOpen ? 'numbers' : 'nothing' }
    const isMoved = !sameOptions(listen, this.#options?.listen)
    const server = isMoved ? await this.#listen(options, next) : undefined
    return {
      use: () => {
        this.#options = options
        this.#door = next
        this.#data.limit(options.memory)
        if (!server) return
        closeServer(this.#server)
        this.#server = server
        this.#log.info({ url: this.url }, 'the page is served')
      },
      drop: () => closeServer(server),
    }
  }

  /** `first`: the limits that apply until `use` is called. */
  async #listen({ listen }: StatusPageOptions, first: Door): Promise<Server> {
    const server = boundedServer(
      async (request, response) => {
        const door = this.#server === server ? this.#door! : first
        if (await this.#answer(request, response, door)) return
        await reply(response, () => {
          throw new Refusal(404, 'not_found', 'there is nothing at this address; the page is at /')
        })
      },
      this.#events,
      this.#log,
    )
    await listenOn(server, listen)
    server.on('error', () => {})
    return server
  }

  answerOwner(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    return this.#answer(request, response, this.#owner)
  }

  close(): void {
    closeServer(this.#server)
    this.#data.close()
  }

  /** Resolves with false if the page does not have the path. Refuses foreign requests for any path. */
  async #answer(request: IncomingMessage, response: ServerResponse, door: Door): Promise<boolean> {
    const { path, query } = addressOf(request)
    const refusal = foreign(request, path, door.hosts)
    const found = routeAt(ROUTES, path)
    const name = path.slice(1)
    if (!refusal && !found && path !== '/' && path !== SESSION && !this.#files.link(name)) return false
    for (const [header, value] of Object.entries(HEADERS)) response.setHeader(header, value)
    await reply(response, async () => {
      if (refusal) throw refusal
      if (path === SESSION && door.access) {
        checkMethod(request, ['POST'])
        return beginSession(request, response, door.access)
      }
      checkMethod(request, found?.route.isStream && ['GET'])
      if (this.#files.answer(name, request, response)) return undefined
      const hasTexts = door.open === 'all' || ((await door.access?.isKnown(request)) ?? false)
      if (!found) return this.#first(response, door, query, hasTexts)
      const { route, id } = found
      if (!hasTexts) check(route, door, query)
      const call = { page: this.#data, query, id, request, response, hasTexts }
      const work = async (turn: Turn) => encoded(await route.answer({ ...call, turn }))
      const { budget } = this.#data
      // Questions about events end with their client.
      if (!route.isStream && !route.showsEvents) return budget.shared(request.url!, hasTexts, work)
      return budget.answer(hasTexts, work, () => response.destroyed)
    })
    return true
  }

  /** Answers with the page, or with the form for the token. */
  async #first(response: ServerResponse, { open }: Door, query: URLSearchParams, hasTexts: boolean): Promise<void> {
    const links = { script: this.#files.link('page.js'), style: this.#files.link('page.css') }
    const isKnown = open !== 'nothing' || hasTexts
    const html = isKnown
      ? await this.#data.budget.shared('/', hasTexts, async () => statusHtml(await this.#data.status(hasTexts), links))
      : loginHtml(links, query.has('wrong') ? 'That token is wrong.' : '')
    const about = { 'content-type': 'text/html; charset=utf-8', 'content-length': Buffer.byteLength(html) }
    response.writeHead(isKnown ? 200 : 401, about).end(response.req.method === 'HEAD' ? undefined : html)
  }
}

const encoded = (body: unknown) => (body === undefined ? undefined : Buffer.from(`${JSON.stringify(body)}\n`))

/** Throws a Refusal if a request without the token may not see the response of the route. */
function check({ showsEvents: shows }: ServedRoute, { access, open }: Door, query: URLSearchParams): void {
  const showsEvents = typeof shows === 'function' ? shows(query) : shows
  if (open === 'numbers' && !showsEvents) return
  const how = access?.hasToken
    ? 'send the token as "Authorization: Bearer TOKEN", or open the page at its address with #token=TOKEN'
    : 'set status_page.token_file, or use the socket in data_dir'
  const what = showsEvents ? 'texts of events need a token' : 'the page needs a token'
  throw new Refusal(401, 'token_needed', `${what}: ${how}`, { 'www-authenticate': 'Bearer' })
}
