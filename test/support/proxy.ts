import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'

export interface Proxy {
  readonly port: number
  /** The port of new connections. */
  to: number
  /** Of each answer. */
  delayMs: number
  /** Whether answers are lost. */
  swallows: boolean
  /** `closed`: connections end at once. `silent`: no byte passes. */
  network: 'open' | 'closed' | 'silent'
  /** Ends all connections. */
  cut(): void
}

/** Listens at `host`, passes bytes to a server at HOST, and its answers back. */
export async function startProxy(t: Test, to: number, host = HOST): Promise<Proxy> {
  const sockets = new Set<Socket>()
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const proxy: Proxy = { port: await ownPort(), to, delayMs: 0, swallows: false, network: 'open', cut }
  const server = createServer(client => {
    if (proxy.network === 'closed') return client.destroy()
    const behind = connect(proxy.to, HOST)
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          other.destroy()
        })
    }
    client.on('data', data => proxy.network !== 'silent' && behind.write(data))
    behind.on('data', data => {
      if (proxy.swallows || proxy.network === 'silent') return
      if (proxy.delayMs === 0) client.write(data)
      else setTimeout(() => client.destroyed || client.write(data), proxy.delayMs)
    })
  })
  server.listen(proxy.port, host)
  await once(server, 'listening')
  t.teardown(() => {
    cut()
    server.close()
  })
  return proxy
}
