import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigError, formatProblem } from '../../core/errors.js'
import type { ReportedProblem, Status } from '../../core/status-document.js'
import {
  type DaemonOptions,
  findSocket,
  type OtherDaemons,
  otherDaemons,
  selected,
  socketOfRunning,
  usualSocket,
} from '../../daemon/admin/daemon-socket.js'
import { statusAt } from '../../daemon/admin/daemon-view.js'
import { socketPath } from '../../daemon/admin/socket.js'
import type { Io } from '../../daemon/process/command-line.js'
import { shellWord } from '../../lib/shell-word.js'

export interface Daemon {
  readonly socket: string
  /** Problems in the configuration by which the daemon was found. */
  readonly mistakes: readonly ReportedProblem[]
  /** Other daemons that the user may have meant. */
  readonly others?: OtherDaemons | undefined
}

/**
 * Finds the selected daemon, even if its configuration has become invalid since the daemon started. Throws ConfigError
 * if the configuration is invalid and no daemon runs with it.
 */
export async function findDaemon(options: DaemonOptions, env: Io['env']): Promise<Daemon> {
  const { config, socket } = selected(options, env)
  if (config === undefined || socket !== undefined) {
    const found = await findSocket(options, env)
    return { socket: found, mistakes: [], others: otherDaemons(options, found, env) }
  }
  const running = await socketOfRunning(config, env)
  if (running !== undefined) return { socket: running, mistakes: [] }
  const { dataDirIn } = await import('../../engine/config/load.js')
  const { dataDir, problems } = dataDirIn(config, env)
  if (problems.length === 0) return { socket: socketPath(dataDir), mistakes: [] }
  const todo =
    'The daemon keeps the configuration that it has read before. Correct the file before a reload or a restart; the command lists every mistake.'
  const mistakes = problems.map(problem => ({
    what: `the configuration cannot be used any more: ${formatProblem(problem)}`,
    todo,
    commands: [`sluice validate ${shellWord(config)}`],
  }))
  // The mistake may be in data_dir itself, so another daemon may listen at this path.
  for (const path of [socketPath(dataDir), usualSocket(env)])
    if (path !== undefined && existsSync(path)) {
      const status = await statusAt(path).catch(() => undefined)
      if (status?.config === resolve(config)) return { socket: path, mistakes }
    }
  throw new ConfigError(problems)
}

/** The document of /status, in which the problems of the configuration come first. */
export async function statusFrom({ socket, mistakes }: Daemon): Promise<Status> {
  const status = await statusAt(socket)
  return { ...status, problems: [...mistakes, ...status.problems] }
}
