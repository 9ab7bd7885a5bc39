import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { needs } from './needs.js'
import { eventually } from './patience.js'

/** The variable with the server's program, if it is another one than redis-server. */
export const SERVER = 'SLUICE_REDIS_SERVER'

/** A real Redis server at HOST. */
export interface RedisServer {
  readonly port: number
  readonly url: string
  readonly folder: string
  readonly child: ChildProcess
  /** Stops it and waits for its end. */
  kill(): Promise<void>
}

/**
 * Starts a server that keeps nothing on disk, in a folder of the test. Undefined: there is no redis-server. It is killed
 * when the test ends. `flags`: further options of its command line; PORT stands for its port. `file`: its
 * configuration.
 */
export async function startRedis(
  t: Test,
  folder: string,
  flags: readonly string[] = [],
  port?: number,
  file?: string,
): Promise<RedisServer | undefined> {
  const program = process.env[SERVER] ?? needs(t, 'redis-server')
  if (!program) return undefined
  for (let tries = 1; ; tries++) {
    const server = await tryToStart(t, program, folder, flags, port ?? (await ownPort()), file)
    if (typeof server !== 'string') return server
    // A port that another program has taken meanwhile, or the one 10,000 above it, where a node of a cluster listens, too.
    if (port !== undefined || tries === PORTS) throw new Error(`${program} ended at its start: ${server}`)
  }
}

/** So many ports of its own choice are tried before a test fails. */
const PORTS = 5

/** What it said, if it ended at once. */
async function tryToStart(
  t: Test,
  program: string,
  folder: string,
  flags: readonly string[],
  port: number,
  file?: string,
): Promise<RedisServer | string> {
  const listen = flags.includes('--tls-port') ? ['--port', '0'] : ['--port', String(port)]
  const plain = flags.includes('--sentinel') ? [] : ['--save', '', '--appendonly', 'no']
  const args = [...(file ? [file] : []), ...listen, '--bind', HOST, '--dir', folder, ...plain, ...flags]
  const child = spawn(
    program,
    args.map(arg => (arg === 'PORT' ? String(port) : arg)),
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  let said = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    said = (said + text).slice(-1000)
  })
  const closed = once(child, 'close')
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  const kill = async () => {
    if (!hasEnded()) child.kill('SIGKILL')
    await closed
  }
  t.teardown(kill)
  await eventually(async () => hasEnded() || (await answers(port)))
  if (!hasEnded()) return { port, url: `redis://${HOST}:${port}`, folder, child, kill }
  await closed
  return said
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, HOST)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
