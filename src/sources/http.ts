import { defineSource } from '../core/component.js'
import { keyFileWarnings } from '../http/auth/auth-options.js'
import { listenWarnings, options } from './http/options.js'

export const http = defineSource({
  type: 'http',
  summary: 'Receives events over HTTP, and responds when they are safe.',
  notes:
    'POST or PUT to `path` with one of these: `content-type: application/x-ndjson`, a JSON object on each line (other lines are kept as text and counted, empty ones are skipped); `application/json`, an array of objects, or objects with white space between; `text/plain`, lines decoded as set by `decode`. `content-encoding: gzip` is supported. HEAD returns 200 if the key is valid.\n\n202, with `{"received": N}`, means that every event was delivered, or permanently rejected by its destination and accounted for, or is safe in a disk buffer. 503, with `retry-after`, means that they were not, or that too many events are waiting: send the request again. Also resend a request whose response was lost; its events may then be delivered twice. Other responses: 400 the body is malformed (the message names the line) or comes in chunks of less than 16 bytes on average, 401 the key, 403 a web page, 404 the path, 405 the method, 408 too slow, 413 too large, 415 the type or the encoding, 417 an unknown expectation, 501 a transfer coding beside chunked. Each is counted, and logged with the address of the sender at most once a minute per reason. No event of such a request was accepted.\n\n`auth` with `type: token` needs exactly one of `key`, `key_file` and `credential`. `max_body_bytes` must not be more than `max_unsettled_bytes`, `headers_timeout` not more than `request_timeout`. Events of lines of text have `.peer`, the address of the sender.',
  options,
  examples: [
    {
      title: 'With a key, over TLS',
      yaml: 'listen: 0.0.0.0:8443\npath: /ingest\nauth: { key_file: /etc/sluice/ingest-key }\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem }\n',
    },
    { title: 'For programs on this machine', yaml: 'listen: 127.0.0.1:8686\n' },
  ],
  warnings: options => [...listenWarnings(options), ...keyFileWarnings(options.auth)],
  create: async (options, context) => new (await import('./http/http-source.js')).HttpSource(options, context),
})
