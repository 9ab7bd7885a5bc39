import { z } from 'zod'
import { encodingOption } from '../../core/codecs/options.js'
import { fieldPath } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { template } from '../../core/template.js'
import { baseUrl, checkHeaders, clientOptions } from '../../net/http/client/options.js'

export const PUSH_PATH = '/loki/api/v1/push'
export const TENANT = 'x-scope-orgid'

/** A name that queries can use. Loki limits its length in bytes. */
const name = () =>
  reaches(
    'nothing',
    z
      .string()
      .max(1024)
      .regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/, { error: 'must be letters, digits and _, and must not begin with a digit' }),
  )

const { headers, auth, validate, compression: _compression, url: _, ...rest } = clientOptions
export const lokiOptions = z
  .strictObject({
    url: baseUrl(PUSH_PATH).describe(
      `The address of Loki, such as http://127.0.0.1:3100. Events are sent to ${PUSH_PATH} below it.`,
    ),
    labels: z
      .record(name(), template())
      .refine(labels => Object.keys(labels).length > 0, { error: 'must have a label' })
      .describe(
        'Labels of the stream. Values may contain fields, as in `${.app:-none}`; labels with an empty value are omitted. An event for which all labels are empty gets `service_name="unknown_service"`, the label that Loki itself adds.',
      ),
    max_streams: z
      .int()
      .min(1)
      .max(100_000)
      .prefault(1000)
      .describe(
        'Maximum number of streams that had events in the last hour. For events of further streams, labels that contain fields get the value `other`.',
      ),
    structured_metadata: z
      .record(name(), template())
      .prefault({})
      .describe('Metadata stored with each line, but not as labels. Empty values are omitted.'),
    tenant: template()
      .optional()
      .describe('The tenant (X-Scope-OrgID). Each request contains the events of one tenant.'),
    timestamp: fieldPath()
      .prefault('.timestamp')
      .describe('Field with the time of the event. Events without it get the time when they were read.'),
    encoding: encodingOption('raw'),
    compression: z
      .enum(['none', 'gzip', 'snappy'])
      .prefault('snappy')
      .describe(
        'Format and compression of the body: `snappy` sends protobuf, `gzip` sends JSON. gzip uses less bandwidth and more CPU time.',
      ),
    headers,
    auth,
    validate,
    ...rest,
  })
  .superRefine((options, context) => {
    checkHeaders(options, context, options.tenant ? { [TENANT]: 'tenant' } : {})
  })

export type LokiOptions = z.output<typeof lokiOptions>
