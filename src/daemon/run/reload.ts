import type { Logger } from 'pino'
import { ConfigError, errorText, formatProblem } from '../../core/errors.js'
import type { Config } from '../../engine/config/load.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { NotNow, type Supervisor } from '../../engine/run/supervisor.js'
import { systemClock } from '../../lib/time.js'
import { onHeldSignal } from '../process/early-signals.js'
import { logWarnings } from '../process/log.js'
import type { Systemd } from '../systemd/systemd.js'
import type { Servers } from './servers.js'
import { ConfigWatch, type WatchedFiles } from './watch.js'

/** A component that has not failed to start after this time probably waits for its server, and counts as started. */
const START_MS = 10_000

export interface ReloadOrigin {
  /** Reads the configuration; throws ConfigError. */
  readonly read: () => Promise<Config>
  /** Called with each configuration that replaces the running one. */
  readonly applied: (config: Config) => void
  /** Runs `work` while nothing else may replace the running configuration. Undefined if only reloads replace it. */
  readonly inTurn?: (work: () => Promise<void>) => Promise<void>
  /** The files to watch; undefined: they cannot be watched. */
  readonly files?: WatchedFiles | undefined
  readonly texts?: { readonly done: string; readonly failed: string }
}

export interface Reloads {
  /** Called when the new configuration has failed to start and the previous one, `back`, runs again. */
  wentBack(error: Error, back: Config): void
  /** Resolves when no reload is running or requested any more. */
  stop(): Promise<void>
}

const TEXTS = {
  done: 'configuration reloaded',
  failed: 'cannot apply the new configuration; keeping the current one',
}

/**
 * Reloads the configuration on SIGHUP and, if enabled, when its files change. An invalid configuration changes nothing.
 */
export function onReload(
  { read, applied, inTurn = work => work(), files, texts = TEXTS }: ReloadOrigin,
  pipeline: Pick<Supervisor, 'config' | 'isStopping' | 'replace' | 'hasStarted'>,
  servers: Servers,
  metrics: Metrics,
  log: Logger,
  systemd: Pick<Systemd, 'reload'>,
  subject: { refused?: string | undefined } = {},
): Reloads {
  const counts = { done: 0, failed: 0 }
  let last = true
  let lastDone = systemClock.wall()
  /** When the last reload was applied, until its components have started. If one fails to start, the reload has failed. */
  let appliedAt: number | undefined
  const settle = () => {
    if (appliedAt === undefined) return
    counts.done++
    lastDone = appliedAt
    appliedAt = undefined
  }
  const settleIfStarted = () => {
    if (pipeline.hasStarted || systemClock.wall() - (appliedAt ?? 0) > START_MS) settle()
  }
  const help = 'Reloads of the configuration by result.'
  metrics.series('counter', 'sluice_config_reloads_total', help, () => {
    settleIfStarted()
    return Object.entries(counts).map(([result, value]) => ({ labels: { result }, value }))
  })
  metrics.fact({
    name: 'sluice_config_last_reload_successful',
    help: 'Whether the last reload succeeded.',
    read: () => (last ? 1 : 0),
    problem: succeeded =>
      succeeded === 0 && {
        gravity: 'reload',
        what: 'the last reload failed: the previous configuration is still running',
        todo: 'The log and `sluice validate` show what is wrong in the new configuration. Nothing is lost.',
      },
  })
  const since = 'When a configuration was last loaded successfully, initially at startup.'
  metrics.daemonGauge('sluice_config_last_reload_success_timestamp_seconds', since, () => {
    settleIfStarted()
    return lastDone / 1000
  })
  const hash = 'Hash of the files of the running configuration; always 1.'
  metrics.series('gauge', 'sluice_config_info', hash, () => [{ labels: { hash: pipeline.config.digest }, value: 1 }])
  const reload = async () => {
    watch?.read()
    settle()
    try {
      const before = pipeline.config.digest
      const next = await read()
      logWarnings(log, next.warnings)
      const listening = await servers.prepare(next)
      await pipeline.replace(next).catch(error => {
        listening.drop()
        throw error
      })
      listening.use()
      applied(next)
      appliedAt = systemClock.wall()
      last = true
      subject.refused = undefined
      watch?.set(next.watched)
      log.info({ config: next.files, hash: next.digest, changed: next.digest !== before }, texts.done)
    } catch (error) {
      if (error instanceof NotNow && pipeline.isStopping) {
        log.info('the reload was given up: the daemon is stopping')
        return
      }
      counts.failed++
      last = false
      const problems = error instanceof ConfigError ? error.problems.map(formatProblem) : [errorText(error)]
      subject.refused = problems.join('; ')
      for (const problem of problems) log.error({ code: 'SLUICE_RELOAD_FAILED', error: problem }, texts.failed)
    }
  }
  /** Resets the metrics, the page and the log to the settings of `back`, the configuration that runs again. */
  const moveBack = async (back: Config) => {
    applied(back)
    try {
      const listening = await servers.prepare(back)
      listening.use()
      watch?.set(back.watched)
    } catch (error) {
      log.error(
        { code: 'SLUICE_RELOAD_FAILED', error: errorText(error) },
        'cannot move the metrics back; they stay at the new address',
      )
    }
  }
  const queue = new ReloadQueue(() => inTurn(reload))
  const reloadNext = () => queue.request()
  const watch = files && new ConfigWatch(files, () => systemd.reload(reloadNext))
  watch?.set(pipeline.config.watched)
  const onSignal = () => void systemd.reload(reloadNext)
  const removeHandler = onHeldSignal('SIGHUP', onSignal)
  return {
    wentBack(error, back) {
      appliedAt = undefined
      counts.failed++
      last = false
      subject.refused = errorText(error)
      const failed = pipeline.config
      void queue.add(async () => {
        // A reload that was running meanwhile may have replaced both.
        if (pipeline.config === failed || pipeline.config === back) await moveBack(back)
      })
    },
    stop() {
      removeHandler()
      watch?.set(false)
      return queue.idle
    },
  }
}

/**
 * Runs one reload at a time, because each reload starts from the addresses that the previous reload set. All requests
 * made during a reload together cause one further reload, which begins when the current reload has ended.
 */
class ReloadQueue {
  readonly #reload: () => Promise<void>
  #last = Promise.resolve()
  /** The reload that was requested and has not begun; undefined: none. */
  #next: Promise<void> | undefined

  constructor(reload: () => Promise<void>) {
    this.#reload = reload
  }

  /** Requests a reload that begins after this call. Resolves when that reload has ended. */
  request(): Promise<void> {
    this.#next ??= this.add(() => {
      this.#next = undefined
      return this.#reload()
    })
    return this.#next
  }

  /** Runs `work` after all work that was added before. */
  add(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work)
    return this.#last
  }

  /** Resolves when all work added so far has ended. */
  get idle(): Promise<void> {
    return this.#last
  }
}
