import { formatDuration } from '../../../lib/units.js'
import { counted, type DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** Older refusals are not reported. */
const RECENT_S = 3600
const DAY_S = 86_400
const SOON_S = 7 * DAY_S

/** Certificates that expire, and clients that are refused in the TLS handshake. */
export function tlsProblemsOf({ scrape, wall }: Pick<DaemonView, 'scrape' | 'wall'>): Problem[] {
  const problems: Problem[] = []
  for (const { labels, value } of scrape.all('sluice_tls_certificate_expiry_timestamp_seconds')) {
    const left = value - wall / 1000
    const { component_id, option, file } = labels
    const date = new Date(value * 1000).toISOString().slice(0, 10)
    const when = left <= 0 ? `expired on ${date}` : left < SOON_S ? `expires on ${date}` : undefined
    if (when === undefined) continue
    const todo = 'Renew the certificate in that file. The new one is used without a restart.'
    problems.push({ what: `${component_id}: the certificate in tls.${option} (${file}) ${when}`, todo })
  }
  for (const { labels, value } of scrape.all('sluice_tls_last_refusal_age_seconds')) {
    const { component_id, reason } = labels
    if (value > RECENT_S || reason === 'closed') continue
    const total = scrape.sum('sluice_tls_refused_connections_total', labels)
    const ago = formatDuration(Math.max(1, Math.round(value)) * 1000)
    problems.push({
      what: `${component_id} refused ${counted(total, 'TLS connection')} (${reason}), the last one ${ago} ago`,
      todo: 'The log names the address of the client and the cause (SLUICE_TLS_REFUSED).',
    })
  }
  return problems
}
