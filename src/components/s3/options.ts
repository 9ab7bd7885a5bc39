import zlib from 'node:zlib'
import { z } from 'zod'
import { encodingOption } from '../../core/codecs/options.js'
import { byteSize, duration, fieldPath, refuse } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { template } from '../../core/template.js'
import { awsAuth } from '../../net/aws/auth-options.js'
import { dialOptions } from '../../net/dial-options.js'
import { httpUrl } from '../../net/proxy.js'
import { objectKeyProblem } from './names.js'

const DAY_MS = 86_400_000
const text = (pattern: RegExp, error: string) => reaches('nothing', z.string().regex(pattern, { error }))

export const s3Options = z.strictObject({
  bucket: text(/^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/, 'must be the name of a bucket').describe('The bucket.'),
  key: template()
    .superRefine((key, context) => {
      const problem = objectKeyProblem(key)
      if (problem) refuse(context, problem)
    })
    .prefault('%Y/%m/%d/')
    .describe(
      'Prefix of object names. It may contain fields, as in `${.app:-none}` (URL-encoded), and the event time in UTC: `%Y`, `%m`, `%d`, `%F` (the date), `%H`, `%M`. Sluice appends the opening time of the object, a random part and the extension.',
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
export type S3Options = z.output<typeof s3Options>
