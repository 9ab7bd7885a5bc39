import { errorText } from '../../core/errors.js'

/**
 * `UNKNOWN_CA` of `ERR_SSL_TLSV1_ALERT_UNKNOWN_CA`: what the other side of a TLS connection gave as its reason to close
 * it. Undefined when the error is none of the other side. Newer versions of OpenSSL write `SSL/TLS_ALERT`.
 */
export function tlsAlertOf(code: string): string | undefined {
  if (code === 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME') return 'UNRECOGNIZED_NAME'
  return /^ERR_SSL_.*ALERT_([A-Z_]+)$/.exec(code)?.[1]
}

/** What OpenSSL means, without where in its code it says so. */
export function opensslText(error: unknown): string {
  const { reason } = error as { readonly reason?: unknown }
  return typeof reason === 'string' && reason !== '' ? reason : errorText(error)
}
