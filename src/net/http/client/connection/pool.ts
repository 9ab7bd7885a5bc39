import type { ClientRequestArgs } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setIdleTimeout } from '../../../../lib/network/idle-timeout.js'
import { Agent } from '../../../../lib/network/node-http.js'

/** Idle connections are closed after this time, or earlier if the receiver asks for it. */
const IDLE_MS = 15_000
/** So much earlier than the receiver says, so that it does not close a connection while a request is on its way. */
const EARLIER_MS = 2000
const SECONDS = /\btimeout=(\d+)/

/** Options of a request, with where its connection leads: a URL that is only an origin. */
export interface PooledRequest extends ClientRequestArgs {
  readonly target: URL
}

/** Keeps as many connections as there are concurrent requests. */
export class Pool extends Agent {
  readonly #connect: (target: URL) => Promise<Socket>
  /** How long a connection is kept idle, if its receiver said so. */
  readonly #idleMs = new WeakMap<Duplex, number>()
  #isRetired = false

  constructor(connect: (target: URL) => Promise<Socket>) {
    super({ keepAlive: true })
    this.#connect = connect
  }

  /** Notes what a response says about its connection. */
  answered(socket: Socket, keepAlive: string | string[] | undefined): void {
    const seconds = typeof keepAlive === 'string' ? SECONDS.exec(keepAlive)?.[1] : undefined
    if (seconds !== undefined) this.#idleMs.set(socket, Math.min(IDLE_MS, Number(seconds) * 1000 - EARLIER_MS))
  }

  /** Keeps no connection any more; those with a request close after it. */
  retire(): void {
    this.#isRetired = true
    for (const sockets of Object.values(this.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  override getName(options?: ClientRequestArgs): string {
    return (options as PooledRequest).target.href
  }

  override createConnection(
    options: ClientRequestArgs,
    done: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    this.#connect((options as PooledRequest).target).then(
      socket => done(null, socket),
      (error: Error) => (done as (error: Error) => void)(error),
    )
  }

  /** Whether an idle connection is kept. */
  override keepSocketAlive(socket: Duplex): boolean {
    const idleMs = this.#idleMs.get(socket) ?? IDLE_MS
    if (this.#isRetired || idleMs <= 0) return false
    const idle = socket as Socket
    idle.unref()
    setIdleTimeout(idle, idleMs)
    return true
  }
}
