import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { errorCode } from '../../../core/errors.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { plainAddress } from '../../../lib/network/network-address.js'
import type { Clock } from '../../../lib/time.js'
import { opensslText, tlsAlertOf } from '../../tls/tls-alert.js'

export interface Labelled {
  readonly labels: { readonly reason: string }
  readonly value: number
}

export const REFUSED_TOTAL = {
  name: 'sluice_tls_refused_connections_total',
  help: 'Connections that failed in the TLS handshake, by reason.',
} as const
export const REFUSED_AGE = {
  name: 'sluice_tls_last_refusal_age_seconds',
  help: 'Time since a connection was last refused in the TLS handshake, by reason.',
} as const

/** Counts failed TLS handshakes by reason, and logs them at a limited rate. */
export class TlsRefusals {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #limit: LogLimit
  readonly #refused = new Map<string, { value: number; at: number }>()

  constructor(log: Logger, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#limit = new LogLimit(clock)
  }

  /** Must be called with the arguments of `tlsClientError`. Returns the reason. */
  add(error: Error, socket: Socket): string {
    const reason = reasonOf(error, socket)
    const { value } = this.#refused.get(reason) ?? { value: 0 }
    this.#refused.set(reason, { value: value + 1, at: this.#clock.now() })
    const fields = { peer: peerOf(socket) ?? peerBefore(socket), reason, error: opensslText(error) }
    // Port scans and health checks do this all the time.
    if (reason === 'closed') this.#log.debug(fields, 'a connection was closed during the TLS handshake')
    else {
      const connections = this.#limit.count(reason)
      const why = { why: WORDS[reason], connections }
      if (connections > 0) this.#log.warn({ code: 'SLUICE_TLS_REFUSED', ...fields, ...why }, 'refused a TLS connection')
    }
    return reason
  }

  totals(): Labelled[] {
    return [...this.#refused].map(([reason, { value }]) => ({ labels: { reason }, value }))
  }

  ages(): Labelled[] {
    const now = this.#clock.now()
    return [...this.#refused].map(([reason, { at }]) => ({ labels: { reason }, value: (now - at) / 1000 }))
  }
}

const WORDS: Record<string, string> = {
  plain_http: 'the client speaks http; its address has to begin with https://',
  not_tls: 'the client does not speak TLS',
  no_certificate: 'the client sent no certificate, and tls.client_ca_file asks for one',
  expired_certificate: "the client's certificate has expired",
  unknown_authority: "the client's certificate is not from an authority in tls.client_ca_file",
  bad_certificate: "the client's certificate cannot be used",
  refused_by_client: 'the client does not accept the certificate in tls.cert_file',
  version: 'the client and the server have no TLS version or cipher in common',
  timeout: 'the client did not finish the handshake in time',
}

const CODES: Record<string, string> = {
  ERR_SSL_HTTP_REQUEST: 'plain_http',
  ERR_SSL_HTTPS_PROXY_REQUEST: 'plain_http',
  ERR_SSL_WRONG_VERSION_NUMBER: 'not_tls',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'not_tls',
  ERR_SSL_BAD_RECORD_TYPE: 'not_tls',
  ERR_SSL_UNEXPECTED_MESSAGE: 'not_tls',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'no_certificate',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'version',
  ERR_SSL_VERSION_TOO_LOW: 'version',
  ERR_SSL_NO_SHARED_CIPHER: 'version',
  ERR_SSL_NO_SHARED_GROUP: 'version',
  ERR_TLS_HANDSHAKE_TIMEOUT: 'timeout',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
}

function reasonOf(error: Error, socket: Socket): string {
  // Node.js verifies the certificate after the handshake and reports the reason only here.
  const { authorizationError } = socket as { readonly authorizationError?: unknown }
  if (authorizationError) return ofVerification(String(authorizationError))
  const code = errorCode(error) ?? ''
  const alert = tlsAlertOf(code)
  if (alert === 'PROTOCOL_VERSION') return 'version'
  if (alert !== undefined) return 'refused_by_client'
  return CODES[code] ?? 'other'
}

function ofVerification(code: string): string {
  if (code === 'UNSPECIFIED') return 'no_certificate'
  if (code === 'CERT_HAS_EXPIRED') return 'expired_certificate'
  if (/ISSUER|SELF_SIGNED|VERIFY_LEAF|UNTRUSTED/.test(code)) return 'unknown_authority'
  return 'bad_certificate'
}

/** The peer of a TLS connection that Node.js has closed: the underlying socket has the address if it was read once. */
function peerBefore(socket: Socket): string | undefined {
  const { _parent: beneath } = socket as { readonly _parent?: Socket }
  return beneath && peerOf(beneath)
}

function peerOf(socket: Socket): string | undefined {
  return socket.remoteAddress && plainAddress(socket.remoteAddress)
}
