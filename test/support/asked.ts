import { type IncomingHttpHeaders, type RequestOptions, request } from 'node:http'
import { shortPath } from '../../src/lib/network/short-path.js'

export interface Answered {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends a request with any headers, also those that `fetch` does not send, on a connection of its own. */
export function asked(
  options: Pick<RequestOptions, 'host' | 'port' | 'socketPath' | 'path' | 'method' | 'headers'>,
  body = '',
): Promise<Answered> {
  // The system limits the paths of sockets.
  const socket = options.socketPath ? shortPath(options.socketPath) : undefined
  return new Promise<Answered>((resolve, reject) => {
    const call = request({ ...options, ...(socket && { socketPath: socket.short }), agent: false }, answer => {
      let text = ''
      answer.setEncoding('utf8').on('data', part => (text += part))
      answer.on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, text }))
      answer.on('error', reject)
    })
    call.on('error', reject)
    call.end(body)
  }).finally(() => socket?.release())
}
