import { errorText } from '../../core/errors.js'

/**
 * Extracts `UNKNOWN_CA` from `ERR_SSL_TLSV1_ALERT_UNKNOWN_CA`: the reason that the peer of a TLS connection gave for
 * closing it. Undefined if the error is not from the peer. Newer versions of OpenSSL write `SSL/TLS_ALERT`.
 */
export function tlsAlertOf(code: string): string | undefined {
  if (code === 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME') return 'UNRECOGNIZED_NAME'
  return /^ERR_SSL_.*ALERT_([A-Z_]+)$/.exec(code)?.[1]
}

/** The reason from OpenSSL without its source location. */
export function opensslText(error: unknown): string {
  const { reason } = error as { readonly reason?: unknown }
  return typeof reason === 'string' && reason !== '' ? reason : errorText(error)
}
