import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** As many ports of 127.0.0.1 that nobody listens at, all different. Another program may take one before it is used. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map(server => once(server, 'listening')))
  const ports = servers.map(server => (server.address() as AddressInfo).port)
  await Promise.all(
    servers.map(server => {
      server.close()
      return once(server, 'close')
    }),
  )
  return ports
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  return port!
}
