import type { Socket } from 'node:net'
import type { buildConnector as Connecting } from 'undici'
import { request as httpRequest } from '../../../lib/network/node-http.js'
import { after } from '../../../lib/time.js'
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
export function connectProxy({ url }: Via, connect: Connecting.connector): Promise<Socket> {
  const { host, protocol, port } = url
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve, reject) => {
    connect({ host, hostname, protocol, port }, (error, made) => {
      if (made) resolve(made)
      else reject(new ProxyError('no connection to the proxy', undefined, error))
    })
  })
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
