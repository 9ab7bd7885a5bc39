import type { Logger } from 'pino'
import type { Config } from '../config/load.js'
import { ConfigError, errorText, formatProblem } from '../core/errors.js'
import type { Metrics } from '../engine/metrics.js'
import type { Supervisor } from '../engine/supervisor.js'
import type { Servers } from './run-servers.js'
import type { Systemd } from './systemd/systemd.js'

/** At SIGHUP the configuration is read again, and takes the place of the one that runs. One that is wrong changes nothing. */
export function onReload(
  read: () => Config,
  pipeline: Supervisor,
  servers: Servers,
  metrics: Metrics,
  log: Logger,
  systemd: Pick<Systemd, 'reload'>,
  told: { refused: string | undefined },
): () => void {
  const counts = { done: 0, failed: 0 }
  const help = 'Times that the configuration was read again, by what came of it.'
  metrics.series('counter', 'sluice_config_reloads_total', help, () =>
    Object.entries(counts).map(([result, value]) => ({ labels: { result }, value })),
  )
  let last = true
  metrics.daemonGauge('sluice_config_last_reload_successful', 'Whether the last one took place.', () => (last ? 1 : 0))
  const reload = async () => {
    try {
      const next = read()
      for (const warning of next.warnings) log.warn({ place: formatProblem(warning) }, 'configuration warning')
      await pipeline.replace(next)
      await servers.listen(next.metrics)
      counts.done++
      last = true
      told.refused = undefined
      log.info({ config: next.files }, 'another configuration runs now')
    } catch (error) {
      counts.failed++
      last = false
      const problems = error instanceof ConfigError ? error.problems.map(formatProblem) : [errorText(error)]
      told.refused = problems.join('; ')
      const text = 'the configuration was not taken: the one that ran goes on'
      for (const problem of problems) log.error({ code: 'SLUICE_RELOAD_FAILED', error: problem }, text)
    }
  }
  const onSignal = () => void systemd.reload(reload)
  process.on('SIGHUP', onSignal)
  return () => process.off('SIGHUP', onSignal)
}
