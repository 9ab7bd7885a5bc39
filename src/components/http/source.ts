import { dividedWarnings } from '../../core/codecs/options.js'
import { defineSource } from '../../core/component.js'
import { keyFileWarnings } from '../../net/key.js'
import { httpOptions, listenWarnings } from './options.js'

export const httpSource = defineSource({
  type: 'http',
  summary: 'Receives events over HTTP, and responds when they are safe.',
  notes:
    'Clients send events to `path` with POST or PUT and one of these content types:\n\n- `application/x-ndjson`: a JSON object on each line. Other lines are kept as text and counted; empty lines are skipped.\n- `application/json`: an array of objects, or objects separated by white space.\n- `text/plain`: lines that are decoded as set by `decode`.\n\n`content-encoding: gzip` is supported. HEAD returns 200 if the key is valid.\n\nThe response 202, with `{"received": N}`, means that each event was delivered, was discarded and counted, or is safe on disk. 503, with `retry-after`, means that events were not delivered, or that too many events are waiting: send the request again. Also send a request again if its response was lost; its events may then be delivered twice. Other responses:\n\n- 400: the body is malformed (the message names the line), or consists of chunks of less than 16 bytes on average.\n- 401: the key is missing or wrong.\n- 403: a web page sent the request.\n- 404: the path is wrong.\n- 405: the method is not supported.\n- 408: the request takes too long.\n- 413: the body is too large.\n- 415: the content type or the encoding is not supported.\n- 417: the header `Expect` is not supported.\n- 501: the transfer encoding is not chunked.\n\nThe source counts each of these responses, and logs the address of the sender at most once a minute per reason. It does not accept any event of these requests.\n\n`auth` requires exactly one of `key`, `key_file` and `credential`; `type: basic` requires `username`, and one of `password`, `password_file` and `credential`. `max_body_bytes` must not exceed `max_unsettled_bytes`, and `headers_timeout` must not exceed `request_timeout`. Events from lines of text have the address of the sender in `.peer`.',
  promises: {
    guarantee: '202 means that events were delivered, were discarded and counted, or are on disk.',
    order: 'Events of a request keep their order.',
    duplicates: 'A client that sends again after a lost answer repeats events.',
    limits: '`max_body_bytes` (10 MiB) for a body; `max_unsettled_bytes` (32 MiB) for unanswered requests.',
    tested: "Sluice's own `http` destination.",
  },
  options: httpOptions,
  examples: [
    {
      title: 'With a key, over TLS',
      yaml: 'listen: 0.0.0.0:8443\npath: /ingest\nauth: { key_file: /etc/sluice/ingest-key }\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem }\n',
    },
    { title: 'For programs on this machine', yaml: 'listen: 127.0.0.1:8686\n' },
  ],
  checks: async () => ({
    warnings: options => [...listenWarnings(options), ...keyFileWarnings(options.auth), ...dividedWarnings(options)],
  }),
  create: async (options, context) => new (await import('./http-source.js')).HttpSource(options, context),
})
