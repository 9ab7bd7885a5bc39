import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/**
 * A loopback address of this process alone (all of 127/8 is local on Linux): what is free there stays free, whatever
 * other tests, programs and outgoing connections do at 127.0.0.1.
 */
export const HOST = process.platform === 'linux' ? addressOf(process.pid) : '127.0.0.1'

function addressOf(pid: number): string {
  return `127.${64 + ((pid >> 16) & 63)}.${(pid >> 8) & 255}.${pid & 255}`
}

const given = new Set<number>()

/**
 * A port of HOST that nobody listens at, another one at each call. For what has to know its port before it listens,
 * or listens at the same one again; otherwise listen at port 0.
 */
export async function ownPort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, HOST)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    if (given.has(port)) continue
    given.add(port)
    return port
  }
}
