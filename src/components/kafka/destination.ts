import { encodedEvent } from '../../core/codecs/encode.js'
import { defineDestination } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import type { DeliveryDefaults } from '../../core/options/delivery-options.js'
import { loadKafka } from '../../net/kafka/client.js'
import { isSentPlainly } from '../../net/kafka/options.js'
import { keyFileWarnings } from '../../net/key.js'
import { kafkaOptions } from './options.js'
import { RecordEncoder } from './records.js'
import { topicsOf } from './topics.js'

const DELIVERY: DeliveryDefaults = {
  max_events: 10_000,
  max_bytes: '1MB',
  bytes: 'Maximum bytes of one request, before compression. The request is divided among the partitions of its topic.',
  max_wait: '1 Seconds',
  max_in_flight: 'auto',
}

export const kafka = defineDestination({
  type: 'kafka',
  summary: 'Sends events to Apache Kafka.',
  notes:
    'Each event is a message. Sluice sends one request per topic at a time, with events for all partitions of the topic. If some partitions fail, Sluice sends only their events again; later events for them wait, and without a key all events of the topic can wait. So the events of a partition, and of a key, keep their order.\n\nWith `idempotence`, brokers discard messages that are sent again within a session. If a broker no longer accepts the session, for example because the broker has forgotten it, Sluice continues with a new session, in order. `sluice_kafka_new_producers_total` counts new sessions, and `sluice_kafka_possible_duplicates_total` counts events that may be stored twice because of new sessions. After a restart of Sluice, or a reload that changes the destination, events whose delivery was not confirmed are sent again; `id_header` lets consumers find them.\n\nRejected events go to the dead-letter queue with the message of the broker and a reason: `too_long`, `timestamp`, `invalid_record` (a compacted topic requires a key), and `partition` (the topic is missing or not a valid name). If `topic` contains fields, `unknown_topic` and `topic_denied` are reasons, too; otherwise the destination pauses until the topic exists, or the right is granted. It also pauses when the user, the password or the token is refused; a replacement is used within a second. When a quota of the cluster is used up, events wait as long as the broker requests.\n\nThis machine must reach the addresses that the brokers advertise (`advertised.listeners` of each broker). `sluice validate --online` connects to the brokers that lead the topic.\n\n`auth` requires `username` and one of `password`, `password_file`, `credential` and `exec`; with `type: oauthbearer`, it requires one of `key`, `key_file`, `credential` and `exec`. `tls.cert_file` and `tls.key_file` must be set together.\n\nBrokers must be Kafka 2.8 or newer.',
  promises: {
    guarantee: 'An event is delivered when the replicas (`acks: all`) or only the leader (`acks: 1`) confirm it.',
    order: 'Events of a partition keep their order; therefore events of a key do, too.',
    duplicates:
      'With `idempotence`, only after a restart, changed options, or a day; `id_header` identifies duplicates.',
    limits: '`batch.max_bytes` (1 MB) and `batch.max_events` (10,000) for a request; `max_message_bytes` for a batch.',
    tested: 'Kafka 4.3.0 with one broker and unsigned tokens. Simulated: errors of large clusters.',
  },
  options: kafkaOptions,
  examples: [
    {
      title: 'One topic, and a partition for each app',
      yaml: 'brokers: [kafka-1.example.com:9092, kafka-2.example.com:9092]\ntopic: logs\nkey_field: .app\n',
    },
    {
      title: 'A topic for each team, over TLS, with a user and headers',
      yaml: 'brokers: [kafka.example.com:9094]\ntls: { ca_file: /etc/sluice/kafka-ca.pem }\nauth: { type: scram_sha_512, username: sluice, password_file: /etc/sluice/kafka-password }\ntopic: "logs-${.team:-shared}"\nheaders: { host: "${.host}" }\nid_header: event-id\nencoding: json\n',
    },
  ],
  delivery: DELIVERY,
  usesIds: ({ id_header }) => id_header !== undefined,
  copiesLines: ({ encoding }) => encoding === 'raw',
  addresses: { topic: 'plain' },
  usesFields: ({ topic, key_field, headers, timestamp }) =>
    fieldsIn({ topic, key_field, headers, timestamp }, { key_field: 'no event has a key' }),
  async create(options, context) {
    const [client, { KafkaDestination }] = await Promise.all([loadKafka(), import('./kafka-destination.js')])
    return new KafkaDestination(options, context, client)
  },
  checks: async () => ({
    warnings: options => [
      ...(isSentPlainly(options)
        ? [{ path: ['auth', 'type'], message: 'the password or the token is sent without encryption: set "tls"' }]
        : []),
      ...keyFileWarnings(options.auth),
    ],
  }),
  explains: async () => ({
    explain(options, context) {
      const topics = topicsOf(options, context)
      const records = new RecordEncoder(options, context)
      return batch => {
        const key = records.keyOf(batch, 0)
        const topic = topics.partitionOf(batch, 0)
        const keyed = key === undefined ? 'without a key' : `with the key ${JSON.stringify(key)}`
        const { bytes, start, end } = encodedEvent(options.encoding, batch, 0)
        const findings = [{ text: `to the topic ${topic}, ${keyed}` }]
        return { outcome: 'delivered', findings, bytes: Buffer.from(bytes.subarray(start, end)) }
      }
    },
  }),
  inspects: async () => ({ check: (await import('./kafka-destination.js')).checkTopic }),
})
