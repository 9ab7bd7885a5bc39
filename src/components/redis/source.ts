import { dividedWarnings } from '../../core/codecs/options.js'
import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { options } from './options.js'

export const redis = defineSource({
  type: 'redis',
  summary: 'Reads a stream of Redis or Valkey as a member of a consumer group.',
  notes:
    'An entry is acknowledged (`XACK`) when its event was delivered, or permanently rejected by its destination and accounted for, or is safe in a disk buffer. After a kill, and when events could not be delivered, the entries that were not acknowledged are read again first; those of a consumer that has gone for good are taken over after `claim_after`. A server that fails may forget acknowledgements that it has not written yet: these entries come twice.\n\nSluice trims no stream. Entries that were trimmed before they were read are lost; `sluice_redis_lag_entries` shows how many wait, and `sluice_redis_trimmed_entries_total` counts those that were trimmed while they were held. Entries are read by several daemons of a group in any order.\n\nThe server has to be Redis 6.2 or newer, or Valkey. An ACL user needs `~STREAM +xreadgroup +xack +xgroup +xclaim +xautoclaim +xinfo`.',
  options,
  examples: [
    {
      title: 'JSON entries, shared by the daemons of a group',
      yaml: 'url: rediss://redis.example.com:6379\nusername: sluice\npassword_file: /etc/sluice/redis-password\nstream: logs\ndecode: json\n',
    },
    { title: 'Only what is added from now on', yaml: 'url: redis://127.0.0.1:6379\nstream: logs\nread_from: end\n' },
  ],
  warnings: dividedWarnings,
  fields: ({ decode }) => fieldsOfLines(decode),
  check: async (options, context, signal) => (await import('./redis-source.js')).checkStream(options, context, signal),
  create: async (options, context) => new (await import('./redis-source.js')).RedisSource(options, context),
})
