import { defineDestination } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { KeyPrefixes, samplePrefix } from './names.js'
import { s3Options } from './options.js'

export const s3 = defineDestination({
  type: 's3',
  summary: 'Sends events as objects to Amazon S3 or a compatible server.',
  notes:
    '[Objects in S3](../docs/objects.md) describes the spool, keys, refusals, and other servers.\n\nEvents are written to a spool below `data_dir` first, and are acknowledged when they are synced there: sources continue while the bucket is unavailable. The name and the bytes of an object do not change after it is first sent, so an object that is sent again replaces itself. The name ends with the opening time of the object, a random part and the extension.\n\nA compressed object is several gzip members, or zstd frames, one after the other, without a `Content-Encoding`. Objects of more than 8 MiB are sent in parts. If the server refuses an object, the destination keeps it, pauses, and logs the reason. `retry.max_attempts` and `retry.max_elapsed` are for writes to the spool only.',
  promises: {
    guarantee: 'Syncing the spool acknowledges an event; uploading its object delivers the event.',
    order: 'Events of an object keep their order. Two objects are sent at a time.',
    duplicates: 'A repeated object replaces the first. The spool recognizes event ids of the last minute.',
    limits: '`object.max_bytes`, `object.max_age`, 500 open objects, `spool.max_bytes`; parts of 8 MiB.',
    tested: 'versitygw 1.8.0; MinIO of 2026-02-12. Simulated: KMS, EC2, containers, web identities.',
  },
  options: s3Options,
  addresses: { key: 'dated' },
  spools: true,
  usesIds: () => true,
  examples: [
    {
      title: 'A folder for each day and app',
      yaml: "bucket: logs\nregion: eu-central-1\nkey: 'app/%Y/%m/%d/${.app:-none}/'\n",
    },
    {
      title: 'Another server, with keys from files',
      yaml: "bucket: logs\nendpoint: https://s3.example.com\nauth: { access_key_id: sluice, secret_access_key_file: /etc/sluice/s3-secret }\nkey: 'logs/%Y/%m/%d/'\nobject: { max_bytes: 128MB, max_age: 15 Minutes }\n",
    },
  ],
  delivery: {
    max_events: 50_000,
    max_bytes: '4MB',
    bytes: 'Maximum bytes of events per write to the spool, as counted when the events were read.',
    max_wait: '1 Seconds',
    max_in_flight: 4,
  },
  usesFields: ({ key, timestamp }) => fieldsIn({ key, timestamp }, { key: 'every event is rejected' }),
  async create(options, context) {
    const [{ SpooledDestination }, { S3Store }] = await Promise.all([
      import('../../engine/flow/spool/spooled-destination.js'),
      import('./store.js'),
    ])
    const names = new KeyPrefixes(options.key, options.timestamp, context)
    return new SpooledDestination(options, names, new S3Store(options, context), context)
  },
  explains: async () => {
    const { explainAlone } = await import('../../core/explain.js')
    return {
      explain({ bucket, key, timestamp, encoding }, context) {
        const names = new KeyPrefixes(key, timestamp, context)
        return explainAlone(encoding, batch => `to an object s3://${bucket}/${names.prefixOf(batch, 0)}…`)
      },
    }
  },
  inspects: async () => ({
    async check(options, context, signal) {
      const { S3Store } = await import('./store.js')
      const store = new S3Store(options, context)
      try {
        return await store.check(`${samplePrefix(options.key, context.clock.wall())}sluice-check`, signal)
      } finally {
        await store.stop()
      }
    },
  }),
})
