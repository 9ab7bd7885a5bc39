import { isIP, type LookupFunction } from 'node:net'
import type { Logger } from 'pino'
import type { Reach } from '../../core/options/reach.js'
import type { Clock } from '../../lib/time.js'
import { permittedLookup } from '../dial.js'
import { AccessKey } from '../key.js'
import { readTls, tlsProblemText } from '../tls-check.js'
import { construct } from './bounded-replies.js'
import { askSentinels, connectCluster, connectServer, type RedisConnection } from './connection.js'
import type { RedisOptions } from './options.js'

export interface RedisContext {
  readonly log: Logger
  readonly clock: Clock
  readonly reach?: Reach | undefined
}

/** The settings are wrong: connecting again helps only after somebody has changed something. */
export class RedisRefusal extends Error {}

/** Host and port of a server. */
export interface Place {
  readonly host: string
  readonly port: number
}

/** The options of a socket. */
type SocketTo = Place & {
  readonly connectTimeout: number
  readonly reconnectStrategy: false
  /** Of the stream, without TLS. */
  readonly construct: typeof construct
  readonly lookup?: LookupFunction
} & ({ readonly tls?: never } | (TlsSettings & { readonly tls: true }))

interface TlsSettings {
  readonly rejectUnauthorized: true
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
  readonly servername?: string
}

const CONNECT_MS = 5000
const DEFAULT_PORT = 6379

/** Makes connections, each with the password and the certificates as they are then. */
export class RedisConnector {
  readonly #options: RedisOptions
  readonly #context: RedisContext
  readonly #password: AccessKey | undefined

  constructor(options: RedisOptions, context: RedisContext) {
    this.#options = options
    this.#context = context
    const { password, password_file, credential } = options
    if (password === undefined && password_file === undefined && credential === undefined) return
    const key = { key: password, key_file: password_file, credential }
    const log = context.log.child({ option: 'redis' })
    this.#password = new AccessKey({ type: 'token', scheme: '', header: 'redis', ...key }, log, context.reach)
  }

  /** Connects and authenticates. `lost` is called when the connection ends by itself; `signal` gives up. */
  async connect(lost: (error: Error) => void, signal: AbortSignal): Promise<RedisConnection> {
    const { url, nodes, sentinel, cluster } = this.#options
    if (this.#context.reach && (sentinel || cluster))
      throw new RedisRefusal(
        'a published pipeline cannot use sentinel or cluster: their servers name further addresses',
      )
    const options = await this.#serverOptions()
    const places = [url, ...nodes].map(placeOf)
    if (cluster) return connectCluster(places, options, lost, signal)
    const place = sentinel ? await askSentinels(places, sentinel.name, withoutDatabase(options), signal) : places[0]!
    return connectServer(place, options, lost, signal)
  }

  async #serverOptions(): Promise<ServerOptions> {
    const { url, username } = this.#options
    await this.#password?.changed()
    const password = await this.#password?.current()
    const database = Number(new URL(url).pathname.slice(1))
    const tls = url.startsWith('rediss:') ? await this.#tls() : undefined
    const client: ServerOptions['client'] = {
      RESP: 2,
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: 'disabled',
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(database > 0 && { database }),
    }
    return { client, socketTo: (place: Place) => this.#socketTo(place, tls) }
  }

  #socketTo({ host, port }: Place, tls: TlsSettings | undefined): SocketTo {
    const { reach } = this.#context
    const denied = isIP(host) ? reach?.deniedAddress(host, port) : undefined
    if (denied) throw new RedisRefusal(`this pipeline must not connect to ${host}, which is ${denied}`)
    const tcp = {
      host,
      port,
      connectTimeout: CONNECT_MS,
      reconnectStrategy: false as const,
      construct,
      ...(reach && { lookup: permittedLookup(reach, port) }),
    }
    if (!tls) return tcp
    const servername = tls.servername ?? (isIP(host) ? undefined : host)
    return { ...tcp, ...tls, tls: true as const, ...(servername !== undefined && { servername }) }
  }

  async #tls(): Promise<TlsSettings> {
    const { ca_file, cert_file, key_file, server_name } = this.#options
    const { clock, reach } = this.#context
    const { content, problems } = await readTls({ ca_file, cert_file, key_file }, clock.wall(), reach)
    if (!content)
      throw new RedisRefusal(
        problems
          .filter(({ kind }) => kind !== 'warning')
          .map(tlsProblemText)
          .join('; '),
      )
    const { ca, cert, key } = content
    return {
      rejectUnauthorized: true,
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
      ...(server_name !== undefined && { servername: server_name }),
    }
  }
}

/** What all connections of a connector have in common. */
export interface ServerOptions {
  readonly client: {
    readonly RESP: 2
    readonly disableOfflineQueue: boolean
    readonly disableClientInfo: boolean
    readonly maintNotifications: 'disabled'
    readonly username?: string
    readonly password?: string
    readonly database?: number
  }
  readonly socketTo: (place: Place) => SocketTo
}

/** Sentinels have no databases. */
function withoutDatabase({ client, socketTo }: ServerOptions): ServerOptions {
  const { database: _database, ...rest } = client
  return { client: rest, socketTo }
}

function placeOf(text: string): Place {
  const { hostname, port } = new URL(text)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || DEFAULT_PORT) }
}
