import { z } from 'zod'
import { encodeAlone } from '../codecs/encode.js'
import { encodingOption } from '../codecs/options.js'
import { reaches } from '../core/options/reach.js'
import type { Entry } from '../http/client/answers/divided.js'
import { defineHttpDestination } from '../http/client/destination.js'
import { checkHeaders, clientOptions } from '../http/client/options.js'

const PLAIN = 'text/plain; charset=utf-8'
const LF = 0x0a

const { url, headers, auth, ...rest } = clientOptions
const options = z
  .strictObject({
    url,
    method: z.enum(['POST', 'PUT']).prefault('POST').describe('The method of the request.'),
    encoding: encodingOption('json'),
    headers,
    auth,
    delegate_account_id: reaches(
      'nothing',
      z.string().regex(/^[0-9a-fA-F]{24}$/, { error: 'must be 24 hexadecimal digits' }),
    )
      .optional()
      .describe('Account to act on behalf of, for enterprise keys; sent as x-delegate-account-id.'),
    ...rest,
  })
  .superRefine((options, context) => {
    const delegates = options.delegate_account_id !== undefined
    checkHeaders(options, context, delegates ? { 'x-delegate-account-id': 'delegate_account_id' } : {})
  })

export const http = defineHttpDestination({
  type: 'http',
  summary: 'Sends events over HTTP, in requests of NDJSON or lines.',
  notes:
    'Answers: 2xx is delivered. 401, 403, 407 (from a proxy) and redirects hold: nothing is dropped, and a replaced key is used within a second. 408, 425, 429, 5xx and network errors are tried again, after Retry-After where it is given. 413 sends the request again in halves. Every other 4xx goes where `on_reject` says, with the reason `status_NNN`, until `hold_after_refusals` of them came in a row. An answer 400 of a web server that wants TLS or another client certificate holds.\n\nA receiver may tell events apart, with an answer in JSON, whose content type is JSON or left out: `{"errors":[{"index":3,"status":400,"message":"..."}]}`, where `index` counts the events of the request from 0, and `status` and `message` may be left out. After a 2xx the events that are not listed are delivered; after a 4xx that is final they are sent again without those listed. A listed event goes where `on_reject` says, or is sent again when its own `status` is one that is held or tried again. This works where every event is one line: always with `encoding: json`.\n\n`auth` with `type: token` needs exactly one of `key`, `key_file` and `credential`. `tls.cert_file` and `tls.key_file` belong together. Each request has an `idempotency-key` that stays the same when it is tried again.',
  options,
  examples: [
    {
      title: 'A service with an access key',
      yaml: 'url: https://logs.example.com/v3/ingest/0123456789ab\nauth: { key_file: /etc/sluice/access-key }\nvalidate: https://logs.example.com/v3/pipeline\ncompression: gzip\n',
    },
    {
      title: 'Another scheme, a systemd credential, and a private certificate authority',
      yaml: 'url: https://10.0.0.5:8443/ingest\nauth: { scheme: Bearer, credential: access-key }\ntls: { ca_file: /etc/sluice/ca.pem, server_name: logs.internal }\nheaders: { X-Team: platform }\n',
    },
    { title: 'Lines as they were read, without a key', yaml: 'url: http://127.0.0.1:8080/lines\nencoding: raw\n' },
  ],
  format: ({ url, method, encoding, delegate_account_id: account }) => ({
    url,
    method,
    contentType: encoding === 'raw' ? PLAIN : (encoding.definition.contentType ?? PLAIN),
    headers: account === undefined ? {} : { 'x-delegate-account-id': account },
    encode: request => encodeAlone(encoding, request),
    answerList: { name: 'errors', entry: entryOf },
    countable(request) {
      const events = request.reduce((sum, { length }) => sum + length, 0)
      if (encoding !== 'raw' && encoding.form === 'object') return events
      // Lines that do not correspond to events are numbered differently.
      const { parts, bytes } = encodeAlone(encoding, request)
      return countLines(Buffer.concat(parts, bytes)) === events ? events : 0
    },
  }),
})

/** Parses `{"index":3,"status":400,"message":"..."}`; status and message are optional. */
function entryOf(value: unknown): Entry | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { index, status, message } = value as { readonly [name: string]: unknown }
  if (!Number.isSafeInteger(index) || (index as number) < 0) return undefined
  const isStatus = Number.isSafeInteger(status) && (status as number) >= 300 && (status as number) < 600
  if (status !== undefined && !isStatus) return undefined
  return {
    index: index as number,
    status: status as number | undefined,
    message: typeof message === 'string' ? message : undefined,
  }
}

function countLines(bytes: Buffer): number {
  let lines = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++
  return bytes.at(-1) === LF ? lines : lines + 1
}
