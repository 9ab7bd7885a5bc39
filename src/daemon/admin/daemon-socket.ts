import { constants, existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join, resolve } from 'node:path'
import { errorCode } from '../../core/errors.js'
import type { Status } from '../../core/status-document.js'
import { dataDirFrom, userConfigs, userState } from '../../engine/config/user-folders.js'
import { digestOf, MOST_BYTES, textsOf, writtenDataDir } from '../../engine/config/yaml/config-files.js'
import { fileIdentity } from '../../lib/files/final-path.js'
import { machineText } from '../../lib/files/machine-text.js'
import { refusalOf } from '../../lib/files/refusal.js'
import { shellWord } from '../../lib/shell-word.js'
import { deadline } from '../../lib/time.js'
import { type Io, pathIn, UsageError } from '../process/command-line.js'
import { askSocket, textOf } from './ask-socket.js'
import { socketPath } from './socket.js'

export interface DaemonOptions {
  readonly config: string | undefined
  readonly socket: string | undefined
}

/** How long a daemon may take to say with which configuration it runs. */
const KNOWN_MS = 2000
const MACHINE_CONFIG = '/etc/sluice/sluice.yaml'

/** The daemon that the options select or, if they select none, the environment. */
export function selected({ config, socket }: DaemonOptions, env: Io['env']): DaemonOptions {
  if (config !== undefined || socket !== undefined) return { config, socket }
  if (!env.SLUICE_SOCKET) return { config: pathIn('SLUICE_CONFIG', env), socket }
  if (existsSync(env.SLUICE_SOCKET)) return { config, socket: env.SLUICE_SOCKET }
  throw new Error(`there is no daemon at ${env.SLUICE_SOCKET}, which SLUICE_SOCKET names`)
}

/** The socket of the selected daemon. If no daemon is selected, the socket at a default path. */
export async function findSocket(options: DaemonOptions, env: Io['env']): Promise<string> {
  const { config, socket } = selected(options, env)
  if (socket !== undefined) return socket
  if (config !== undefined) return await socketOf(config, env)
  const found = usualSocket(env)
  if (found !== undefined) return found
  const usual = usualConfigs(env).find(path => existsSync(path))
  const configured = usual === undefined ? undefined : await socketOf(usual, env)
  const running = runningSockets()
  if (configured !== undefined && (running.length === 0 || existsSync(configured))) return configured
  const places = [...usualConfigs(env), ...usualSockets(env)].join(', ')
  const which =
    running.length === 0 ? 'If one runs, name it with' : `Daemons run at ${running.join(', ')}: name one with`
  throw new UsageError(
    `no daemon found at the default paths (${places}). ${which} --config FILE or --socket PATH; \`sluice run FILE\` starts one`,
  )
}

async function socketOf(config: string, env: Io['env']): Promise<string> {
  const running = await socketOfRunning(config, env)
  if (running !== undefined) return running
  const { dataDirOf } = await import('../../engine/config/load.js')
  return socketPath(dataDirOf(config, env))
}

/**
 * The socket of a daemon that runs with a configuration whose files have not changed since it read them; undefined: there
 * is none at the path that their texts name. Needs none of the modules that read a configuration.
 */
export async function socketOfRunning(config: string, env: Io['env']): Promise<string | undefined> {
  const files = textsOf([config], MOST_BYTES)
  if (!files) return undefined
  const path = socketPath(dataDirFrom(writtenDataDir(files), config, env))
  if (!existsSync(path)) return undefined
  const limit = deadline(KNOWN_MS)
  const status = await askJson<Partial<Status>>(path, '/status', limit.signal).catch(() => undefined)
  limit.clear()
  return status?.config === resolve(config) && status.config_hash === digestOf(files) ? path : undefined
}

/** In the kernel's list of sockets, matches sockets on which a daemon listens. */
const LISTENING = / 00010000 0001 01 +\d+ (\/.*\/sluice\.sock)$/gm

/** Sockets of local daemons that this user may connect to. Empty except on Linux, because only Linux lists sockets. */
function runningSockets(): string[] {
  const paths = [...machineText('/proc/net/unix').matchAll(LISTENING)].map(([, path]) => path!)
  return [...new Set(paths)].filter(path => refusalOf(path, constants.W_OK) === undefined).sort()
}

/** Describes the daemons other than the one at a default path. `command`: a command that inspects them. */
export interface OtherDaemons {
  readonly text: string
  readonly command: string
}

/** Undefined if no other daemon runs, or if the user selected a daemon. */
export function otherDaemons(options: DaemonOptions, found: string, env: Io['env']): OtherDaemons | undefined {
  const { config, socket } = selected(options, env)
  if (config !== undefined || socket !== undefined) return undefined
  // Several paths may lead to a socket, because systemd links folders.
  const others = runningSockets().filter(path => fileIdentity(path) !== fileIdentity(found))
  const [only, ...more] = others
  if (only === undefined) return undefined
  if (more.length === 0)
    return { text: 'Another daemon runs on this machine', command: `sluice status --socket ${shellWord(only)}` }
  const text = `${others.length} other daemons run on this machine, at ${others.join(', ')}`
  return { text, command: 'sluice status --socket PATH' }
}

/** The default paths of the configuration: the user's own one first. */
function usualConfigs(env: Io['env']): string[] {
  const folder = userConfigs(env)
  return [...(folder === undefined ? [] : [join(folder, 'sluice.yaml')]), MACHINE_CONFIG]
}

function usualSockets(env: Io['env']): string[] {
  const [own] = usualConfigs(env)
  const state = userState(own!, env)
  const folders = ['/run/sluice', '/var/lib/sluice', ...(state === undefined ? [] : [state]), 'state']
  return folders.map(socketPath)
}

/** The configuration at a default path. Throws UsageError if there is none. */
export function usualConfig(command: string, env: Io['env']): string {
  const paths = usualConfigs(env)
  const found = paths.find(path => existsSync(path))
  if (found !== undefined) return found
  throw new UsageError(`FILE is missing, and there is no ${paths.join(' or ')}: name a configuration`, command)
}

/** The socket at one of the default paths. Undefined if no such socket exists. */
export const usualSocket = (env: Io['env']): string | undefined => usualSockets(env).find(path => existsSync(path))

/** Sends a request to the daemon. Resolves before the body of the response is read. Errors say what to do. */
export async function ask(socket: string, path: string, signal?: AbortSignal): Promise<IncomingMessage> {
  try {
    return await askSocket(socket, { path, signal })
  } catch (error) {
    throw new Error(advice(socket, error), { cause: error })
  }
}

/** Asks the daemon for JSON. Undefined if it answers with an error, for example because a reload removed a component. */
export async function askJson<T>(socket: string, path: string, signal?: AbortSignal): Promise<T | undefined> {
  const answer = await ask(socket, path, signal)
  const text = await textOf(answer)
  return answer.statusCode === 200 ? (JSON.parse(text) as T) : undefined
}

function advice(socket: string, error: unknown): string {
  switch (errorCode(error)) {
    case 'ENOENT':
      return `there is no daemon at ${socket}: it does not run, or has another data_dir`
    case 'ECONNREFUSED':
      return `the daemon of ${socket} does not run any more`
    case 'EACCES':
      return `only the user of the daemon can use ${socket}: run this as that user, or as root`
    default:
      return `the daemon at ${socket} does not answer`
  }
}
