import { type LookupAddress, lookup } from 'node:dns'
import { createRequire } from 'node:module'
import { isIP, type LookupFunction, Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { buildConnector as Connecting, Agent as UndiciAgent } from 'undici'
import { DeliveryError, errorText } from '../../core/errors.js'
import { OutOfReach, type Reach, readWithin } from '../../core/reach.js'
import { DeniedAddress } from './answer.js'
import { skipInterimAnswers } from './interim-answers.js'
import type { HttpOptions } from './options.js'

// Not by import: this file is loaded while the daemon runs, and where node_modules is a link, Node.js gives an empty
// module to an import that comes after a look at a socket or a pipe (its realpath goes by the last stat of anybody).
const { Agent, buildConnector } = createRequire(import.meta.url)('undici') as typeof import('undici')

/** An idle connection is closed after this long, or sooner where the receiver says so. */
const KEEP_ALIVE_MS = 15_000
/** How long the rest of an answer may stall. The attempt as a whole has the time limit of the delivery. */
const STALLED_BODY_MS = 10_000

export interface Connections {
  readonly agent: UndiciAgent
  /** What certificates and keys they were made with. */
  readonly secrets: readonly (Buffer | undefined)[]
  /** Whether nothing waits to be sent: no request's body is needed any more but those of requests to come. */
  flushed(): boolean
  /** Closes every connection, those that are not made yet too. */
  close(): Promise<void>
}

/** As many connections as there are requests at a time, kept alive; those of `before` where its files are still the same. Certificates are verified, whatever the environment says. */
export async function openConnections(
  { tls, connect_timeout: timeout }: HttpOptions,
  before?: Connections,
  reach?: Reach,
): Promise<Connections> {
  const read = async (name: 'ca_file' | 'cert_file' | 'key_file') => {
    const path = tls[name]
    if (path === undefined) return undefined
    return await readWithin(reach, path).catch(cause => {
      const message = `cannot read tls.${name}: ${errorText(cause)}`
      const reason = cause instanceof OutOfReach ? 'file_denied' : 'tls_file'
      throw new DeliveryError(message, { failure: 'hold', reason, cause })
    })
  }
  const secrets = [await read('ca_file'), await read('cert_file'), await read('key_file')] as const
  if (before && isDeepStrictEqual(before.secrets, secrets)) return before
  await before?.close()
  const [ca, cert, key] = secrets
  const connectorWith = (permitted?: LookupFunction) =>
    buildConnector({
      timeout,
      rejectUnauthorized: true,
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
      ...(tls.server_name && { servername: tls.server_name }),
      ...(permitted && { lookup: permitted }),
    })
  const connector = reach ? connectorWithin(reach, connectorWith) : connectorWith()
  // Agent.destroy waits for a connection that is being made, up to its time limit, unless its socket is destroyed.
  const connecting = new Set<Socket>()
  const connected = new Set<Socket>()
  const connect: Connecting.connector = (options, callback) => {
    const socket: unknown = connector(options, (...outcome) => {
      if (socket instanceof Socket) connecting.delete(socket)
      const [, made] = outcome
      if (made) {
        skipInterimAnswers(made)
        connected.add(made)
        made.once('close', () => connected.delete(made))
      }
      callback(...outcome)
    })
    if (socket instanceof Socket) connecting.add(socket)
  }
  const agent = new Agent({
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: STALLED_BODY_MS,
    connect,
  })
  return {
    agent,
    secrets,
    flushed() {
      for (const socket of connected) if (socket.writableLength > 0) return false
      return true
    },
    async close() {
      const closed = agent.destroy()
      for (const socket of connecting) socket.destroy(new Error('closing'))
      await closed
    },
  }
}

/**
 * Connects only where `reach` allows it. What a name resolves to is checked in the lookup of the connection itself, so
 * that no other answer of the name server can come between the check and the connection.
 */
function connectorWithin(
  reach: Reach,
  connectorWith: (permitted: LookupFunction) => Connecting.connector,
): Connecting.connector {
  const byPort = new Map<number, Connecting.connector>()
  return (options, callback) => {
    const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80))
    const host = options.hostname.replace(/^\[|\]$/g, '')
    // An address is not looked up.
    const denied = isIP(host) ? reach.deniedAddress(host, port) : undefined
    if (denied !== undefined) return callback(new DeniedAddress(host, host, denied), null)
    let connector = byPort.get(port)
    if (!connector) byPort.set(port, (connector = connectorWith(permittedLookup(reach, port))))
    return connector(options, callback)
  }
}

function permittedLookup(reach: Reach, port: number): LookupFunction {
  return (name, options, callback) => {
    lookup(name, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error) return callback(error, '')
      const refused = found.map(({ address }) => reach.deniedAddress(address, port))
      const permitted = found.filter((_, i) => refused[i] === undefined)
      const first = permitted[0]
      if (!first) return callback(new DeniedAddress(name, found[0]?.address ?? name, refused[0] ?? 'unknown'), '')
      if (options.all) callback(null, permitted)
      else callback(null, first.address, first.family)
    })
  }
}
