import { DeliveryError, errorCode, errorText } from '../core/errors.js'
import { DeniedAddress, ProxyError } from './dial.js'
import type { DialOptions } from './dial-options.js'
import { opensslText, tlsAlertOf } from './tls-check.js'

/** Explains why there was no response, and names the option to change. */

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'connect_timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
}

/** HTTP/2 frame types. */
const [SETTINGS, GOAWAY] = [4, 7]

const WORDS: Record<string, string> = {
  refused: 'nothing accepts connections there',
  reset: 'the connection was closed before the answer',
  dns: 'its name cannot be resolved',
  connect_timeout: 'connecting timed out',
  unreachable: 'it cannot be reached from this network',
}

/** The receiver switched to another protocol without being asked. */
export class UnexpectedUpgrade extends Error {
  constructor() {
    super('101 Switching Protocols, which was not requested')
  }
}

/** Facts about a connection that help to explain its error. */
export interface Way {
  readonly url: string
  readonly tls: DialOptions['tls']
  /** Whether the receiver has closed a connection without a response, and has not responded after that. */
  readonly unanswered: boolean
  /** The proxy that requests go through. */
  readonly proxy: string | undefined
}

/** Converts the error of an attempt that got no response. */
export function networkError(error: unknown, place: string, way: Way): DeliveryError {
  if (error instanceof DeliveryError) return error
  if (error instanceof DeniedAddress) return denied(error, place)
  if (error instanceof ProxyError) return proxyError(error, place, way)
  const code = errorCode(error) ?? ''
  const tls = tlsWords(error, code, way)
  const reason = tls === undefined ? reasonOf(error, code) : 'tls'
  const why = tls ?? WORDS[reason] ?? errorText(error)
  const advice = tls === undefined ? adviceOn(error, reason, way) : ''
  // A request for an http URL is sent to the proxy itself, so the message names the proxy.
  const who = way.proxy !== undefined && way.url.startsWith('http:') ? `the proxy ${way.proxy}: ` : ''
  const message = `${place}: ${who}${why}${code ? ` (${code})` : ''}${advice}`
  return new DeliveryError(message, { failure: 'retry', reason, cause: error })
}

function denied(error: DeniedAddress, place: string): DeliveryError {
  return new DeliveryError(`${place}: ${error.message}`, { failure: 'hold', reason: 'address_denied', cause: error })
}

/** An error of the proxy or of the connection to it, not of the receiver. */
function proxyError({ status, message, cause }: ProxyError, place: string, { proxy = '' }: Way): DeliveryError {
  if (status !== undefined) {
    const options = { failure: HELD_BY_PROXY.has(status) ? 'hold' : 'retry', reason: `proxy_${status}` } as const
    const words = proxyWords(status)
    const said = message ? `${status} ${message}` : status
    return new DeliveryError(`${place}: the proxy ${proxy} answered ${said}${words}`, { ...options, cause })
  }
  if (cause instanceof DeniedAddress) return denied(cause, place)
  const code = errorCode(cause) ?? ''
  const reason = REASONS[code]
  const why = (reason && WORDS[reason]) ?? (cause === undefined ? message : errorText(cause))
  const text = `${place}: the proxy ${proxy}: ${why}${code ? ` (${code})` : ''}`
  return new DeliveryError(text, { failure: 'retry', reason: `proxy_${reason ?? 'network'}`, cause })
}

/** Statuses of a proxy after which delivery pauses until an operator acts. */
const HELD_BY_PROXY = new Set([401, 403, 405, 407])

export function proxyWords(status: number): string {
  if (status === 407) return '; it wants another user or password: see proxy.auth'
  if (status === 403 || status === 405) return '; it does not allow connections to this host and port'
  return status >= 500 ? '; it cannot reach the receiver' : ''
}

function reasonOf(error: unknown, code: string): string {
  if (error instanceof UnexpectedUpgrade) return 'protocol'
  return REASONS[code] ?? (code.startsWith('HPE_') ? 'protocol' : 'network')
}

function adviceOn(error: unknown, reason: string, { url, tls, unanswered }: Way): string {
  if (reason === 'protocol') {
    const { rawPacket } = error as { readonly rawPacket?: unknown }
    if (!Buffer.isBuffer(rawPacket)) return ''
    // A TLS alert begins with 0x15 and 0x03. A server that speaks HTTP/2 sends a SETTINGS frame first and a GOAWAY
    // frame last.
    if (rawPacket[0] === 0x15 && rawPacket[1] === 0x03) return '; it speaks TLS there: use https://'
    const isHttp2 = rawPacket[0] === 0 && (rawPacket[3] === SETTINGS || rawPacket[3] === GOAWAY)
    return isHttp2 ? '; it speaks HTTP/2 there, as gRPC does: use its port for HTTP' : ''
  }
  if (reason !== 'reset' || !unanswered) return ''
  if (url.startsWith('http:')) return '; does it expect https:// there?'
  if (tls.cert_file === undefined) return '; it may want a client certificate: set tls.cert_file and tls.key_file'
  return `; it may refuse the client certificate in tls.cert_file (${tls.cert_file})`
}

/** Explains a TLS error; undefined if the error does not concern TLS. */
function tlsWords(error: unknown, code: string, { tls, url }: Way): string | undefined {
  const alert = tlsAlertOf(code)
  if (alert !== undefined) return alertWords(alert, tls)
  const words = VERIFICATION[code]
  if (words) return words(tls, error, url)
  if (!/^(ERR_TLS|ERR_SSL|EPROTO)|CERT|UNABLE_TO_|SELF_SIGNED/.test(code)) return undefined
  return `${opensslText(error)}; see tls.ca_file and tls.server_name`
}

const unknownAuthority = ({ ca_file }: DialOptions['tls']) =>
  ca_file === undefined
    ? "the authority of the receiver's certificate is not known; name its certificate in tls.ca_file"
    : `the receiver's certificate is not from an authority in tls.ca_file (${ca_file}), or the receiver does not send its intermediate certificates`
const noTls = (_tls: unknown, _error: unknown, url: string) =>
  `it does not speak TLS there: ${url.startsWith('https:') ? 'use http://, or its port for https' : 'connect without TLS, or to its port for TLS'}`

const VERIFICATION: Record<string, (tls: DialOptions['tls'], error: unknown, url: string) => string> = {
  CERT_HAS_EXPIRED: () => 'the certificate of the receiver, or of its authority, has expired; renew it at the receiver',
  CERT_NOT_YET_VALID: () => "the receiver's certificate is not valid yet; is the clock right?",
  DEPTH_ZERO_SELF_SIGNED_CERT: () =>
    "the receiver's certificate is self-signed; name a file that holds it in tls.ca_file",
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  ERR_TLS_CERT_ALTNAME_INVALID: (_, error) =>
    `the receiver's certificate is for another name; set tls.server_name to a name that it contains. ${String((error as { reason?: unknown }).reason ?? '')}`.trim(),
  ERR_SSL_WRONG_VERSION_NUMBER: noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: noTls,
}

function alertWords(alert: string, { cert_file }: DialOptions['tls']): string {
  if (alert === 'PROTOCOL_VERSION') return 'the receiver and this Node.js have no version of TLS in common'
  if (alert === 'UNRECOGNIZED_NAME') return 'the receiver has no certificate for this name; see tls.server_name'
  if (cert_file === undefined) {
    if (/CERTIFICATE|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED/.test(alert))
      return 'the receiver wants a client certificate; set tls.cert_file and tls.key_file'
    return `the receiver refused the TLS connection: ${lower(alert)}`
  }
  const ours = `the client certificate in tls.cert_file (${cert_file})`
  if (alert === 'CERTIFICATE_EXPIRED') return `the receiver refused ${ours}: it has expired; renew it`
  if (alert === 'CERTIFICATE_REVOKED') return `the receiver refused ${ours}: it was revoked; get another one`
  if (alert === 'UNKNOWN_CA') return `the receiver does not know the authority of ${ours}`
  return `the receiver refused ${ours}: ${lower(alert)}`
}

function lower(alert: string): string {
  return alert.toLowerCase().replaceAll('_', ' ')
}
