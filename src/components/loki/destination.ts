import { fieldsIn } from '../../core/event/event-fields.js'
import { defineHttpDestination } from '../../net/http/client/destination.js'
import { withoutSlash } from '../../net/http/client/options.js'
import { lokiOptions, PUSH_PATH, TENANT } from './options.js'
import { PushRequest } from './push-request.js'
import { readLokiRefusal } from './refusal.js'

/** Limits how many streams wait for more events, because all are checked whenever a request begins or ends. */
const MOST_OPEN = 1000

export const loki = defineHttpDestination({
  type: 'loki',
  summary: 'Sends events to Grafana Loki.',
  notes:
    'Each request has the events of one stream. If a request had several streams, Loki would answer 204 even if it rejected events of a stream other than the last. Streams with few events make small requests; a longer `batch.max_wait` makes them larger. At most 1,000 streams wait for more events.\n\nSluice does not change the time of an event, but adds missing digits up to nanoseconds, derived from the place where it read the event. So Loki keeps equal lines of one millisecond, and an event that is sent or read again has the same time: log queries show it once. Metric queries, such as `count_over_time`, can count it twice. This does not apply to events without a time, which get the time when they were read.\n\nLoki does not list all events that it rejects. Sluice finds them: by the oldest time or the longest line that the response names, otherwise by sending smaller requests. They go to the dead-letter queue with the message of Loki and a reason: `too_far_behind` (behind the newest event of the stream by more than half of `max_chunk_age`; by default, half is an hour), `too_old`, `too_new`, `no_time` (before 1678, or after 2261), `too_long`, `labels`, `tenant`, `metadata`, or `status_400`. Sluice sends the other events of the request again; Loki stores them once.\n\nIf Loki limits a rate or the number of streams (429), the stream waits and the others continue. If `max_in_flight` is a number, each waiting stream uses one of these requests; when all are in use, the other streams wait, too. If a single request is larger than the limit per second, Sluice divides it. The reasons are `per_stream_rate_limit`, `max_global_streams_per_user` and `ingestion_rate_mb`, which are limits of Loki; `sluice status` shows what to do.',
  promises: {
    guarantee: 'An event is delivered when the response is 204.',
    order: 'Events of a stream keep their order. Loki sorts by the time of events.',
    duplicates: 'Events with equal time and line: log queries show one, metric queries can count all.',
    limits: 'One stream per request, at most `max_streams`. Loki limits rates, line length and age.',
    tested: 'Loki 3.7.8. With VictoriaLogs 1.51.1, tests only show that events arrive.',
    advice:
      'Events without the field in `timestamp` get the time when Sluice read them. In a disk buffer and in the dead-letter queue, they keep this time. If Sluice reads the event again, for example after a kill, it has a new time, and Loki stores it twice.\n\nAfter a kill or a lost answer, Loki can reject a repeated event as `too_far_behind`, although it has stored the event. Search Loki for the lines in `data_dir/dead-letter/ID.ndjson`. If Loki has all of them, move the file to another folder; the daemon may keep running. If events are missing, `sluice resend` does not help while the stream has much newer events.',
  },
  options: lokiOptions,
  examples: [
    {
      title: 'A stream for each app and level',
      yaml: 'url: http://127.0.0.1:3100\nlabels: { job: sluice, app: "${.app:-none}", level: "${.level}" }\n',
    },
    {
      title: 'A tenant for each team, with the trace beside the line',
      yaml: 'url: https://loki.example.com\nauth: { type: basic, username: shop, password_file: /etc/sluice/loki-password }\ntenant: "team-${.team:-shared}"\nlabels: { app: "${.app:-none}", host: "${.host}" }\nstructured_metadata: { trace_id: "${.trace_id}" }\nencoding: json\n',
    },
  ],
  addresses: { tenant: 'plain' },
  usesIds: () => true,
  copiesLines: ({ encoding }) => encoding === 'raw',
  usesFields: ({ labels, structured_metadata, tenant, timestamp }) =>
    fieldsIn({ labels, structured_metadata, tenant, timestamp }),
  format(options, context) {
    const push = new PushRequest(options, context)
    const { tenant } = options
    const isProtobuf = options.compression === 'snappy'
    return {
      url: withoutSlash(options.url) + PUSH_PATH,
      contentType: isProtobuf ? 'application/x-protobuf' : 'application/json',
      gzipLevel: 1,
      // To an empty request, Loki 2 responds with 204, and Loki 3 with "at least one valid stream is required".
      emptyRequest: { body: isProtobuf ? '\0' : '{"streams":[]}', status: 422, says: /at least one valid stream/ },
      ...(tenant && { headers: { [TENANT]: tenant } }),
      // For a request with several streams, Loki reports only the rejected events of the last stream.
      partOf: (batch, i) => push.labelsOf(batch, i),
      isOnePart: push.isOneStream,
      mostPartitions: Math.min(options.max_streams + 1, MOST_OPEN),
      takenStatus: 204,
      encode: request => push.encode(request),
      ...(isProtobuf && {
        json: request => new PushRequest({ ...options, compression: 'none' }, context).encode(request),
      }),
      refusal: (status, text, request) => readLokiRefusal(status, text, push, request),
    }
  },
})
