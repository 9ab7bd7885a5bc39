import type { Logger } from 'pino'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { systemClock } from '../../lib/time.js'
import { REFUSED_AGE, REFUSED_TOTAL, ServerTls } from '../../net/listen.js'
import type { TlsFileOptions } from '../../net/listen-options.js'
import { EXPIRY_SERIES, expirySeries } from '../../net/tls.js'

/** The certificate of the service, with its metrics. */
export function serviceTls(paths: TlsFileOptions, metrics: Metrics, log: Logger): ServerTls {
  let failed = 0
  const tls = new ServerTls(paths, { log, clock: systemClock, failed: () => failed++ })
  metrics.series('counter', REFUSED_TOTAL.name, REFUSED_TOTAL.help, () => tls.refusals.totals())
  metrics.series('gauge', REFUSED_AGE.name, REFUSED_AGE.help, () => tls.refusals.ages())
  metrics.series('gauge', EXPIRY_SERIES.name, EXPIRY_SERIES.help, () => expirySeries(tls.files.expiries))
  const help = 'Renewed TLS files of the service that could not be used.'
  metrics.series('counter', 'sluice_api_tls_renewal_errors_total', help, () => [{ labels: {}, value: failed }])
  return tls
}
