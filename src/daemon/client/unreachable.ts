/** Explains why a service did not respond, and what to do about it. */

const UNKNOWN_AUTHORITY =
  'its certificate is not from an authority that is trusted here; name the certificate of that authority with --ca-file'
const NO_TLS = 'it does not speak TLS there; use http://, or the port for https'

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing accepts connections there; is the service running, and are the address and the port right?',
  ENOTFOUND: 'its name cannot be resolved',
  EAI_AGAIN: 'its name cannot be resolved at the moment',
  EHOSTUNREACH: 'it cannot be reached from this network',
  ENETUNREACH: 'it cannot be reached from this network',
  ETIMEDOUT: 'connecting timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connecting timed out',
  CERT_HAS_EXPIRED: 'its certificate or the certificate of its authority has expired; renew it there',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet; is the clock right?',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed; name a file that holds it with --ca-file',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name; use an address that the certificate has',
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
}

const CLIENT_CERTIFICATE = 'it requires a client certificate, which is not supported here'
/** Errors that a request without TLS gets from a port that expects TLS. */
const PERHAPS_TLS = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_\w+)$/

/** `error` is an error of fetch. If fetch has tried several addresses, the cause of `error` has only a code. */
export function unreachableText(url: string, error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  if (!(cause instanceof Error)) return String(cause)
  const { code = '', message } = cause as NodeJS.ErrnoException
  const words = wordsFor(url, code === 'EPROTO' ? opensslCode(message) : code)
  if (words === undefined) return message || code || cause.name
  const { reason } = cause as { readonly reason?: unknown }
  const names = code === 'ERR_TLS_CERT_ALTNAME_INVALID' && typeof reason === 'string' ? `. ${reason}` : ''
  return `${words} (${code})${names}`
}

/** Returns the code of a TLS handshake error from OpenSSL's message, because Node.js reports only EPROTO. */
function opensslCode(message: string): string {
  const reason = /SSL routines:[^:]*:([^:]+)/.exec(message)?.[1] ?? ''
  return `ERR_SSL_${reason.trim().toUpperCase().replaceAll(' ', '_')}`
}

function wordsFor(url: string, code: string): string | undefined {
  if (Object.hasOwn(WORDS, code)) return WORDS[code]
  if (/^ERR_SSL_.*ALERT_.*(CERTIFICATE|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED)/.test(code))
    return CLIENT_CERTIFICATE
  if (!PERHAPS_TLS.test(code)) return undefined
  const advice = url.startsWith('http:') ? '; does it expect https:// there?' : ''
  return `the connection was closed before the answer${advice}`
}
