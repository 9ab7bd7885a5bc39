import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import { descriptorLimit } from '../lib/files/descriptor-limit.js'
import { LogLimit } from '../lib/log-limit.js'
import { networkOf, plainAddress } from '../lib/network/network-address.js'
import { every, systemClock } from '../lib/time.js'

/**
 * Limits how many connections a server has, and how long they stay open. Node.js does not close a connection if the
 * client leaves it open after the last response, or if the client does not read. With `maxConnections` open
 * connections, Node.js refuses new connections, even if some of the open connections are idle.
 */

export interface ConnectionBounds {
  readonly max: number
  /** Limit of concurrent connections of all servers in this process. Default: a share of the file descriptor limit. */
  readonly maxInProcess?: number
  /** Limit of concurrent connections per address (IPv6: per /64 network). */
  readonly maxPerAddress?: number | undefined
  /** Whether many clients share an address. `maxPerAddress` does not apply to that address. */
  readonly isShared?: ((address: string) => boolean) | undefined
  readonly handshakeMs?: number | undefined
  /** How long a client may take to read PROGRESS_BYTES of a response, or the last part of a response. */
  readonly sendMs?: number | undefined
  /** How long a client may keep a connection open after the end of the last response. */
  readonly closeMs?: number | undefined
  /**
   * Whether a connection that is idle after a request may be closed to make room for a new connection. If false, only a
   * connection that was never used may be closed to make room.
   */
  readonly closesUsed: boolean
}

/** Why the server closed a connection. `unused`, `idle` and `slow_sender`: to make room for a new connection. */
export type CloseReason = 'unused' | 'idle' | 'slow_sender' | 'handshake' | 'slow_reader' | 'left_open' | 'pipelined'
export type RefuseReason = 'total' | 'address' | 'descriptors'

export interface ConnectionEvents {
  closed(reason: CloseReason, peer: string | undefined): void
  refused(reason: RefuseReason, peer: string | undefined): void
}

/** A client makes progress if it reads this much of a response. */
const PROGRESS_BYTES = 64 * 1024
const LONGEST_SWEEP_MS = 1000
/** To make room, connections that sent no complete request within this time are closed first. */
const FIRST_REQUEST_MS = 1000

/** If a request arrives more slowly than this (bytes per second), its connection may be closed to make room. */
const SLOW_RATE = 4096

/** The share of the process's file descriptors that connections may use. Files and buffers need the rest. */
const DESCRIPTORS_SHARE = 1 / 3

/** Number of connections of all servers in this process. */
let inProcess = 0

/** Connections by state. Sets keep insertion order, so the first connection in a set has been in that state longest. */
class Pool {
  size = 0
  /** Connections without a complete request or message so far, oldest first. */
  readonly unused = new Set<Connection>()
  /** Connections between two requests, longest idle first. */
  readonly idle = new Set<Connection>()
  /** Connections that receive a request or wait for its response. The connection with the oldest request is first. */
  readonly busy = new Set<Connection>()
}

interface Connection {
  readonly socket: Socket
  readonly peer: string | undefined
  readonly network: Pool | undefined
  readonly networkName: string | undefined
  readonly openedAt: number
  /** The stream that is read and written; for TLS, set after the handshake. */
  stream: Socket | undefined
  busy: number
  used: boolean
  last: Exchange | undefined
  /** When the headers of the last request were complete, and how many bytes had been received by then. */
  lastAt: number
  lastFrom: number
  /** When the client last read PROGRESS_BYTES, and how many bytes had been sent by then. Undefined if all was sent. */
  blocked: { at: number; sent: number } | undefined
  endedAt: number | undefined
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export class ConnectionLimits {
  readonly #limits: ConnectionBounds
  readonly #events: ConnectionEvents
  readonly #all = new Pool()
  readonly #networks = new Map<string, Pool>()
  readonly #bySocket = new Map<Socket, Connection>()
  /**
   * Connections in the TLS handshake, by their endpoints. The socket cannot be the key, because the TCP socket and the
   * TLS socket of a connection do not refer to each other.
   */
  readonly #handshaking = new Map<string, Connection>()
  readonly #maxInProcess: number
  #stopSweeping: (() => void) | undefined
  #servers = 0
  #isTls = false
  #isDraining = false

  constructor(limits: ConnectionBounds, events: ConnectionEvents) {
    this.#limits = limits
    this.#events = events
    this.#maxInProcess = limits.maxInProcess ?? Math.max(1, Math.floor(descriptorLimit() * DESCRIPTORS_SHARE))
  }

  get size(): number {
    return this.#all.size
  }

  /**
   * Manages the connections of `server` until it closes. Call it before the server listens. Several servers share the
   * limits if all of them use TLS, or none.
   */
  attach(server: Server, isTls: boolean): void {
    this.#isTls = isTls
    this.#servers++
    server.on('connection', (socket: Socket) => this.#opened(socket))
    if (isTls) server.on('secureConnection', (socket: Socket) => this.#secured(socket))
    const { handshakeMs, sendMs, closeMs } = this.#limits
    const bounds = [handshakeMs, sendMs, closeMs].map(ms => (ms ?? Number.POSITIVE_INFINITY) / 2)
    this.#stopSweeping ??= every(Math.max(10, Math.min(...bounds, LONGEST_SWEEP_MS)), () => this.#sweep())
    server.once('close', () => --this.#servers > 0 || this.#stopSweeping?.())
  }

  /** Call it when the headers of a request are complete. */
  request(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#bySocket.get(request.socket)
    if (!connection) return
    connection.last = { request, response }
    connection.lastAt = systemClock.now()
    connection.lastFrom = request.socket.bytesRead
    response.once('close', this.#begin(connection))
  }

  /** Call it when a call begins on a connection without requests of HTTP/1. The result is called when it is over. */
  called(socket: Socket): () => void {
    const connection = this.#bySocket.get(socket)
    return connection ? this.#begin(connection) : () => {}
  }

  #begin(connection: Connection): () => void {
    connection.busy++
    connection.used = true
    this.#sort(connection)
    return () => {
      connection.busy--
      this.#sort(connection)
      if (this.#isDraining) leave(connection)
    }
  }

  /** Closes a connection on which too many requests wait. */
  pipelined(socket: Socket): void {
    const connection = this.#bySocket.get(socket)
    if (connection) this.#end(connection, 'pipelined')
  }

  /** Call it for a complete message on a connection without requests. */
  received(socket: Socket): void {
    const connection = this.#bySocket.get(socket)
    if (!connection || connection.used) return
    connection.used = true
    this.#sort(connection)
  }

  /** The last request on a connection, answered or not. */
  lastOf(socket: Socket): Exchange | undefined {
    return this.#bySocket.get(socket)?.last
  }

  /**
   * Closes connections without a pending request now, and other connections after the response. Otherwise incomplete
   * requests could stay open, because Node.js stops its own timeouts for them when a server closes.
   */
  drain(): void {
    this.#isDraining = true
    for (const connection of new Set(this.#bySocket.values())) leave(connection)
  }

  close(): void {
    this.#stopSweeping?.()
    for (const { socket } of this.#bySocket.values()) socket.destroy()
  }

  #opened(socket: Socket): void {
    const { remoteAddress } = socket
    const peer = remoteAddress === undefined ? undefined : plainAddress(remoteAddress)
    const networkName = this.#boundedNetwork(peer)
    const network = networkName === undefined ? undefined : (this.#networks.get(networkName) ?? new Pool())
    const isFull = (pool: Pool, max: number) => pool.size >= max && !this.#makeRoom(pool)
    const refusal =
      network && isFull(network, this.#limits.maxPerAddress!)
        ? 'address'
        : isFull(this.#all, this.#limits.max)
          ? 'total'
          : inProcess >= this.#maxInProcess && !this.#makeRoom(this.#all)
            ? 'descriptors'
            : undefined
    if (refusal) {
      this.#refuse(socket, refusal, peer)
      return
    }
    const connection: Connection = {
      socket,
      peer,
      network,
      networkName,
      openedAt: systemClock.now(),
      stream: this.#isTls ? undefined : socket,
      busy: 0,
      used: false,
      last: undefined,
      lastAt: 0,
      lastFrom: 0,
      blocked: undefined,
      endedAt: undefined,
    }
    inProcess++
    for (const pool of this.#poolsOf(connection)) pool.size++
    if (networkName !== undefined) this.#networks.set(networkName, network!)
    this.#bySocket.set(socket, connection)
    this.#sort(connection)
    const endpoints = this.#isTls ? endpointsOf(socket) : undefined
    if (endpoints !== undefined) this.#handshaking.set(endpoints, connection)
    socket.once('close', () => {
      this.#forget(connection)
      if (endpoints !== undefined && this.#handshaking.get(endpoints) === connection)
        this.#handshaking.delete(endpoints)
    })
  }

  #secured(socket: Socket): void {
    const endpoints = endpointsOf(socket)
    const connection = endpoints === undefined ? undefined : this.#handshaking.get(endpoints)
    if (!connection) return
    this.#handshaking.delete(endpoints!)
    connection.stream = socket
    if (this.#bySocket.has(connection.socket)) this.#bySocket.set(socket, connection)
  }

  /** The address or network whose limit applies to a connection from `peer`; undefined if no such limit applies. */
  #boundedNetwork(peer: string | undefined): string | undefined {
    const { maxPerAddress, isShared } = this.#limits
    if (maxPerAddress === undefined || peer === undefined || isShared?.(peer)) return undefined
    return networkOf(peer)
  }

  #refuse(socket: Socket, reason: RefuseReason, peer: string | undefined): void {
    socket.on('error', () => {})
    socket.destroy()
    this.#events.refused(reason, peer)
  }

  /** Closes the connection that is least worth keeping. Returns false if all are in use. */
  #makeRoom({ unused, idle, busy }: Pool): boolean {
    const [oldest] = unused
    const [longestIdle] = this.#limits.closesUsed ? idle : []
    // A new connection may still send its first request, so it is closed only if no connection is idle.
    const isNew = oldest && systemClock.now() - oldest.openedAt < FIRST_REQUEST_MS
    if (oldest && !(isNew && longestIdle)) return this.#end(oldest, 'unused')
    if (longestIdle) return this.#end(longestIdle, 'idle')
    const now = systemClock.now()
    for (const connection of busy) if (sendsSlowly(connection, now)) return this.#end(connection, 'slow_sender')
    return false
  }

  #end(connection: Connection, reason: CloseReason): true {
    this.#forget(connection)
    connection.stream?.destroy()
    connection.socket.destroy()
    this.#events.closed(reason, connection.peer)
    return true
  }

  #forget(connection: Connection): void {
    const { socket, stream, networkName, network } = connection
    if (!this.#bySocket.delete(socket)) return
    inProcess--
    if (stream) this.#bySocket.delete(stream)
    for (const pool of this.#poolsOf(connection)) {
      pool.size--
      pool.unused.delete(connection)
      pool.idle.delete(connection)
      pool.busy.delete(connection)
    }
    if (networkName !== undefined && network!.size === 0) this.#networks.delete(networkName)
  }

  /** Moves a connection to the end of the set that matches its state. */
  #sort(connection: Connection): void {
    if (!this.#bySocket.has(connection.socket)) return
    const { used, busy } = connection
    for (const pool of this.#poolsOf(connection)) {
      pool.unused.delete(connection)
      pool.idle.delete(connection)
      pool.busy.delete(connection)
      const set = busy > 0 ? pool.busy : used ? pool.idle : pool.unused
      set.add(connection)
    }
  }

  #poolsOf({ network }: Connection): Pool[] {
    return network ? [this.#all, network] : [this.#all]
  }

  #sweep(): void {
    const now = systemClock.now()
    for (const connection of new Set(this.#bySocket.values())) {
      const reason = this.#overdue(connection, now)
      if (reason) this.#end(connection, reason)
    }
  }

  #overdue(connection: Connection, now: number): CloseReason | undefined {
    const { handshakeMs, sendMs, closeMs } = this.#limits
    const { socket, stream, openedAt } = connection
    if (!stream) {
      const isLate = handshakeMs !== undefined && now - openedAt > handshakeMs && endpointsOf(socket) !== undefined
      return isLate ? 'handshake' : undefined
    }
    if (stream.writableLength === 0) {
      connection.blocked = undefined
      if (closeMs === undefined || !stream.writableEnded) return undefined
      connection.endedAt ??= now
      return now - connection.endedAt > closeMs ? 'left_open' : undefined
    }
    const sent = stream.bytesWritten - stream.writableLength
    const { blocked } = connection
    if (!blocked || sent - blocked.sent >= PROGRESS_BYTES) connection.blocked = { at: now, sent }
    else if (sendMs !== undefined && now - blocked.at > sendMs) return 'slow_reader'
    return undefined
  }
}

/** Closes a connection if all its requests are answered. */
function leave({ busy, stream, socket }: Connection): void {
  if (busy > 0) return
  if (stream) stream.destroySoon()
  else socket.destroy()
}

/** Whether a request is incomplete because the client sends slowly, and not because the server reads slowly. */
function sendsSlowly({ busy, last, lastAt, lastFrom }: Connection, now: number): boolean {
  // If several requests are pending, the earlier ones are complete, so the server also causes the delay.
  if (!last || busy > 1 || last.request.complete || last.request.readableFlowing !== true) return false
  const ms = now - lastAt
  return ms > FIRST_REQUEST_MS && (last.request.socket.bytesRead - lastFrom) * 1000 < SLOW_RATE * ms
}

/** Identifies a connection by its two addresses; undefined for a Unix socket or a closed socket. */
function endpointsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string | undefined {
  if (remoteAddress === undefined || remotePort === undefined) return undefined
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

const REFUSED: Readonly<Record<RefuseReason, string>> = {
  total: 'refused a connection: max_connections are open, and all of them are in use',
  address: 'refused a connection: its address has max_connections_per_address open, and all of them are in use',
  descriptors:
    'refused a connection: connections take a third of the files that this process may open, and all of them are in use; raise this limit (LimitNOFILE, ulimit -n)',
}
const CLOSED: Readonly<Record<CloseReason, string>> = {
  unused: 'closed a connection without a complete request or message to make room for a new one',
  idle: 'closed an idle connection to make room for a new one',
  slow_sender: 'closed a connection with a very slow request to make room for a new one',
  handshake: 'closed a connection: its TLS handshake timed out',
  slow_reader: 'closed a connection: its client does not read what is sent to it',
  pipelined: 'closed a connection: its client sent too many requests without waiting for responses',
  left_open: 'closed a connection that its client left open after the last response',
}

const REFUSED_HELP =
  'Refused connections by the limit that was reached: total, address, or descriptors (of the process).'
const CLOSED_HELP =
  'Connections that were closed from this side: unused, idle and slow_sender made room for new ones; handshake, slow_reader and left_open took too long; pipelined: too many requests without waiting for answers.'

interface Log {
  warn(fields: object, message: string): void
}
interface Count {
  value: number
}
/** Creates a counter, with or without the labels of a component. */
type MakeCount = (name: string, help: string, labels: { reason: string }) => Count

/** Counts refused and closed connections by reason, and logs them at a limited rate. */
export class ConnectionReport implements ConnectionEvents {
  readonly #log: Log
  readonly #counts = new Map<string, Count>()
  readonly #limit = new LogLimit(systemClock)

  /** The metrics are `PREFIX_refused_connections_total` and `PREFIX_closed_connections_total`. */
  constructor(prefix: string, make: MakeCount, log: Log) {
    this.#log = log
    const add = (texts: object, name: string, help: string) => {
      for (const [reason, text] of Object.entries(texts)) this.#counts.set(text, make(name, help, { reason }))
    }
    add(REFUSED, `${prefix}_refused_connections_total`, REFUSED_HELP)
    add(CLOSED, `${prefix}_closed_connections_total`, CLOSED_HELP)
  }

  refused(reason: RefuseReason, peer: string | undefined): void {
    this.#happened(REFUSED[reason], peer)
  }

  closed(reason: CloseReason, peer: string | undefined): void {
    this.#happened(CLOSED[reason], peer)
  }

  #happened(text: string, peer: string | undefined): void {
    this.#counts.get(text)!.value++
    const connections = this.#limit.count(text)
    if (connections > 0) this.#log.warn({ peer, connections }, text)
  }
}
