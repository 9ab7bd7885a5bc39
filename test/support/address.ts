import { once } from 'node:events'
import { Server as HttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import type { Test } from 'tap'

/**
 * A loopback address of this process alone (all of 127/8 is local on Linux): what is free there stays free, whatever
 * other tests, programs and outgoing connections do at 127.0.0.1.
 */
export const HOST = process.platform === 'linux' ? addressOf(process.pid) : '127.0.0.1'

function addressOf(pid: number): string {
  return `127.${64 + ((pid >> 16) & 63)}.${(pid >> 8) & 255}.${pid & 255}`
}

/** Below the ports that the kernel gives, 10,000 above it too, where a node of a Redis Cluster also listens. */
let next = 10_000 + (process.pid % 10_000)

/**
 * A port of HOST that nobody listens at, another one at each call; who listens at port 0 never gets it. For what has to
 * know its port before it listens, or listens at the same one again; otherwise listen at port 0.
 */
export async function ownPort(): Promise<number> {
  for (;;) {
    const port = next++
    const server = createServer().listen(port, HOST)
    try {
      await once(server, 'listening')
    } catch {
      continue
    }
    server.close()
    await once(server, 'close')
    return port
  }
}

/** Listens at a free port of HOST until the end of the test. Returns the port. */
export async function listening(t: Test, server: Server, host = HOST): Promise<number> {
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    if (server instanceof HttpServer) server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}
