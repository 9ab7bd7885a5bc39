import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onReplyOver } from './respond.js'

/** Limit of a connection's pipelined requests that wait for earlier ones. */
const MOST_WAITING = 64

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface InOrderOptions {
  /** Limit of one connection's requests that are handled concurrently. */
  readonly atOnce: number
  /** Called when too many requests of a connection wait, before the connection is closed. */
  readonly tooMany: (socket: Socket) => void
}

interface Pipeline {
  handled: number
  readonly waiting: (() => void)[]
}

/**
 * Passes requests to `handle`, but only a few of each connection at a time. When a reply was sent, the next request
 * follows in a later turn of the event loop. Otherwise, Node.js would emit all requests of one read together, which may
 * be thousands, and keep their replies in memory until the client reads them.
 */
export function inOrder(handle: Handler, { atOnce, tooMany }: InOrderOptions): Handler {
  const pipelines = new WeakMap<Socket, Pipeline>()
  return (request, response) => {
    const { socket } = request
    if (socket.destroyed) return
    const pipeline = pipelines.get(socket) ?? { handled: 0, waiting: [] }
    pipelines.set(socket, pipeline)
    const { waiting } = pipeline
    const begin = () => {
      onReplyOver(response, over)
      handle(request, response)
    }
    const over = () => {
      const next = socket.destroyed ? undefined : waiting.shift()
      if (next) setImmediate(next)
      else pipeline.handled--
    }
    if (pipeline.handled < atOnce) {
      pipeline.handled++
      begin()
    } else if (waiting.length < MOST_WAITING) waiting.push(begin)
    else {
      waiting.length = 0
      tooMany(socket)
      socket.destroy()
    }
  }
}
