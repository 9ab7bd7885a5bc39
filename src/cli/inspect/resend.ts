import { Readable } from 'node:stream'
import { selected, usualConfig, usualSocket } from '../../daemon/admin/daemon-socket.js'
import { statusAt } from '../../daemon/admin/daemon-view.js'
import { loadDaemonConfig } from '../../daemon/managed/local-part.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { createLog } from '../../daemon/process/log.js'
import { onSignals } from '../../daemon/process/signals.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import { isToSend, ResendError, type Resent, resendFile, surveyFile } from '../../engine/run/dead-letter/resend.js'
import type { Engine, Runtime } from '../../engine/run/engine.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { pathOf } from '../../engine/run/state/inventory.js'
import { systemRandom } from '../../lib/backoff.js'
import { NearestName } from '../../lib/nearest.js'
import { printable } from '../../lib/printable.js'
import { systemClock } from '../../lib/time.js'

export interface ResendOptions {
  /** If undefined, the configuration of this machine's daemon is used. */
  readonly config: string | undefined
  /** If undefined, the only destination with rejected events is used. */
  readonly destination: string | undefined
  readonly dryRun: boolean
  /** Dead-letter files. If the list is empty, the file of the destination is used. */
  readonly files: readonly string[]
}

/** Sends rejected events again. Resolves with the exit code: 0 if the destination accepted all of them. */
export async function resend(options: ResendOptions, io: Io): Promise<number> {
  const config = await configOf(options.config, io)
  const ids = chosen(config, options)
  if (ids.length === 0) {
    io.stdout.write(`nothing to send: there are no rejected events in ${config.dataDir}\n`)
    return EXIT.done
  }
  for (const file of options.files) if (!isToSend(file)) throw new ResendError(`the file ${file} does not exist`)
  const filesOf = (id: string) =>
    options.files.length > 0 ? options.files : [pathOf(config.dataDir, 'dead_letters', id)]
  if (options.dryRun) {
    const codes: number[] = []
    for (const id of ids) codes.push(await survey(filesOf(id).filter(isToSend), id, io))
    return Math.max(...codes)
  }
  const target = find(config, ids[0]!)
  const files = filesOf(target.id)

  const log = createLog(io, { format: config.logFormat })
  let engine: Engine | undefined
  let stopped = false
  const stop = (deadline: AbortSignal) => {
    stopped = true
    engine?.stop(deadline)
  }
  const signals = onSignals({ stop }, config.shutdownTimeoutMs, log)
  const newRuntime = (): Runtime => ({
    log,
    clock: systemClock,
    random: systemRandom,
    metrics: new Metrics(log),
    stdin: Readable.from([]),
    stdout: io.stdout,
  })
  const context = {
    config,
    target,
    newRuntime,
    running: (now: Engine) => {
      engine = now
      if (stopped) now.abort()
    },
    stopped: () => stopped,
  }
  let code: number = EXIT.done
  const send = async () => {
    for (const file of files) {
      if (!isToSend(file)) io.stderr.write(`${target.id}: nothing to send, there is no ${file}\n`)
      else if (!stopped && !reportResult(await resendFile(file, context), file, target.id, io)) code = EXIT.failed
    }
    return false
  }
  try {
    const forced = await Promise.race([send(), signals.second.then(() => true)])
    return forced || stopped ? EXIT.failed : code
  } finally {
    signals.remove()
  }
}

/**
 * The configuration at `path`. Without `path`, the configuration that this machine's daemon runs, with the data_dir of
 * that daemon.
 */
async function configOf(path: string | undefined, { env }: Io): Promise<Config> {
  const { config, socket } = selected({ config: path, socket: undefined }, env)
  if (config !== undefined) return loadDaemonConfig(config, env)
  const daemon = socket === undefined ? await usualDaemon(env) : await statusAt(socket)
  if (daemon?.config === undefined) return loadDaemonConfig(usualConfig('resend', env), env)
  return { ...(await loadDaemonConfig(daemon.config, env)), dataDir: daemon.data_dir! }
}

async function usualDaemon(env: Io['env']) {
  const socket = usualSocket(env)
  return socket === undefined ? undefined : await statusAt(socket).catch(() => undefined)
}

/** The selected ids. If several are possible, a dry run without `files` selects all; other calls throw UsageError. */
function chosen(config: Config, { destination, files, dryRun }: ResendOptions): string[] {
  const { dataDir } = config
  if (destination !== undefined) return [find(config, destination).id]
  const ids = keepers(config).map(({ id }) => id)
  if (ids.length === 1 || (dryRun && files.length === 0)) return ids
  const meant = files.length > 0 ? ids : ids.filter(id => isToSend(pathOf(dataDir, 'dead_letters', id)))
  if (meant.length <= 1) return meant
  throw new UsageError(`several components are possible; name one with --destination ${meant.join(' | ')}`, 'resend')
}

/** The destinations, and the processors whose failed events go to a dead-letter queue. */
function keepers({ processors, destinations }: Config): ComponentConfig[] {
  return [...destinations, ...processors.filter(({ onError }) => onError === 'dead_letter')]
}

function find(config: Config, id: string): ComponentConfig {
  const all: readonly ComponentConfig[] = [...config.destinations, ...config.processors]
  const found = all.find(one => one.id === id)
  if (found) return found
  const ids = all.map(({ id }) => id)
  const near = new NearestName().find(id, ids)
  const hint = near === undefined ? `it has ${ids.join(', ')}` : `did you mean ${near}?`
  throw new UsageError(`the configuration has no destination or processor ${id}; ${hint}`, 'resend')
}

async function survey(files: readonly string[], id: string, io: Io): Promise<number> {
  let code: number = EXIT.done
  if (files.length === 0) io.stdout.write(`${id}: nothing to send\n`)
  for (const file of files) {
    const { events, reasons, wrongLine } = await surveyFile(file)
    if (wrongLine === undefined) io.stdout.write(`${id}: ${events} to send${list(reasons)}, from ${file}\n`)
    else {
      io.stderr.write(`sluice: ${file}:${wrongLine}: is not a rejected event\n`)
      code = EXIT.failed
    }
  }
  return code
}

/** Prints the result for a file. Returns whether all its events were accepted. */
function reportResult({ sent, refused, left }: Resent, file: string, id: string, io: Io): boolean {
  const again = [...refused.values()].reduce((sum, n) => sum + n, 0)
  const parts = [`${sent} sent`]
  if (again > 0) parts.push(`${again} rejected again${list(refused)}, and back in ${file}`)
  if (left > 0) parts.push(`${left} not sent: run the command again`)
  io.stdout.write(`${id}: ${parts.join('; ')}\n`)
  return again === 0 && left === 0
}

function list(reasons: ReadonlyMap<string, number>): string {
  if (reasons.size === 0) return ''
  return printable(` (${[...reasons].map(([reason, n]) => `${reason}: ${n}`).join(', ')})`)
}
