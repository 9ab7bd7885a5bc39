import type { ComponentMetrics } from '../../../../core/component.js'
import type { CausedBy, Failure } from '../../../../core/errors.js'

/** Statuses that have one cause. An operator corrects a key, a permission or a proxy's password. */
const CAUSES: readonly (readonly [CausedBy, ...number[]])[] = [
  ['credentials', 401, 403, 407],
  ['address', 404, 405, 410, 421],
  ['overload', 408, 429, 503, 504],
]

export const causeOf = (status: number) => CAUSES.find(([, ...all]) => all.includes(status))?.[0]

export function failureOf(status: number): Failure {
  const cause = causeOf(status)
  if (cause === 'credentials' || (status >= 300 && status < 400)) return 'hold'
  if (status === 413) return 'too_large'
  // HTTP has no final response below 200. Such a status says nothing about the events.
  return status < 200 || status >= 500 || cause === 'overload' || status === 425 ? 'retry' : 'reject'
}

/** Texts of status-400 responses that reject the connection, not the request, and advice for each. */
const OF_THE_CONNECTION: readonly [RegExp, string][] = [
  [
    /<title>400 The plain HTTP request was sent to HTTPS port<|^Client sent an HTTP request to an HTTPS server|You're speaking plain HTTP to an SSL-enabled server port/,
    '; it speaks TLS there: use https://',
  ],
  [
    /<title>400 No required SSL certificate was sent</,
    '; it wants a client certificate: set tls.cert_file and tls.key_file',
  ],
  [/<title>400 The SSL certificate error</, '; it refuses the client certificate in tls.cert_file: has it expired?'],
]

/** Advice for a response that rejects the connection; undefined if it rejects the request. */
export function connectionAdvice(status: number, text: string): string | undefined {
  if (status !== 400) return undefined
  return OF_THE_CONNECTION.find(([pattern]) => pattern.test(text))?.[1]
}

/** Longer pauses count as this long. */
const LONGEST_PAUSE_MS = 2 ** 31 * 1000
/** The three forms of an HTTP date: the usual form and that of RFC 850, and that of `asctime`. All are in UTC. */
const HTTP_DATE = /^[A-Z][a-z]{2}(?:, \d\d [A-Z][a-z]{2} \d{4}|[a-z]{3,6}, \d\d-[A-Z][a-z]{2}-\d\d) \d\d:\d\d:\d\d GMT$/
const ASCTIME_DATE = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/

/** Converts a Retry-After header (seconds or a date) to milliseconds. */
export function retryAfterMs(header: string | undefined, wall: number): number | undefined {
  const text = header?.trim() ?? ''
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, LONGEST_PAUSE_MS)
  const date = ASCTIME_DATE.test(text) ? `${text} GMT` : HTTP_DATE.test(text) ? text : ''
  const ms = Date.parse(date) - wall
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, ms), LONGEST_PAUSE_MS)
}

/** The counter of requests with this status, or without a response for this reason. */
export function requestCounter(metrics: Pick<ComponentMetrics, 'counter'>, status: string) {
  const help = 'Requests by the status of the response, or by the reason why no response came.'
  return metrics.counter('sluice_http_requests_total', help, { status })
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}
