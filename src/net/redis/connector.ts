import type { Logger } from 'pino'
import type { Reach } from '../../core/options/reach.js'
import type { Clock } from '../../lib/time.js'
import { deniedPlace, socketTo, tlsTo } from '../dial.js'
import { AccessKey } from '../key.js'
import { readTls, type TlsContent, tlsProblemText } from '../tls-check.js'
import { urlPlace } from '../urls.js'
import {
  askSentinels,
  CONNECT_MS,
  connectCluster,
  connectServer,
  type RedisConnection,
  type RedisPlace,
  type ServerOptions,
  type SocketTo,
} from './connection.js'
import type { RedisOptions } from './options.js'

export interface RedisContext {
  readonly log: Logger
  readonly clock: Clock
  readonly reach?: Reach | undefined
  /** Maximum bytes of one reply. The client keeps whole replies in memory. */
  readonly mostReplyBytes?: number
}

/** The slots of a large Redis Cluster are shorter. */
const MOST_REPLY_BYTES = 16 * 1024 * 1024

/** The settings are wrong. Retries fail until an operator changes something. */
export class RedisRefusal extends Error {}

/** Makes connections, each with the current password and certificates. */
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
    this.#password = new AccessKey(key, log, context.reach)
  }

  /** The passwords that were sent, for redacting them from texts. */
  get passwords(): readonly string[] {
    return this.#password?.known ?? []
  }

  /** Connects and authenticates. Calls `lost` if the connection ends without `destroy`. `signal` aborts the attempt. */
  async connect(lost: (error: Error) => void, signal: AbortSignal): Promise<RedisConnection> {
    const { url, nodes, sentinel, cluster } = this.#options
    if (this.#context.reach && (sentinel || cluster))
      throw new RedisRefusal(
        'a published pipeline cannot use sentinel or cluster: their servers return further addresses to connect to',
      )
    const options = await this.#serverOptions()
    const places = [url, ...nodes].map(url => urlPlace(new URL(url)))
    if (cluster) return connectCluster(places, options, lost, signal)
    if (!sentinel) return connectServer(places[0]!, options, lost, signal)
    // A silent Sentinel leaves time for the others, and for the primary.
    const within = Math.floor(CONNECT_MS / (places.length + 1))
    const primary = await askSentinels(places, sentinel.name, forSentinels(options, within), within, signal)
    return connectServer(primary, options, lost, signal)
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
    return { client, socketTo: place => this.#socketTo(place, tls) }
  }

  #socketTo(place: RedisPlace, tls: TlsContent | undefined): SocketTo {
    const { reach, mostReplyBytes = MOST_REPLY_BYTES } = this.#context
    const denied = deniedPlace(place, reach)
    if (denied) throw new RedisRefusal(denied.message)
    const bounds = { mostReplyBytes, connectTimeout: CONNECT_MS, reconnectStrategy: false as const }
    const tcp = { ...socketTo(place, reach), ...bounds }
    return tls ? { ...tcp, ...tlsTo(place, { ...tls, serverName: this.#options.server_name }), tls: true } : tcp
  }

  async #tls(): Promise<TlsContent> {
    const { ca_file, cert_file, key_file } = this.#options
    const { clock, reach } = this.#context
    const { content, problems } = await readTls({ ca_file, cert_file, key_file }, clock.wall(), reach)
    if (content) return content
    const unusable = problems.filter(({ kind }) => kind !== 'warning')
    throw new RedisRefusal(unusable.map(tlsProblemText).join('; '))
  }
}

/** Sentinels have no databases. `connectTimeout`: in milliseconds. */
function forSentinels({ client, socketTo }: ServerOptions, connectTimeout: number): ServerOptions {
  const { database: _database, ...rest } = client
  return { client: rest, socketTo: place => ({ ...socketTo(place), connectTimeout }) }
}
