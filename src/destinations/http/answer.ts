import type { Dispatcher } from 'undici'
import { DeliveryError, errorCode, errorText, type Failure } from '../../core/errors.js'

/** What answers and broken connections mean for the events of a request. */

const TEXT_BYTES = 4096
const TEXT_CHARACTERS = 300
/** More than this is not read to keep a connection. */
const DRAIN_BYTES = 128 * 1024

const RETRIED = new Set([408, 425, 429])

export function failureOf(status: number): Failure {
  if (status === 401 || status === 403 || (status >= 300 && status < 400)) return 'hold'
  if (status === 413) return 'too_large'
  return status >= 500 || RETRIED.has(status) ? 'retry' : 'reject'
}

/** Reads the rest of an answer that says enough by its status, so that its connection can be used again. */
export async function drain(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: DRAIN_BYTES }).catch(() => {})
  await connectionFreed()
}

/** undici takes a connection back a turn of the event loop after its answer; a request before that opens another. */
export function connectionFreed(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** The beginning of the body, as one line. */
export async function bodyText(body: Dispatcher.ResponseData['body']): Promise<string> {
  body.on('error', () => {})
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= TEXT_BYTES) break
    }
  } catch {}
  await connectionFreed()
  return oneLine(Buffer.concat(chunks))
}

/** The beginning of a text that came from elsewhere, on one line. */
export function oneLine(bytes: Buffer): string {
  return bytes
    .toString('utf8', 0, TEXT_BYTES)
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
}

export function cutText(text: string): string {
  return text.length > TEXT_CHARACTERS ? `${text.slice(0, TEXT_CHARACTERS)}...` : text
}

/** Milliseconds that a Retry-After header asks for: seconds, or a date. */
export function retryAfterMs(header: string | undefined, wall: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\s*\d+\s*$/.test(header)) return Number(header) * 1000
  const date = /[A-Za-z]{3}/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - wall)
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'connect_timeout',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
}

const WORDS: Record<string, string> = {
  refused: 'nothing accepts connections there',
  reset: 'the connection was closed before the answer',
  dns: 'its name cannot be resolved',
  connect_timeout: 'no connection in time',
  unreachable: 'there is no way to it',
}

/** No connection may be made to what a name resolves to. */
export class DeniedAddress extends Error {
  constructor(name: string, address: string, kind: string) {
    const leads = name === address ? name : `${name} resolves to ${address}, which`
    super(`${leads} is ${kind} and must not be connected to; the operator can allow it`)
  }
}

/** An attempt that got no answer. */
export function networkError(error: unknown, place: string): DeliveryError {
  if (error instanceof DeniedAddress)
    return new DeliveryError(`${place}: ${error.message}`, { failure: 'hold', reason: 'address_denied', cause: error })
  const code = errorCode(error) ?? ''
  const unexpected = error instanceof Error && /^bad (response|upgrade)$/.test(error.message)
  const tls = /^(ERR_TLS|ERR_SSL|EPROTO)|CERT|UNABLE_TO_|SELF_SIGNED/.test(code)
  const reason =
    (unexpected ? 'protocol' : REASONS[code]) ?? (tls ? 'tls' : code.startsWith('HPE_') ? 'protocol' : 'network')
  const why = WORDS[reason] ?? (tls ? opensslReason(error) : undefined) ?? errorText(error)
  const message = `${place}: ${why}${code ? ` (${code})` : ''}${tls ? '; see tls.ca_file and tls.server_name' : ''}`
  return new DeliveryError(message, { failure: 'retry', reason, cause: error })
}

/** What OpenSSL means, without where in its code it says so. */
function opensslReason(error: unknown): string | undefined {
  const { reason } = error as { readonly reason?: unknown }
  return typeof reason === 'string' && reason !== '' ? reason : undefined
}
