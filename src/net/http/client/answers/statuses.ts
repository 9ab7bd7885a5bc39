import type { Failure } from '../../../../core/errors.js'

/** Statuses for which delivery waits until an operator corrects a key, a permission or a proxy's password. */
const HELD = new Set([401, 403, 407])
const RETRIED = new Set([408, 425, 429])

export function failureOf(status: number): Failure {
  if (HELD.has(status) || (status >= 300 && status < 400)) return 'hold'
  if (status === 413) return 'too_large'
  return status >= 500 || RETRIED.has(status) ? 'retry' : 'reject'
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

/** Converts a Retry-After header (seconds or a date) to milliseconds. */
export function retryAfterMs(header: string | undefined, wall: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\s*\d+\s*$/.test(header)) return Number(header) * 1000
  const date = /[A-Za-z]{3}/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - wall)
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}
