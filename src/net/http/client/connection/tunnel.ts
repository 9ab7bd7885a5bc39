import type { Socket } from 'node:net'
import { request as httpRequest } from '../../../../lib/network/node-http.js'
import { after } from '../../../../lib/time.js'
import type { Connector } from './connector.js'
import type { Via } from './proxy.js'

/** The proxy failed or refused to make a connection. */
export class ProxyError extends Error {
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause?: unknown) {
    super(message, { cause })
    this.status = status
  }
}

/** Connects to the proxy itself. Throws ProxyError. */
export async function connectProxy({ url }: Via, connector: Connector): Promise<Socket> {
  try {
    return await connector.connect(url)
  } catch (error) {
    throw new ProxyError('no connection to the proxy', undefined, error)
  }
}

/** Turns a connection to a proxy into one to `target` (HOST:PORT) with CONNECT. Throws ProxyError. */
export function openTunnel(socket: Socket, { authorization }: Via, target: string, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const headers = { host: target, ...(authorization && { 'proxy-authorization': authorization }) }
    const request = httpRequest({ method: 'CONNECT', path: target, headers, createConnection: () => socket })
    const fail = (error: ProxyError) => {
      cancel()
      socket.destroy()
      reject(error)
    }
    const cancel = after(timeoutMs, () => fail(new ProxyError('the proxy gave no answer in time', undefined)))
    request.on('error', cause => fail(new ProxyError('the proxy closed the connection', undefined, cause)))
    request.on('connect', ({ statusCode = 0, statusMessage = '' }, _socket, head: Buffer) => {
      if (statusCode < 200 || statusCode > 299) return fail(new ProxyError(statusMessage, statusCode))
      cancel()
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
    request.end()
  })
}
