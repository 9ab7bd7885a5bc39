import { z } from 'zod'
import { NotProtobuf, WireReader } from '../../core/codecs/protobuf/protobuf-wire.js'
import type { Failure } from '../../core/errors.js'
import { parseJsonWithin } from '../../lib/formats/json-text.js'
import { integer, SHORT_VALUES } from '../../net/http/client/answers/read-answer.js'
import type { PartlyRefused, Refused } from '../../net/http/client/request-format.js'

const inJson = z.object({
  partialSuccess: z.object({ rejectedLogRecords: integer.nullish(), errorMessage: z.string().nullish() }).nullish(),
})

/**
 * Reads a protobuf message. Returns the last value of each field that contains an integer or bytes, by field number.
 * Returns undefined if the message is invalid.
 */
function fieldsOf(bytes: Buffer): Map<number, number | Buffer> | undefined {
  const fields = new Map<number, number | Buffer>()
  const reader = WireReader.of(bytes)
  try {
    while (reader.p < reader.end) {
      const tag = reader.varint()
      if ((tag & 7) === 2) fields.set(tag >>> 3, reader.inner().rest())
      else if ((tag & 7) === 0) fields.set(tag >>> 3, (reader.varint() >>> 0) + reader.high * 2 ** 32)
      else reader.skip(tag)
    }
  } catch (error) {
    if (!(error instanceof NotProtobuf)) throw error
    return undefined
  }
  return fields
}

const isJson = (type: string) => /\bjson\b/i.test(type)
const isProtobuf = (type: string) => /\bprotobuf\b/i.test(type)

/** Reads the response to a request that succeeded. Returns undefined if it is not a response of this protocol. */
export function readSuccess(content: Buffer, type: string): PartlyRefused | undefined {
  if (content.length === 0) return { refused: 0, message: '' }
  if (isJson(type)) {
    try {
      const { partialSuccess } = inJson.parse(parseJsonWithin(content, SHORT_VALUES))
      return {
        refused: Math.max(0, partialSuccess?.rejectedLogRecords ?? 0),
        message: partialSuccess?.errorMessage ?? '',
      }
    } catch {
      return undefined
    }
  }
  const partial = isProtobuf(type) ? fieldsOf(content) : undefined
  if (!partial) return undefined
  const inner = partial.get(1)
  const found = inner instanceof Buffer ? fieldsOf(inner) : new Map<number, number | Buffer>()
  const [refused = 0, message = ''] = [found?.get(1), found?.get(2)]
  return found && { refused: Math.max(0, Number(refused)), message: String(message) }
}

/** Returns the text of an error response. In protobuf, the text is one of the fields. */
export function errorWords(content: Buffer, type: string): Buffer {
  // Loki sends protobuf as application/octet-stream.
  const message = isProtobuf(type) || /octet-stream/i.test(type) ? fieldsOf(content)?.get(2) : undefined
  return message instanceof Buffer ? message : content
}

const KNOWN: readonly { readonly says: RegExp; readonly advice: string; readonly failure?: Failure }[] = [
  // If a body is too large, receivers written in Go respond with status 400.
  { says: /request body too large|message too large/i, failure: 'too_large', advice: 'lower batch.max_bytes' },
  { says: /unsupported media type/i, advice: 'the receiver expects another encoding: set "encoding"' },
  {
    says: /memory usage|memory limit/i,
    advice: 'the receiver has too little memory: raise the limit of its memory_limiter',
  },
  {
    says: /sending queue is full|queue is full/i,
    advice: 'the receiver cannot forward events fast enough: see its log',
  },
  {
    says: /page not found/i,
    advice: 'the receiver takes no logs there: it needs a pipeline for logs; or correct "url"',
  },
  { says: /no org id/i, advice: 'the receiver requires a tenant: set the header X-Scope-OrgID in "headers"' },
  { says: /too (old|far behind)/i, advice: 'the events are too old for the receiver' },
]

/** Statuses after which the protocol allows a retry. Every other status is final, even 500. */
const RETRIED = new Set([429, 502, 503, 504])

export function readRefusal(status: number, text: string): Refused | undefined {
  const { advice, failure } = KNOWN.find(({ says }) => says.test(text)) ?? {}
  if (failure) return { failure, advice, reason: failure }
  const isFinal = (status >= 500 || status === 408 || status === 425) && !RETRIED.has(status)
  if (!isFinal) return advice === undefined ? undefined : { advice }
  return { failure: 'reject', advice: advice ?? 'the protocol does not allow a retry after this status' }
}
