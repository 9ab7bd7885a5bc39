import { Readable } from 'node:stream'
import type { ComponentConfig } from '../config/load.js'
import { isToSend, ResendError, type Resent, resendFile, surveyFile } from '../engine/dead-letter/resend.js'
import { deadLetterPath } from '../engine/dead-letter.js'
import type { Engine, Surroundings } from '../engine/engine.js'
import { Metrics } from '../engine/metrics.js'
import { systemRandom } from '../lib/backoff.js'
import { NearestName } from '../lib/nearest.js'
import { systemClock } from '../lib/time.js'
import { type Io, UsageError } from './command-line.js'
import { usualConfig } from './daemon-socket.js'
import { EXIT } from './dispatch.js'
import { loadDaemonConfig } from './local-part.js'
import { createLog } from './run-log.js'
import { onSignals } from './signals.js'

export interface ResendOptions {
  /** Undefined: the one at the usual place. */
  readonly config: string | undefined
  /** Undefined: the only one; for a dry run all of them. */
  readonly destination: string | undefined
  readonly dryRun: boolean
  /** Of dead letters; none: the file of the destination. */
  readonly files: readonly string[]
}

/** Sends dead letters again. Resolves with the exit code: 0 when the destination has taken all of them. */
export async function resend(options: ResendOptions, io: Io): Promise<number> {
  const config = await loadDaemonConfig(options.config ?? usualConfig('resend'), io.env)
  if (options.dryRun && options.destination === undefined && options.files.length === 0) {
    let code: number = EXIT.done
    for (const { id } of config.destinations) {
      const found = await survey([deadLetterPath(config.dataDir, id)].filter(isToSend), id, io)
      if (found !== EXIT.done) code = found
    }
    return code
  }
  const destination = find(config.destinations, options.destination)
  const files = options.files.length > 0 ? options.files : [deadLetterPath(config.dataDir, destination.id)]
  for (const file of options.files) if (!isToSend(file)) throw new ResendError(`there is no file ${file}`)
  if (options.dryRun) return await survey(files.filter(isToSend), destination.id, io)

  const log = createLog(io)
  let engine: Engine | undefined
  let stopped = false
  const stop = (deadline: AbortSignal) => {
    stopped = true
    engine?.stop(deadline)
  }
  const signals = onSignals({ stop }, config.shutdownTimeoutMs, log)
  const surroundings = (): Surroundings => ({
    log,
    clock: systemClock,
    random: systemRandom,
    metrics: new Metrics(log),
    stdin: Readable.from([]),
    stdout: io.stdout,
    env: io.env,
  })
  const context = {
    config,
    destination,
    surroundings,
    running: (now: Engine) => {
      engine = now
      if (stopped) now.abort()
    },
    stopped: () => stopped,
  }
  let code: number = EXIT.done
  const send = async () => {
    for (const file of files) {
      if (!isToSend(file)) io.stderr.write(`${destination.id}: nothing to send, there is no ${file}\n`)
      else if (!stopped && !tell(await resendFile(file, context), file, destination.id, io)) code = EXIT.failed
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

function find(
  destinations: readonly ComponentConfig<'destination'>[],
  id: string | undefined,
): ComponentConfig<'destination'> {
  const found =
    id === undefined && destinations.length === 1 ? destinations[0] : destinations.find(one => one.id === id)
  if (found) return found
  const ids = destinations.map(destination => destination.id)
  if (id === undefined)
    throw new UsageError(
      `the configuration has several destinations: say which with --destination ${ids.join(' | ')}`,
      'resend',
    )
  const near = new NearestName().find(id, ids)
  const hint = near === undefined ? `it has ${ids.join(', ')}` : `did you mean ${near}?`
  throw new UsageError(`the configuration has no destination ${id}; ${hint}`, 'resend')
}

async function survey(files: readonly string[], id: string, io: Io): Promise<number> {
  let code: number = EXIT.done
  if (files.length === 0) io.stdout.write(`${id}: nothing to send\n`)
  for (const file of files) {
    const { events, reasons, wrongLine } = await surveyFile(file)
    if (wrongLine === undefined) io.stdout.write(`${id}: ${events} to send${list(reasons)}, from ${file}\n`)
    else {
      io.stderr.write(`sluice: ${file}:${wrongLine}: is no dead letter\n`)
      code = EXIT.failed
    }
  }
  return code
}

/** Writes what became of a file; whether all of it was taken. */
function tell({ sent, refused, left }: Resent, file: string, id: string, io: Io): boolean {
  const again = [...refused.values()].reduce((sum, n) => sum + n, 0)
  const parts = [`${sent} sent`]
  if (again > 0) parts.push(`${again} refused again${list(refused)}, and back in ${file}`)
  if (left > 0) parts.push(`${left} not sent, to be sent by the next call`)
  io.stdout.write(`${id}: ${parts.join('; ')}\n`)
  return again === 0 && left === 0
}

function list(reasons: ReadonlyMap<string, number>): string {
  if (reasons.size === 0) return ''
  return ` (${[...reasons].map(([reason, n]) => `${reason}: ${n}`).join(', ')})`
}
