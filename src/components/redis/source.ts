import { dividedWarnings } from '../../core/codecs/options.js'
import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { redisSourceOptions } from './options.js'

export const redis = defineSource({
  type: 'redis',
  summary: 'Reads a stream of Redis or Valkey as a member of a consumer group.',
  notes:
    'Sluice acknowledges an entry (`XACK`) when its event is delivered, discarded and counted, or safe on disk. After a kill or a failed delivery, it first reads its unacknowledged entries again. After `claim_after`, it takes over the entries of a consumer that no longer exists. A server that fails may forget acknowledgements that it has not written yet; it then delivers their entries again.\n\nSluice does not trim streams. Entries that are trimmed before Sluice reads them are lost; `sluice_redis_lag_entries` shows how many entries wait, and `sluice_redis_trimmed_entries_total` counts entries that were trimmed after a consumer got them. Several daemons of a group read entries in any order.\n\nThe server must be Redis 6.2 or newer, or Valkey. An ACL user needs `~STREAM +xreadgroup +xack +xgroup +xclaim +xautoclaim +xinfo`.',
  promises: {
    guarantee: 'An entry is acknowledged when its event was delivered, was discarded, or is on disk.',
    order: 'Entries keep their order. Several daemons of a group read in any order.',
    duplicates: 'After a kill, unacknowledged entries are read again.',
    limits: '`max_line_bytes` (1 MiB) for a value. Entries trimmed before they are read are lost.',
    tested: 'Redis 7.0.',
  },
  options: redisSourceOptions,
  examples: [
    {
      title: 'JSON entries, shared by the daemons of a group',
      yaml: 'url: rediss://redis.example.com:6379\nusername: sluice\npassword_file: /etc/sluice/redis-password\nstream: logs\ndecode: json\n',
    },
    {
      title: 'Only entries that are added from now on',
      yaml: 'url: redis://127.0.0.1:6379\nstream: logs\nread_from: end\n',
    },
  ],
  checks: async () => ({ warnings: dividedWarnings }),
  fields: ({ decode }) => fieldsOfLines(decode),
  inspects: async () => ({ check: (await import('./redis-source.js')).checkStream }),
  create: async (options, context) => new (await import('./redis-source.js')).RedisSource(options, context),
})
