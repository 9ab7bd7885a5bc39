import { execFileSync, spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { built, median } from './measure.js'
import { workFolder } from './work.js'

/**
 * Requests a second of authenticated calls at 10,000 keys and 1,000 accounts, beside the same framework answering the
 * same bytes to anybody: in turns, so that a slow moment of the machine hits all of them.
 */

export interface ApiResult {
  readonly id: 'constant' | 'get' | 'head'
  readonly requestsPerSecond: number
  /** Of the rate of the constant by the same method. */
  readonly share: number
}

const CONNECTIONS = 32
const REQUESTS_OF_ONE = 100
const SECONDS = 3
const ROUNDS = 5

interface Server {
  readonly url: URL
  readonly keys: readonly string[]
  stop(): void
}

async function start(...args: string[]): Promise<Server> {
  const child = spawn(process.execPath, [built('./api-server.js'), ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let text = ''
  for await (const part of child.stdout) {
    text += part
    if (text.endsWith('\n')) break
  }
  const { url, keys } = JSON.parse(text) as { url: string; keys: string[] }
  return {
    url: new URL(url),
    keys,
    stop() {
      process.removeListener('exit', kill)
      kill()
    },
  }
}

/**
 * One request after the other on each connection, as of a client with a key of its own; after some of them another
 * client takes its place. Counts the answers, which must be 200.
 */
export async function load(
  { url, keys }: Pick<Server, 'url' | 'keys'>,
  method: 'GET' | 'HEAD',
  ms: number,
  path = '/v3/pipeline',
): Promise<number> {
  let answered = 0
  let clients = 0
  let on = true
  const requests = keys.map(key =>
    Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${key}\r\n\r\n`),
  )
  const sockets: Socket[] = []
  await new Promise<void>((resolve, reject) => {
    const begin = (place: number) => {
      const socket = connect(Number(url.port), url.hostname)
      sockets[place] = socket
      const request = requests[clients++ % requests.length]!
      let sent = 0
      const send = () => {
        if (sent++ < REQUESTS_OF_ONE) return socket.write(request)
        socket.destroy()
        begin(place)
      }
      let left = 0
      socket.on('connect', send).on('error', reject)
      socket.on('data', part => {
        if (left > 0) left -= part.length
        else {
          const end = part.indexOf('\r\n\r\n')
          if (end < 0 || part.toString('latin1', 9, 12) !== '200') return reject(new Error(part.toString('latin1')))
          const [, length = '0'] = /content-length: (\d+)/i.exec(part.toString('latin1', 0, end)) ?? []
          left = method === 'HEAD' ? 0 : Number(length) - (part.length - end - 4)
        }
        if (left > 0) return
        answered++
        send()
      })
    }
    for (let i = 0; i < CONNECTIONS; i++) begin(i)
    // A client that sleeps would have to be woken by each answer, which the slower server would pay for.
    const stayAwake = () => on && setImmediate(stayAwake)
    stayAwake()
    setTimeout(resolve, ms)
  })
  on = false
  for (const socket of sockets)
    socket
      .removeAllListeners()
      .on('error', () => {})
      .destroy()
  return answered / (ms / 1000)
}

export async function measureApi(progress: (text: string) => void): Promise<ApiResult[]> {
  progress('the API: making 10,000 keys')
  const state = join(workFolder(tmpdir(), 'api'), 'state')
  execFileSync(process.execPath, [built('./api-server.js'), 'fill', state], { stdio: 'inherit' })
  const servers = [await start('constant'), await start('service', state)] as const
  try {
    const rates: Record<string, number[]> = {}
    for (let round = 0; round <= ROUNDS; round++) {
      for (const method of ['GET', 'HEAD'] as const) {
        for (const [i, server] of servers.entries()) {
          progress(`the API: round ${round} of ${ROUNDS}`)
          const rate = await load(server, method, SECONDS * (round === 0 ? 500 : 1000))
          if (round > 0) (rates[`${i} ${method}`] ??= []).push(rate)
        }
      }
    }
    const of = (name: string) => median(rates[name]!)
    return [
      { id: 'constant', requestsPerSecond: of('0 GET'), share: 1 },
      { id: 'get', requestsPerSecond: of('1 GET'), share: of('1 GET') / of('0 GET') },
      { id: 'head', requestsPerSecond: of('1 HEAD'), share: of('1 HEAD') / of('0 HEAD') },
    ]
  } finally {
    for (const server of servers) server.stop()
    progress('')
  }
}
