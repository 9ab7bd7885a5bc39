import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { errorText } from '../../../core/errors.js'
import { requireWithin } from '../../../lib/formats/json-text.js'
import { parseExact } from '../../../lib/formats/normal-json.js'
import { readBody } from '../../../net/http/server/body.js'
import type { Lease } from '../../../net/http/server/quota.js'
import { Refusal, tooLarge } from '../../../net/http/server/refusal.js'
import { onReplyOver } from '../../../net/http/server/respond.js'
import { AccountQuotas } from '../../ingest/account/account-quota.js'
import { ApiError } from '../domain/errors.js'
import { accountOf } from '../domain/keys/principal.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Memory reserved for the body until the request is answered; undefined if the body is not read. */
    lease: Lease | undefined
  }
  interface FastifyContextConfig {
    /** Maximum number of values in a body, since parsing takes time for each of them. */
    mostValues?: number
  }
}

/** Maximum levels of a document. No legitimate document has more. The limit makes recursion over documents safe. */
const DEEPEST = 64
/** A text in which checkValue may find something: escape sequences may be a part of a name. */
const SUSPECT = /__proto__|\\u00|\d{16}/

/** Maximum bytes of the bodies of all unanswered requests, or LARGEST times `maxBytes` if that is more. */
const MOST_BYTES = 32 * 1024 * 1024
const LARGEST = 8

/**
 * Makes the app of `plugin` parse bodies as JSON of up to `maxBytes`, and reject all others. An empty body counts as
 * missing. The memory of the bodies of unanswered requests is limited, and shared fairly among the accounts.
 */
export function takeJson(plugin: FastifyInstance, maxBytes: number): void {
  const bytes = Math.max(MOST_BYTES, LARGEST * maxBytes)
  const quotas = new AccountQuotas({ requests: Number.POSITIVE_INFINITY, bytes }, 'that are not answered yet')
  plugin.removeAllContentTypeParsers()
  plugin.decorateRequest('lease')
  plugin.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const body = await bodyOf(request, maxBytes)
    return body.length === 0 ? undefined : parseBody(body, request.routeOptions.config.mostValues!)
  })
  plugin.addHook('preParsing', async (request, reply, payload) => {
    const encoding = request.headers['content-encoding']
    if (encoding !== undefined && !/^identity$/i.test(encoding))
      throw new ApiError(415, 'unsupported_encoding', 'send the body without content-encoding')
    const lease = quotas.lease(accountOf(request.principal!))
    onReplyOver(reply.raw, lease.release)
    request.lease = lease
    return payload
  })
}

/** Makes the app of `plugin` leave bodies of any type unread. */
export function leaveBody(plugin: FastifyInstance): void {
  plugin.removeAllContentTypeParsers()
  plugin.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined))
}

async function bodyOf({ raw, lease }: FastifyRequest, maxBytes: number): Promise<Buffer> {
  try {
    if (Number(raw.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
    const { bytes, size } = await readBody(raw, { maxBytes, lease: lease!, onBegin: () => {} })
    return bytes.subarray(0, size)
  } catch (error) {
    if (error instanceof Refusal && error.status === 413) throw new ApiError(413, 'body_too_large', error.message)
    throw error
  }
}

function parseBody(body: Buffer, mostValues: number): unknown {
  if (!isUtf8(body)) throw invalid('is not valid UTF-8')
  try {
    requireWithin(body, mostValues, DEEPEST)
  } catch (error) {
    throw invalid(`is too large: ${errorText(error)}`)
  }
  const text = body.toString()
  let value: unknown
  try {
    value = parseExact(text)
  } catch (error) {
    throw invalid(`is not valid JSON: ${errorText(error)}`)
  }
  if (SUSPECT.test(text)) checkValue(value)
  return value
}

function checkValue(value: unknown): void {
  if (typeof value === 'bigint') throw invalid(`contains ${value}, an integer beyond 2^53; write it in quotes`)
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw invalid('contains the name __proto__, which is not allowed')
  for (const inner of Object.values(value)) checkValue(inner)
}

const invalid = (what: string): ApiError => new ApiError(400, 'invalid_json', `the body ${what}`)
