import { fieldsIn } from '../../core/event/event-fields.js'
import { defineHttpDestination } from '../../net/http/client/destination.js'
import { withoutSlash } from '../../net/http/client/options.js'
import { errorWords, readRefusal, readSuccess } from './answer.js'
import { ExportRequest } from './export-request.js'
import { FIELDS, LOGS_PATH, otlpOptions } from './options.js'

const GRPC_PORT = /^https?:\/\/[^/]*:4317(?:\/|$)/i
const DEFAULT_FIELDS = new Set(['.app', '.host', '.logger', '.timestamp', ...Object.values(FIELDS).flat()])

const ADDRESSES = `Receivers and their options. The first three are tested; the others follow their documentation.

| receiver | \`url\` | \`auth\` and \`headers\` |
|---|---|---|
| OpenTelemetry Collector | \`http://127.0.0.1:4318\` | |
| Grafana Loki (better: destination \`loki\`) | \`http://127.0.0.1:3100/otlp\` | |
| VictoriaLogs | \`http://127.0.0.1:9428/insert/opentelemetry\` | |
| Grafana Cloud | \`https://otlp-gateway-ZONE.grafana.net/otlp\` | \`type: basic\`, with the instance and a token |
| Honeycomb | \`https://api.honeycomb.io\` | \`{ type: token, scheme: "", header: x-honeycomb-team }\` |
| New Relic | \`https://otlp.nr-data.net\` | \`{ type: token, scheme: "", header: api-key }\` |
| SigNoz Cloud | \`https://ingest.REGION.signoz.cloud\` | \`{ type: token, scheme: "", header: signoz-ingestion-key }\` |
| Dynatrace | \`https://ENVIRONMENT.live.dynatrace.com/api/v2/otlp\` | \`{ type: token, scheme: Api-Token }\` |
| Amazon CloudWatch | \`https://logs.REGION.amazonaws.com\` | \`type: bearer\`; \`x-aws-log-group\` and \`x-aws-log-stream\` |`

export const otlp = defineHttpDestination({
  type: 'otlp',
  summary: 'Sends events as logs of OpenTelemetry, over HTTP.',
  notes:
    'Each event is a log record. The options `body`, `severity`, `trace_id`, `span_id` and `timestamp` name the fields that become these parts of the record. All other fields become attributes with their names and types. A severity stays an attribute if it cannot be read or is a number. A request groups events with the same `resource` and `scope`, as the protocol does, so sort records of different resources by their time. Objects that are nested more than 24 levels deep, and numbers beyond 64 bits, become JSON text.\n\nResponses, as the protocol demands: 429, 502, 503 and 504 are retried, after the time in Retry-After if there is one; 401, 403 and redirects pause the destination; after 413 the events are sent again in two smaller requests. All other errors are final: `on_reject` decides about the events, with the reason `status_NNN`.\n\nA receiver can accept a request but reject some of its records, without naming them. Sluice counts the rejected records as discarded with the reason `partial_success`, and the others as delivered. It writes all events of the request to the dead-letter queue, because the rejected events are among them.\n\nWith `resource: .resource`, events of the source `otlp` become the records that they were: the fields in the table of that source are read, and `scope`, `timestamp`, `body`, `severity`, `trace_id` and `span_id` are not used.\n\nSluice sends only OTLP over HTTP. Receivers of OTLP over gRPC (port 4317) usually also accept HTTP, mostly at port 4318.\n\n' +
    ADDRESSES,
  promises: {
    guarantee: 'An event is delivered when the response is 2xx and does not reject the event.',
    order: 'Events with the same `resource` and `scope` keep their order; across requests with `max_in_flight: 1`.',
    duplicates:
      'A repeated event is stored twice. With `record_uid: true`, both records have the same `log.record.uid`.',
    limits:
      '`batch.max_bytes` (1 MB) and `batch.max_events` (1,000) for a request; `max_in_flight` requests at a time.',
    tested: 'OpenTelemetry Collector 0.128.0. Simulated: partial success.',
  },
  options: otlpOptions,
  examples: [
    {
      title: 'To a Collector on this machine',
      yaml: 'url: http://127.0.0.1:4318\n',
    },
    {
      title: 'With other field names, and a key',
      yaml: 'url: https://otlp.example.com\nauth: { type: bearer, key_file: /etc/sluice/otlp-key }\nresource: { service.name: "${.service}", deployment.environment.name: production }\nbody: .text\nseverity: .priority\nrecord_uid: true\n',
    },
  ],
  usesIds: ({ record_uid }) => record_uid,
  checks: async () => ({
    warnings: ({ url }) =>
      GRPC_PORT.test(url)
        ? [{ path: ['url'], message: 'port 4317 is for OTLP over gRPC; OTLP over HTTP mostly uses port 4318' }]
        : [],
  }),
  // The result does not include the default fields, because events need not have these fields.
  usesFields: ({ resource, scope, timestamp, body, severity, trace_id, span_id }) =>
    fieldsIn({ resource, scope, timestamp, body, severity, trace_id, span_id }).filter(
      ({ path }) => !DEFAULT_FIELDS.has(path.text),
    ),
  format(options, context) {
    const request = new ExportRequest(options, context)
    const { contentType } = request.records
    return {
      url: withoutSlash(options.url) + LOGS_PATH,
      contentType,
      gzipLevel: 1,
      headers: { accept: contentType },
      // Loki does not accept a request without events.
      emptyRequest: { body: options.encoding === 'json' ? '{}' : '', status: 422, says: /at least one valid stream/ },
      encode: batches => request.encode(batches),
      ...(options.encoding === 'protobuf' && {
        json: batches => new ExportRequest({ ...options, encoding: 'json' }, context).encode(batches),
      }),
      success: readSuccess,
      words: errorWords,
      refusal: (status, text) => readRefusal(status, text),
    }
  },
})
