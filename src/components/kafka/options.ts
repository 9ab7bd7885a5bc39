import zlib from 'node:zlib'
import { z } from 'zod'
import { encodingOption } from '../../core/codecs/options.js'
import { byteSize, fieldPath, refuse, refuseAt } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { template } from '../../core/template.js'
import { clusterOptions } from '../../net/kafka/options.js'

/** The default of `message.max.bytes` of brokers. */
const BATCH_BYTES = 1_048_588

const name = (what: string) =>
  reaches(
    'nothing',
    z
      .string()
      .min(1)
      .max(256, { error: `must be the name of a ${what}` }),
  )

export const kafkaOptions = z
  .strictObject({
    ...clusterOptions,
    topic: template().describe(
      'Topic to write to. It may contain fields, as in `logs-${.app:-none}`. Each request contains the events of one topic.',
    ),
    key_field: fieldPath()
      .optional()
      .describe(
        "Field with the message key. Events with the same key go to the same partition, which is the one that Kafka's own clients choose. If the value is missing, the event has no key and goes to any partition.",
      ),
    headers: z
      .record(name('header'), template())
      .prefault({})
      .describe('Headers of each message. Values may contain fields; empty values are omitted.'),
    id_header: name('header')
      .optional()
      .describe(
        'Name of a header for the event id. The id stays the same when the event is sent or read again. Default: not sent.',
      ),
    timestamp: fieldPath()
      .prefault('.timestamp')
      .describe('Field with the message time. Events without it get the time when they were read.'),
    encoding: encodingOption('raw'),
    acks: z
      .union([z.literal('all'), z.literal(1)], { error: 'must be all or 1' })
      .prefault('all')
      .describe(
        'Which brokers must store an event before it counts as delivered. all: the in-sync replicas, at least `min.insync.replicas` of the topic. 1: the partition leader; its failure may lose events.',
      ),
    idempotence: z
      .boolean()
      .prefault(true)
      .describe(
        'Gives each message of a partition a number. Brokers then discard messages that are sent again. Requires `acks: all`.',
      ),
    compression: z
      .enum(['none', 'gzip', 'snappy', 'lz4', 'zstd'])
      .prefault('gzip')
      .superRefine((compression, context) => {
        if (compression === 'zstd' && !('zstdCompress' in zlib))
          refuse(context, `this Node.js (${process.version}) has no zstd; take lz4, or Node.js 22.15 or newer`)
      })
      .describe('Compression of messages. zstd requires a Node.js version that supports it.'),
    max_message_bytes: byteSize(1000, 100_000_000)
      .prefault(BATCH_BYTES)
      .describe(
        'Maximum size of a batch after compression; set it to `max.message.bytes` of the topic. Larger batches are divided. An event that is too large even alone is rejected (`too_long`).',
      ),
  })
  .superRefine((options, context) => {
    if (options.acks !== 'all' && options.idempotence)
      refuseAt(context, ['acks'], 'must be all, or set idempotence: false')
    if (options.id_header !== undefined && options.headers[options.id_header])
      refuseAt(context, ['id_header'], 'is also in "headers"')
  })

export type KafkaOptions = z.output<typeof kafkaOptions>
