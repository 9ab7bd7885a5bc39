import { z } from 'zod'
import { encodeAlone } from '../../core/codecs/encode.js'
import { encodingOption } from '../../core/codecs/options.js'
import { reaches } from '../../core/options/reach.js'
import { eventsIn, integer } from '../../net/http/client/answers/read-answer.js'
import { defineHttpDestination } from '../../net/http/client/destination.js'
import { checkHeaders, clientOptions } from '../../net/http/client/options.js'

const PLAIN = 'text/plain; charset=utf-8'
const LF = 0x0a
/** The service refuses every key until a manager of the account enables a feature. */
const NOT_ENABLED = /^\{"code":"feature_not_enabled"/

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
      .describe('The account for which an enterprise key acts. Sent as x-delegate-account-id.'),
    ...rest,
  })
  .superRefine((options, context) => {
    const delegates = options.delegate_account_id !== undefined
    checkHeaders(options, context, delegates ? { 'x-delegate-account-id': 'delegate_account_id' } : {})
  })

/** An item of `errors` in a response: `{"index":3,"status":400,"message":"..."}`. */
const entry = z
  .object({
    index: integer.catch(-1),
    status: integer.pipe(z.int().min(200).max(599)).optional().catch(undefined),
    message: z.string().optional().catch(undefined),
  })
  .catch({ index: -1 })

export const httpDestination = defineHttpDestination({
  type: 'http',
  summary: 'Sends events over HTTP, in requests of NDJSON or lines.',
  notes:
    'Responses: 2xx means that the events are delivered. 401, 403, 407 (from a proxy) and redirects pause the destination: no event is lost, and a replaced key is used within a second. 408, 425, 429, 5xx and network errors are retried, after the time in Retry-After if there is one. After 413 the events are sent again in two smaller requests. After any other 4xx the events are handled as set by `on_reject`, with the reason `status_NNN`; after `hold_after_refusals` of these in a row the destination pauses. The destination also pauses after a 400 from a web server that expects TLS or another client certificate.\n\nA receiver can reject individual events with a JSON response, whose content type is JSON or absent: `{"errors":[{"index":3,"status":400,"message":"..."}]}`. `index` is the position of the event in the request, from 0; `status` and `message` are optional. After a 2xx, the events that are not listed are delivered. After a 4xx that is not retried, the other events are sent again without the listed events. The option `on_reject` sets what happens to a listed event. A listed event is retried if its own `status` would retry a request or pause the destination. If a 2xx lists an error without a valid `index`, each event that is not listed is handled as set by `on_reject`, too, with the reason `unknown_result`, because it may be the rejected one. If a list cannot be read, or the JSON is compressed, the events are sent again in smaller requests. An event for which this happens alone is rejected (`answer_too_large`), after a 2xx only at the fifth time. Every event must be one line, as it always is with `encoding: json`.\n\n`auth` requires exactly one of `key`, `key_file`, `credential` and `exec`; `type: basic` requires `username`, and one of `password`, `password_file`, `credential` and `exec`. `tls.cert_file` and `tls.key_file` must be set together. Each request has an `idempotency-key` header, which stays the same when the request is retried.\n\nIf `url` or `headers` contain values of fields, the events with the same URL and headers form a partition, and each request has the events of one partition. Values are encoded as the URL or the header requires. An event is rejected with the reason `partition` if a value is missing, empty or longer than 256 bytes, or if it would make `.` or `..` a part of the path. A partition has one request at a time, so its events keep their order. At most 100 partitions wait for more events; the least recently used one is sent early to make room for another.',
  promises: {
    guarantee: 'An event is delivered when the response is 2xx and does not reject the event.',
    order:
      'Events keep their order with `max_in_flight: 1`. Otherwise, retried requests can come after later requests.',
    duplicates: 'A retried request has the same `idempotency-key`; after a kill, the keys differ.',
    limits:
      '`batch.max_bytes` (1 MB) and `batch.max_events` (1,000) for a request; `max_in_flight` requests at a time.',
    tested: "Sluice's own service, and a simulated receiver.",
  },
  options,
  examples: [
    {
      title: 'A service with an access key',
      yaml: 'url: https://logs.example.com/v3/ingest/0123456789ab\nauth: { key_file: /etc/sluice/access-key }\nvalidate: https://logs.example.com/v3/pipeline\ncompression: gzip\n',
    },
    {
      title: 'A bearer token from a systemd credential, and a private certificate authority',
      yaml: 'url: https://10.0.0.5:8443/ingest\nauth: { type: bearer, credential: access-key }\ntls: { ca_file: /etc/sluice/ca.pem, server_name: logs.internal }\nheaders: { X-Team: platform }\n',
    },
    { title: 'Lines as they were read, without a key', yaml: 'url: http://127.0.0.1:8080/lines\nencoding: raw\n' },
    {
      title: 'One path for each app, and a tenant in a header',
      yaml: 'url: https://logs.example.com/app/${.app:-none}\nheaders: { X-Scope-OrgID: "${.tenant:-shared}" }\n',
    },
  ],
  copiesLines: ({ encoding }) => encoding === 'raw',
  format: ({ url, method, encoding, delegate_account_id: account }) => ({
    url,
    method,
    contentType: encoding === 'raw' ? PLAIN : (encoding.definition.contentType ?? PLAIN),
    headers: account === undefined ? {} : { 'x-delegate-account-id': account },
    encode: request => encodeAlone(encoding, request),
    // The text of the service says what to do; another access key would not help.
    refusal: (status, text) => (status === 403 && NOT_ENABLED.test(text) ? { advice: '' } : undefined),
    answerList: { name: 'errors', entry: value => entry.parse(value) },
    countable(request) {
      const events = eventsIn(request)
      if (encoding !== 'raw' && encoding.form === 'object') return events
      // If an event is not exactly one line, the indices in the response do not refer to events.
      const { parts, bytes } = encodeAlone(encoding, request)
      return countLines(Buffer.concat(parts, bytes)) === events ? events : 0
    },
  }),
})

function countLines(bytes: Buffer): number {
  let lines = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++
  return bytes.at(-1) === LF ? lines : lines + 1
}
