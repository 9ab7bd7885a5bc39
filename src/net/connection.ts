import type { Socket } from 'node:net'
import type { DestinationContext } from '../core/component.js'
import { DeliveryError } from '../core/errors.js'
import { nextTurn, orAborted } from '../lib/time.js'
import { coded } from './dial.js'
import type { DialOptions } from './dial-options.js'
import { closeAll, Dialer } from './dialer.js'

/**
 * The connection of a destination whose protocol has no requests, such as syslog. The connection is made on first use,
 * and again after it has ended or certificates were replaced. The caller decides what to send and what counts as
 * acknowledged.
 */
export class Connection {
  readonly #url: string
  readonly #dialer: Dialer
  readonly #made: (socket: Socket) => unknown
  /** All sockets that are not closed yet. `#socket` is the one that new work uses. */
  readonly #sockets = new Set<Socket>()
  #socket: Socket | undefined
  #dialing: Promise<Socket> | undefined

  /** `made` receives each new connection and may read from it. By default, bytes from the receiver are ignored. */
  constructor(
    url: string,
    options: DialOptions,
    context: DestinationContext,
    made: (socket: Socket) => unknown = socket => socket.resume(),
  ) {
    this.#url = url
    this.#made = made
    this.#dialer = new Dialer(options, context)
  }

  /** Reads the certificates and connects. Throws a DeliveryError. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#dialer.open(new URL(this.#url), () => this.#retire())
    await this.use(signal, async () => {})
  }

  /**
   * Connects if necessary, then calls `work` with the socket. Closes the connection if `signal` aborts or `work` fails,
   * but not after a DeliveryError, which concerns only the events. If the connection ends, rejects without waiting for
   * `work`.
   */
  async use<T>(signal: AbortSignal, work: (socket: Socket) => Promise<T>): Promise<T> {
    await this.#dialer.renew(true)
    // Lets Node.js report if an idle connection has ended. If so, a new connection is made.
    await nextTurn()
    signal.throwIfAborted()
    let socket = this.#socket
    try {
      if (!socket) {
        const dialing = this.#dial()
        await orAborted(dialing, signal)
        signal.throwIfAborted()
        socket = await dialing
      }
      return await whileOpen(socket, signal, work(socket))
    } catch (error) {
      if (error instanceof DeliveryError) throw error
      socket?.destroy()
      signal.throwIfAborted()
      throw this.#dialer.explain(error, this.#url, this.#url)
    }
  }

  /** Like `changed` of a destination. */
  changed(): Promise<boolean> {
    return this.#dialer.changed()
  }

  /** Flushes pending writes until the deadline, then closes the connection. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#retire()
    const closed = Promise.all([...this.#sockets].map(socket => new Promise(resolve => socket.once('close', resolve))))
    await Promise.all([orAborted(closed, deadline), this.#dialer.close()])
    await closeAll(this.#sockets)
  }

  #dial(): Promise<Socket> {
    this.#dialing ??= this.#connect().finally(() => {
      this.#dialing = undefined
    })
    return this.#dialing
  }

  async #connect(): Promise<Socket> {
    const socket = await this.#dialer.dial(new URL(this.#url))
    this.#sockets.add(socket)
    this.#socket = socket
    const ended = () => {
      if (this.#socket === socket) this.#socket = undefined
    }
    socket.on('error', ended).on('close', () => {
      ended()
      this.#sockets.delete(socket)
    })
    socket.on('end', () => socket.destroy(coded('ECONNRESET', 'the receiver closed the connection')))
    this.#made(socket)
    return socket
  }

  /** Stops new work on the connection. Pending work may finish. */
  #retire(): void {
    this.#socket?.end()
    this.#socket = undefined
  }
}

/** Writes all parts together. Resolves when the operating system has taken them. */
export function writeAll(socket: Socket, parts: readonly Uint8Array[]): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.cork()
    for (const part of parts) socket.write(part)
    socket.write('', error => (error ? reject(error) : resolve()))
    socket.uncork()
  })
}

/** Settles like `work`, but rejects when the connection closes or the signal aborts. */
function whileOpen<T>(socket: Socket, signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const closed = () => reject(coded('ECONNRESET', 'the connection was closed'))
    const abort = () => reject(signal.reason)
    socket.on('error', reject).on('close', closed)
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => {
      socket.off('error', reject).off('close', closed)
      signal.removeEventListener('abort', abort)
    })
    if (socket.destroyed) closed()
  })
}
