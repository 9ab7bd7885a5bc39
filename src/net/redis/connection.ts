import { deadline } from '../../lib/time.js'
import type { socketTo, tlsTo } from '../dial.js'
import type { UrlPlace } from '../urls.js'
import { ReplyScanner } from './reply-scanner.js'

export type RedisPlace = Pick<UrlPlace, 'host' | 'port'>

export type SocketTo = ReturnType<typeof socketTo> & {
  readonly mostReplyBytes: number
  readonly connectTimeout: number
  readonly reconnectStrategy: false
} & ({ readonly tls?: never } | (ReturnType<typeof tlsTo> & { readonly tls: true }))

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
  readonly socketTo: (place: RedisPlace) => SocketTo
}

/** Longest time of an attempt to connect, in milliseconds. */
export const CONNECT_MS = 5000

/** A connection to one server, or to the nodes of a cluster. After a failure, the caller must make a new connection. */
export interface RedisConnection {
  /** Whether the server requires that all keys of a command are in one hash slot. */
  readonly isCluster: boolean
  /** Executes a command. `key`: a key of the command, which selects the node. `asBytes`: strings become buffers. */
  command(key: Buffer, args: readonly (string | Buffer)[], asBytes?: boolean): Promise<unknown>
  /** Closes the connection at once; pending commands reject. */
  destroy(): void
}

/** Converts RESP bulk strings, which begin with "$", to buffers. */
const BYTES = { typeMapping: { 36: Buffer } }

/** Loaded on demand: the library is large, and few configurations need it. */
const library = async () => {
  const { default: module } = await import('@redis/client/dist/lib/client/socket.js')
  if (!isChecked) module.default = checkedSocket(module.default)
  isChecked = true
  return await import('@redis/client')
}

type RedisSocket = typeof import('@redis/client/dist/lib/client/socket.js')['default']

let isChecked = false

/** Sockets that scan replies before the client decodes them. The client has no option for this. */
function checkedSocket(Socket: RedisSocket): RedisSocket {
  return class extends Socket {
    readonly #scanner: ReplyScanner | undefined

    constructor(...args: ConstructorParameters<RedisSocket>) {
      super(...args)
      // A plugin that uses the library itself sets no limit.
      const { mostReplyBytes } = (args[2] ?? {}) as Partial<SocketTo>
      if (mostReplyBytes !== undefined) this.#scanner = new ReplyScanner(mostReplyBytes)
    }

    override emit(name: string, ...args: unknown[]): boolean {
      try {
        if (name === 'data') this.#scanner?.take(args[0] as Buffer)
      } catch (error) {
        this.destroySocket()
        return super.emit('error', error)
      }
      return super.emit(name, ...args)
    }
  }
}

/** Connects to one server. Calls `lost` if the connection ends without `destroy`. `signal` aborts the attempt. */
export async function connectServer(
  place: RedisPlace,
  { client, socketTo }: ServerOptions,
  lost: (error: Error) => void,
  signal: AbortSignal,
): Promise<RedisConnection> {
  const { createClient } = await library()
  const server = createClient({ ...client, socket: socketTo(place) })
  server.on('error', lost)
  const destroy = await connected(server, signal)
  return { isCluster: false, command: (_key, args, asBytes) => server.sendCommand(args, asBytes ? BYTES : {}), destroy }
}

/** Connects to a cluster through any of the places. */
export async function connectCluster(
  places: readonly RedisPlace[],
  { client, socketTo }: ServerOptions,
  lost: (error: Error) => void,
  signal: AbortSignal,
): Promise<RedisConnection> {
  const { createCluster } = await library()
  const { host: _host, port: _port, ...socket } = socketTo(places[0]!)
  const cluster = createCluster({
    RESP: client.RESP,
    rootNodes: places.map(place => ({ ...client, socket: socketTo(place) })),
    defaults: { ...client, socket },
  })
  cluster.on('error', lost)
  cluster.on('node-error', lost)
  const destroy = await connected(cluster, signal)
  return {
    isCluster: true,
    command: (key, args, asBytes) => cluster.sendCommand(key, false, [...args], asBytes ? BYTES : {}),
    destroy,
  }
}

interface Client {
  readonly isOpen: boolean
  connect(): Promise<unknown>
  destroy(): void
}

/** Connects a client, unless the signal aborts. Resolves with a function that closes it. */
async function connected(client: Client, signal: AbortSignal): Promise<() => void> {
  const destroy = () => {
    if (client.isOpen) client.destroy()
  }
  signal.addEventListener('abort', destroy)
  try {
    await client.connect()
    return destroy
  } catch (error) {
    destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', destroy)
  }
}

/**
 * Asks the Sentinels one after the other for the address of the primary named `name`, each for at most `within`
 * milliseconds. Returns the first address.
 */
export async function askSentinels(
  places: readonly RedisPlace[],
  name: string,
  options: ServerOptions,
  within: number,
  signal: AbortSignal,
): Promise<RedisPlace> {
  let cause: unknown
  for (const place of places) {
    signal.throwIfAborted()
    const limit = deadline(within, signal)
    try {
      const sentinel = await connectServer(place, options, () => {}, limit.signal)
      limit.signal.addEventListener('abort', sentinel.destroy)
      try {
        const found = await sentinel.command(Buffer.alloc(0), ['SENTINEL', 'get-master-addr-by-name', name])
        if (Array.isArray(found) && found.length === 2) return { host: String(found[0]), port: Number(found[1]) }
        cause = new Error(`the Sentinel knows no primary named ${name}`)
      } finally {
        limit.signal.removeEventListener('abort', sentinel.destroy)
        sentinel.destroy()
      }
    } catch (error) {
      cause = error
    } finally {
      limit.clear()
    }
  }
  throw cause
}
