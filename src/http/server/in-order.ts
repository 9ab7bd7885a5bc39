import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onReplyOver } from './reply.js'

/** Pipelined requests of one connection that wait for the ones before them. */
const MOST_WAITING = 64

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface InOrderOptions {
  /** Requests of one connection that are handled at the same time. */
  readonly atOnce: number
  /** A connection has too many requests; it is closed next. */
  readonly tooMany: (socket: Socket) => void
}

interface Pipeline {
  handled: number
  readonly waiting: (() => void)[]
}

/**
 * Hands requests to `handle`, a few of one connection at a time; the next one follows when a reply is out, in a turn of the
 * event loop of its own. Node.js hands over all requests that it finds in what it has read at once, which are thousands,
 * and keeps their replies until they are read.
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
