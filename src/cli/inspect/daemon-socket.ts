import { existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { LiveBucket } from '../../core/component.js'
import { errorCode } from '../../core/errors.js'
import { askSocket, textOf } from '../../daemon/admin/ask-socket.js'
import { socketPath } from '../../daemon/admin/socket.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { dataDirOf } from '../../engine/config/load.js'

export interface DaemonOptions {
  readonly config: string | undefined
  readonly socket: string | undefined
}

const USUAL_CONFIG = '/etc/sluice/sluice.yaml'
const USUAL_SOCKETS = ['/run/sluice/sluice.sock', '/var/lib/sluice/sluice.sock', 'state/sluice.sock']

/** The socket of the selected daemon; without an option, the one at a default path. */
export function findSocket({ config, socket }: DaemonOptions, env: Io['env']): string {
  if (socket !== undefined) return socket
  if (config !== undefined) return socketPath(dataDirOf(config, env))
  const found = usualSocket(env)
  if (found !== undefined) return found
  if (existsSync(USUAL_CONFIG)) return socketPath(dataDirOf(USUAL_CONFIG, env))
  const places = [USUAL_CONFIG, ...USUAL_SOCKETS].join(', ')
  throw new UsageError(
    `no daemon is found: there is none of ${places}. If one runs, say which with --config FILE or --socket PATH; \`sluice run FILE\` starts one`,
  )
}

/** The configuration at the default path; throws UsageError if there is none. */
export function usualConfig(command: string): string {
  if (existsSync(USUAL_CONFIG)) return USUAL_CONFIG
  throw new UsageError(`FILE is missing, and there is no ${USUAL_CONFIG}: say which configuration`, command)
}

/** The socket of this machine's daemon at one of the default paths; undefined if there is none. */
export function usualSocket(env: Io['env']): string | undefined {
  return [...(env.SLUICE_SOCKET ? [env.SLUICE_SOCKET] : []), ...USUAL_SOCKETS].find(path => existsSync(path))
}

/** Sends a request to the daemon; the body of the response is not read yet. Errors say what to do. */
export async function ask(socket: string, path: string, signal?: AbortSignal): Promise<IncomingMessage> {
  try {
    return await askSocket(socket, { path, signal })
  } catch (error) {
    throw new Error(advice(socket, error), { cause: error })
  }
}

function advice(socket: string, error: unknown): string {
  switch (errorCode(error)) {
    case 'ENOENT':
      return `there is no daemon at ${socket}: it does not run, or has another data_dir`
    case 'ECONNREFUSED':
      return `the daemon of ${socket} does not run any more`
    case 'EACCES':
      return `${socket} is for the user of the daemon alone: run this as that user, or as root`
    default:
      return `the daemon at ${socket} does not answer`
  }
}

/**
 * Asks the daemon with this `data_dir` for the state of a bucket; null: the default one. `rule`: as in a Finding.
 * Undefined: the daemon has no such component, or it has no buckets.
 */
export async function liveBucket(
  dataDir: string,
  component: string,
  key: string | null,
  rule: string | null | undefined,
): Promise<LiveBucket | undefined> {
  const query = new URLSearchParams({ component })
  if (key !== null) query.set('key', key)
  if (rule !== undefined) query.set('rule', rule ?? '')
  const answer = await ask(socketPath(dataDir), `/bucket?${query}`)
  const text = await textOf(answer)
  return answer.statusCode === 200 ? (JSON.parse(text) as LiveBucket) : undefined
}
