import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Codec } from '../../../core/codec.js'
import { errorText } from '../../../core/errors.js'
import { type AccessKey, type AuthOptions, credentialsOf, schemeOf } from '../../key.js'
import type { BodyEncoding } from '../server/body.js'
import { Refusal, tooLarge } from '../server/refusal.js'

/** The format of a body: JSON lines, JSON, or lines of text. */
export type BodyFormat = 'lines' | 'json' | 'text'

const CONTENTS: Record<string, BodyFormat> = {
  'application/x-ndjson': 'lines',
  'application/ndjson': 'lines',
  'application/jsonl': 'lines',
  'application/x-jsonlines': 'lines',
  'application/json': 'json',
  'text/plain': 'text',
}

export const mediaType = (header = '') => header.split(';')[0]!.trim().toLowerCase()

/** Checks the headers; throws a Refusal. Lines of text may also have the media type of `decode`. */
export function checkEventHeaders(
  request: IncomingMessage,
  maxBytes: number,
  decode?: Codec,
): { content: BodyFormat; encoding: BodyEncoding | undefined } {
  const { headers } = request
  checkTransport(request)
  const type = mediaType(headers['content-type'])
  const own = mediaType(decode?.definition.contentType)
  const isOwn = type !== '' && (type === own || decode?.definition.mediaTypes?.includes(type) === true)
  const content = Object.hasOwn(CONTENTS, type) ? CONTENTS[type] : isOwn ? 'text' : undefined
  if (!content) {
    const isListed = own === '' || Object.hasOwn(CONTENTS, own)
    const others = ['application/json (an array of objects, or objects)', 'text/plain', ...(isListed ? [] : [own])]
    throw new Refusal(
      415,
      'unsupported_content',
      `content-type must be application/x-ndjson, ${others.slice(0, -1).join(', ')} or ${others.at(-1)}`,
      { accept: ['application/x-ndjson, application/json, text/plain', ...(isListed ? [] : [own])].join(', ') },
    )
  }
  const encoding = encodingOf(headers)
  checkSize(headers, maxBytes)
  return { content, encoding }
}

/** Checks the headers that concern the transport of the body; throws a Refusal. */
export function checkTransport({ headers, httpVersion }: IncomingMessage): void {
  // HTTP 1.0 does not require the header.
  if (headers.host === undefined && httpVersion === '1.1')
    throw new Refusal(400, 'no_host', 'the request has no header "host"', {}, true)
  if (headers.expect !== undefined && !/^100-continue$/i.test(headers.expect))
    throw new Refusal(417, 'unsupported_expectation', 'expect must be 100-continue')
  if (!/^chunked$/i.test(headers['transfer-encoding'] ?? 'chunked'))
    throw new Refusal(501, 'unsupported_transfer_encoding', 'transfer-encoding must be chunked', {}, true)
}

export function checkSize(headers: IncomingHttpHeaders, maxBytes: number): void {
  if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/** How the body of a request is compressed. Throws a Refusal if it is none of `allowed`. */
export function encodingOf(
  headers: IncomingHttpHeaders,
  allowed: readonly BodyEncoding[] = ['gzip'],
): BodyEncoding | undefined {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding === 'identity' || encoding === '') return undefined
  const found = allowed.find(one => one === encoding || `x-${one}` === encoding)
  if (found) return found
  const text = `content-encoding must be ${allowed.join(', ')} or none`
  throw new Refusal(415, 'unsupported_encoding', text, { 'accept-encoding': allowed.join(', ') })
}

/** Throws a Refusal unless the request is authorized. */
export async function checkAccess(
  headers: IncomingHttpHeaders,
  auth: AuthOptions,
  key: AccessKey | undefined,
): Promise<void> {
  // Only browsers send this header. Without this check, any web page could send events to a daemon on the machine of
  // its visitor.
  if (headers.origin !== undefined) throw new Refusal(403, 'web_page', 'requests from web pages are not accepted')
  if (!key) return
  const wanted = await key.current().catch(error => {
    throw new Refusal(503, 'no_key', errorText(error), { 'retry-after': '30' })
  })
  const given = headers[auth.header.toLowerCase()]
  const scheme = schemeOf(auth)
  if (typeof given === 'string' && isSame(withoutScheme(given, scheme), credentialsOf(auth, wanted))) return
  throw new Refusal(401, 'unauthorized', `send the access key as "${auth.header}: ${scheme} ..."`, {
    'www-authenticate': scheme || 'Token',
  })
}

function withoutScheme(given: string, scheme: string): string {
  if (scheme === '') return given
  const prefix = `${scheme.toLowerCase()} `
  return given.toLowerCase().startsWith(prefix) ? given.slice(prefix.length).trimStart() : ''
}

/** Compares in a time that does not depend on the wanted key. */
function isSame(given: string, wanted: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text, 'latin1').digest()
  return timingSafeEqual(hash(given), hash(wanted))
}
