import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { needs } from './needs.js'
import { until } from './until.js'

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
  given?: number,
  file?: string,
): Promise<RedisServer | undefined> {
  const port = given ?? (await ownPort())
  const program = process.env[SERVER] ?? needs(t, 'redis-server')
  if (!program) return undefined
  const listen = flags.includes('--tls-port') ? ['--port', '0'] : ['--port', String(port)]
  // Protected, it refuses clients that are not at 127.0.0.1.
  const at = ['--bind', HOST, '--bind-source-addr', HOST, '--protected-mode', 'no']
  const plain = flags.includes('--sentinel') ? [] : ['--save', '', '--appendonly', 'no']
  const args = [...(file ? [file] : []), ...listen, ...at, '--dir', folder, ...plain, ...flags]
  const child = spawn(
    ...bound(
      program,
      args.map(arg => (arg === 'PORT' ? String(port) : arg)),
    ),
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
  await until('Redis to listen', async () => hasEnded() || (await answers(port)))
  if (!hasEnded()) return { port, url: `redis://${HOST}:${port}`, folder, child, kill }
  await closed
  throw new Error(`${program} ended at its start: ${said}`)
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
