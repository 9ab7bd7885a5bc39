import zlib from 'node:zlib'
import { z } from 'zod'
import { encodingOption } from '../../core/codecs/options.js'
import { defineDestination } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { byteSize, duration, fieldPath, refuse } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { template } from '../../core/template.js'
import { awsAuth } from '../../net/aws/auth-options.js'
import { dialOptions } from '../../net/dial-options.js'
import { httpUrl } from '../../net/proxy.js'
import { KeyPrefixes, objectKeyProblem, samplePrefix } from './names.js'

const DAY_MS = 86_400_000
const text = (pattern: RegExp, error: string) => reaches('nothing', z.string().regex(pattern, { error }))

const options = z.strictObject({
  bucket: text(/^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/, 'must be the name of a bucket').describe('The bucket.'),
  key: template()
    .superRefine((key, context) => {
      const problem = objectKeyProblem(key)
      if (problem) refuse(context, problem)
    })
    .prefault('%Y/%m/%d/')
    .describe(
      'Prefix of object names. It may contain fields, as in `${.app:-none}` (URL-encoded), and the event time in UTC: `%Y`, `%m`, `%d`, `%H`, `%M`. Sluice appends the opening time of the object, a random part and the extension.',
    ),
  region: text(/^[a-z0-9-]+$/, 'must be the name of a region, such as eu-central-1')
    .optional()
    .describe('Region of the bucket. Default: AWS_REGION or AWS_DEFAULT_REGION, otherwise us-east-1.'),
  endpoint: httpUrl().optional().describe('Address of another S3-compatible server. Default: AWS in the region.'),
  path_style: z
    .boolean()
    .optional()
    .describe(
      'Whether the name of the bucket is in the path of the URL, instead of in the host name. Default: true with `endpoint`.',
    ),
  object: z
    .strictObject({
      max_bytes: byteSize(1, 5 * 1024 ** 3)
        .prefault('64MB')
        .describe(
          'Compressed size at which an object is sent. Objects can be larger by at most the size of one request.',
        ),
      max_age: duration(1000)
        .refine(ms => ms <= DAY_MS, { error: 'must be at most 24 Hours', params: { constant: true } })
        .prefault('5 Minutes')
        .describe('Maximum time from the first event of an object until it is sent.'),
    })
    .prefault({})
    .describe('When an object is complete.'),
  spool: z
    .strictObject({
      max_bytes: byteSize(1_000_000)
        .prefault('2GB')
        .describe('Maximum total size of the files in this folder. When it is reached, the sources wait.'),
    })
    .prefault({})
    .describe('Folder below `data_dir` where events wait until their object is sent.'),
  encoding: encodingOption('json'),
  compression: z
    .enum(['gzip', 'zstd', 'none'])
    .prefault('gzip')
    .superRefine((compression, context) => {
      if (compression === 'zstd' && !('zstdCompress' in zlib))
        refuse(context, `this Node.js (${process.version}) has no zstd; take gzip, or Node.js 22.15 or newer`)
    })
    .describe('Compression of objects. zstd requires a Node.js version that supports it.'),
  timestamp: fieldPath()
    .prefault('.timestamp')
    .describe('Field with the time for `key`. Events without it use the time when they were read.'),
  storage_class: text(/^[A-Z0-9_]+$/, 'must be a storage class, such as STANDARD_IA')
    .optional()
    .describe('Storage class of objects. Default: the default of the bucket.'),
  sse: z
    .strictObject({
      type: z.enum(['AES256', 'aws:kms', 'aws:kms:dsse']).describe('Type of the encryption keys.'),
      kms_key_id: reaches('nothing', z.string().min(1)).optional().describe('With KMS: id or ARN of the key.'),
      bucket_key: z.boolean().optional().describe('With KMS: whether to use a bucket key, which costs less.'),
    })
    .superRefine(({ type, kms_key_id, bucket_key }, context) => {
      if (type === 'AES256' && (kms_key_id !== undefined || bucket_key !== undefined))
        refuse(context, 'kms_key_id and bucket_key need type: aws:kms')
    })
    .optional()
    .describe('How the server encrypts objects. Default: the setting of the bucket.'),
  auth: awsAuth
    .prefault({})
    .describe(
      'Where the keys come from. Default, in the order of AWS: environment, web identity, shared credentials file, container endpoint, EC2 metadata service.',
    ),
  ...dialOptions,
})
export type S3Options = z.output<typeof options>

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
  options,
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
