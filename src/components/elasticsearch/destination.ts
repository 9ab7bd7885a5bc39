import { dated, isDated } from '../../core/dated.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { isConstant } from '../../core/template.js'
import { defineHttpDestination } from '../../net/http/client/destination.js'
import { withoutSlash } from '../../net/http/client/options.js'
import { isCreated, readBulkRefusal, readItem } from './bulk-answer.js'
import { BulkRequest } from './bulk-request.js'
import { inspect } from './inspect.js'
import { BULK_PATH, elasticsearchOptions } from './options.js'

/**
 * Asks only for these members of the response. For each event, all other members together are as long as a short event.
 */
const QUERY = '?filter_path=errors,items.*.status,items.*.error,items.*.failure_store'

export const elasticsearch = defineHttpDestination({
  type: 'elasticsearch',
  summary: 'Sends events to Elasticsearch or OpenSearch.',
  notes:
    'Events are sent in bulk requests. Each event becomes a document with an `_id` that stays the same when the event is sent or read again. So an event is stored once, also after a kill. A data stream cannot see the documents of its earlier indices: an event can be stored twice if the data stream rolls over between the two attempts. Binary records, events of `aggregate`, and events from stdin, tcp and http sources keep their id after a kill only if they wait in a disk buffer.\n\nThe response has a status for each event. Rejected events go to the dead-letter queue with the message of the server and a reason: `mapping`, `field_name`, `no_write_index`, `too_many_fields`, `too_long`, `pipeline`, `data_stream`, `index_name`, `no_index`, `index_closed`, `too_many_shards`, or `status_NNN`. After 429 or 5xx, for example from a full queue, an event is sent again; after 403, the destination pauses. If the name of the index comes from fields, and the receiver refuses or blocks one index, only its events wait. If the name of the index comes from fields of the event, and the key may not write to this index, the event is rejected (`forbidden`); other events are delivered. `sluice resend` sends rejected events again after the cause is corrected. If an object has a name twice, its last value is sent.\n\nAt its start, and for `sluice validate --online`, the destination asks for the version of the server and, if `index` has no fields, whether the index matches `mode`. To send events, the key does not need the rights for this (`monitor`, `view_index_metadata`). The first event creates a data stream if an index template with `data_stream` matches its name. Elasticsearch has a template for `logs-*-*`; OpenSearch has no template, so the event creates an index there.\n\nDocuments in the failure store of a data stream count as delivered, although they are not in the data stream. They are counted by `sluice_elasticsearch_failure_store_events_total`.',
  promises: {
    guarantee: 'An event is delivered when its status is below 300, or its `_id` exists already.',
    order: 'Events do not keep their order. Sort by a field with a number or time.',
    duplicates: '`_id` prevents that an event is stored twice (in data streams, until the rollover).',
    limits:
      '`batch.max_bytes` (1 MB) and `batch.max_events` (1,000) for a request; `max_in_flight` requests at a time.',
    tested: 'OpenSearch 2.19.3, Elasticsearch 7.17.29. Simulated: Elasticsearch 8 and 9, API keys, failure stores.',
    advice:
      'By default (`mode: index`), Sluice assumes an index. But if an index template with `data_stream` matches the name, the server creates a data stream at the first event. Elasticsearch has a template for `logs-*-*`, which also matches `logs-my-shop`. Sluice cannot prevent this, but if the option `index` uses no fields, the log and `sluice validate --online` report an index or data stream that does not fit `mode`.\n\nTo log in, set `auth: { type: basic, username: sluice, password_file: /etc/sluice/elastic-password }` or `auth: { type: api_key, key_file: /etc/sluice/elastic-key }`. The key file contains the encoded API key.',
  },
  options: elasticsearchOptions,
  examples: [
    {
      title: 'An index for each app',
      yaml: 'url: http://127.0.0.1:9200\nindex: "logs-${.app:-none}"\n',
    },
    {
      title: 'A data stream, with an API key and an ingest pipeline',
      yaml: 'url: https://elastic.example.com\nindex: logs-nginx-default\nmode: data_stream\npipeline: geoip\nauth: { type: api_key, key_file: /etc/sluice/elastic-key }\n',
    },
  ],
  addresses: { index: 'dated' },
  usesIds: () => true,
  checks: async () => ({
    warnings({ index }) {
      const hasCapitals = dated(index, '').parts.some(
        part => typeof part === 'string' && !part.startsWith('<') && /\p{Lu}/u.test(part),
      )
      const message =
        'the name of an index must be lower case: every event is rejected, unless this is the name of an alias'
      return hasCapitals ? [{ path: ['index'], message }] : []
    },
  }),
  usesFields: ({ index, pipeline, timestamp }) => fieldsIn({ index, pipeline, timestamp }),
  format(options, context) {
    const bulk = new BulkRequest(options, context)
    const isNamedByEvents = !isConstant(options.index) || isDated(options.index)
    const { metrics, log } = context
    const help = 'Events that the failure store of a data stream accepted instead of the data stream.'
    const diverted = metrics.counter('sluice_elasticsearch_failure_store_events_total', help)
    const onFailureStore = () => {
      if (diverted.value++ === 0)
        log.warn('the failure store of a data stream has accepted events: GET DATA_STREAM::failures/_search shows why')
    }
    const makeUnique = () => bulk.makeUnique()
    return {
      url: withoutSlash(options.url) + BULK_PATH + QUERY,
      contentType: 'application/x-ndjson',
      gzipLevel: 1,
      emptyRequest: { body: '\n', status: 400, says: /no requests added/ },
      encode: request => bulk.encode(request),
      ...(isNamedByEvents && { targetOf: (batch, i) => bulk.targetOf(batch, i) }),
      inspect: get => inspect(options, get),
      refusal: (status, text, request) => readBulkRefusal(status, text, request, makeUnique),
      answerList: {
        name: 'items',
        isWhole: true,
        isTaken: isCreated,
        entry: (value, position) => readItem(value, position, { isNamedByEvents, onFailureStore, makeUnique }),
      },
    }
  },
})
