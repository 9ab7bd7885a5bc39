import { connect, type Socket } from 'node:net'

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const HTTP_2 = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const NONSENSE = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * i) % 251))

/** What peers send that misbehave. They neither read nor end their connection. */
const SENT: readonly (string | Buffer)[] = [
  '',
  NONSENSE,
  GET.slice(0, -2),
  `${GET.slice(0, -2)}content-length: 1000000\r\n\r\nx`,
  GET.repeat(1000),
  HTTP_2,
  Buffer.concat([Buffer.from(HTTP_2), NONSENSE]),
  Buffer.from('16030100ff', 'hex'),
]

/** Opens connections of peers that misbehave, on the loopback interface. */
export function hostilePeers(port: number): Socket[] {
  const stay = SENT.map(bytes => peer(port, bytes).pause())
  const leaves = peer(port, NONSENSE).once('connect', () => leaves.resetAndDestroy())
  const drips = peer(port, '')
  const drip = (n: number) => void (n > 0 && drips.write(GET[n % 4]!, () => setImmediate(drip, n - 1)))
  drip(1000)
  return [...stay, leaves, drips]
}

function peer(port: number, bytes: string | Buffer): Socket {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {}).on('end', () => socket.destroy())
  if (bytes.length > 0) socket.write(bytes)
  return socket
}
