import type { Server as HttpServer } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import type { Logger } from 'pino'
import { errorFields } from '../../core/errors.js'
import { after } from '../../lib/time.js'

/** When the server is loaded at the latest. The first events are usually shipped before that. */
const LOAD_MS = 1000

/**
 * A server that listens at once, and is loaded with its first connection or a second later: HTTP takes a twentieth of a
 * start. Connections that arrive before that wait unread.
 */
export class LateServer {
  /** What has to be made to listen. */
  readonly listening: Server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
  readonly #load: () => Promise<HttpServer>
  readonly #log: Logger
  readonly #waiting = new Set<Socket>()
  #loaded: Promise<HttpServer | undefined> | undefined
  #cancel = () => {}
  #isClosed = false

  constructor(load: () => Promise<HttpServer>, log: Logger) {
    this.#load = load
    this.#log = log
    this.listening.on('connection', socket => void this.#take(socket))
    this.listening.once('listening', () => {
      this.#cancel = after(LOAD_MS, () => void this.#server())
    })
  }

  async #take(socket: Socket): Promise<void> {
    const ignore = () => {}
    socket.on('error', ignore)
    this.#waiting.add(socket)
    const server = await this.#server()
    this.#waiting.delete(socket)
    if (!server || this.#isClosed) socket.destroy()
    if (socket.destroyed) return
    server!.emit('connection', socket)
    socket.off('error', ignore)
    socket.resume()
  }

  /** Undefined: it cannot be loaded. */
  #server(): Promise<HttpServer | undefined> {
    this.#cancel()
    this.#loaded ??= this.#load().then(
      server => {
        // An HTTP server starts its timeouts on this event.
        server.emit('listening')
        return server
      },
      error => {
        this.#log.error(errorFields(error), 'cannot load the server of metrics and status; connections are closed')
        return undefined
      },
    )
    return this.#loaded
  }

  /** Ends all connections, too. */
  close(): void {
    this.#isClosed = true
    this.#cancel()
    this.listening.close()
    for (const socket of this.#waiting) socket.destroy()
    void this.#loaded?.then(server => {
      server?.close()
      server?.closeAllConnections()
    })
  }
}
