import { defineSource } from '../../core/component.js'
import { keyFileWarnings } from '../../net/key.js'
import { exposureWarnings, otlpSourceOptions } from './source-options.js'

export const otlpSource = defineSource({
  type: 'otlp',
  summary: 'Receives logs of OpenTelemetry, over HTTP and gRPC, and responds when they are safe.',
  notes:
    'Each log record becomes an event. Over HTTP, requests are in protobuf or JSON. They may be compressed with gzip, or with zstd if Node.js supports it (22.15); otherwise the answer is 415 or UNIMPLEMENTED.\n\n| part of the record | field |\n|---|---|\n| body | `.message`, with its type |\n| time, observed time | `.timestamp` (the observed time, if there is no other), `.observed_timestamp` |\n| severity | `.severity` (the text), `.severity_number` |\n| trace and span | `.trace_id`, `.span_id`, `.flags` |\n| event name | `.event_name` |\n| attributes | fields with their names: `."http.route"`. If another part of this table has that name, they are in `.attributes`. |\n| dropped attributes | `.dropped_attributes_count` |\n| resource | `.resource`, as nested objects: `.resource.service.name` |\n| scope | `.scope.name`, `.scope.version`, `.scope.attributes` |\n| address of the sender | `.peer` |\n\nThe destination `otlp` with `resource: .resource` makes the same records of these events, with these differences: bytes become text in base64; NaN and infinity become empty; a record without a time has the observed time; objects in resources become attributes with dots; values of more than 24 levels become text; schema URLs, and counts of dropped attributes of resources and scopes, are not kept.\n\nThe response 200, or OK, means that each event was delivered, was discarded and counted, or is safe on disk. A record that is not valid or too large is refused: the response counts it as rejected, with the reason, and the others are accepted. A client must not send such a request again. While there is no room, the response is 429 with `Retry-After`, or RESOURCE_EXHAUSTED with `RetryInfo`; events that could not be delivered get 503 or UNAVAILABLE. Clients then send the request again. A client that stops waiting also sends it again, so its events may be delivered twice. Metrics, traces and profiles are refused with 404 or UNIMPLEMENTED, which is logged once.\n\n`max_bytes` must not exceed `max_unsettled_bytes`. `auth` requires exactly one of `key`, `key_file` and `credential`.',
  promises: {
    guarantee: 'A success means that events were delivered, discarded and counted, or are on disk.',
    order: 'Events of a request keep their order.',
    duplicates: 'A client that sends again after a lost or late answer repeats events.',
    limits: '`max_bytes` (64 MiB; JSON: 16 MiB) for a request; `max_line_bytes` (1 MiB) for a record.',
    tested: 'The gRPC client `@grpc/grpc-js`, messages of protobufjs; relayed to OpenTelemetry Collector 0.128.0.',
  },
  options: otlpSourceOptions,
  examples: [
    {
      title: 'For programs on this machine',
      yaml: 'http: { listen: 127.0.0.1:4318 }\ngrpc: { listen: 127.0.0.1:4317 }\n',
    },
    {
      title: 'With a key, over TLS',
      yaml: 'grpc: { listen: 0.0.0.0:4317 }\nauth: { key_file: /etc/sluice/otlp-key }\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem }\n',
    },
  ],
  checks: async () => ({ warnings: options => [...exposureWarnings(options), ...keyFileWarnings(options.auth)] }),
  create: async (options, context) => new (await import('./otlp-source.js')).OtlpSource(options, context),
})
