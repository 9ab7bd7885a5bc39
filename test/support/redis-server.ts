import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { freePort } from './free-port.js'
import { needs } from './needs.js'
import { eventually } from './patience.js'

/** The variable with the server's program, if it is another one than redis-server. */
export const SERVER = 'SLUICE_REDIS_SERVER'

/** A real Redis server on the loopback interface. */
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
  const at = port ?? (await freePort())
  const listen = flags.includes('--tls-port') ? ['--port', '0'] : ['--port', String(at)]
  const plain = flags.includes('--sentinel') ? [] : ['--save', '', '--appendonly', 'no']
  const args = [...(file ? [file] : []), ...listen, '--bind', '127.0.0.1', '--dir', folder, ...plain, ...flags]
  const child = spawn(
    program,
    args.map(arg => (arg === 'PORT' ? String(at) : arg)),
    { stdio: 'ignore' },
  )
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    await closed
  }
  t.teardown(kill)
  await eventually(() => answers(at))
  return { port: at, url: `redis://127.0.0.1:${at}`, folder, child, kill }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
