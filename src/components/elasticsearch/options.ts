import { z } from 'zod'
import { fieldPath, refuseAt } from '../../core/options/options.js'
import { isNeverEmpty, type Template, template } from '../../core/template.js'
import { baseUrl, checkHeaders, clientOptions } from '../../net/http/client/options.js'

export const BULK_PATH = '/_bulk'

/** Whether the template gives valid names. If a name is between < and >, the server computes the date in this name. */
function isName({ parts }: Template): boolean {
  const text = parts.map(part => (typeof part === 'string' ? part : 'x')).join('')
  return text.startsWith('<') || !/^[-_+]|[\\/*?"<>|,#: ]/.test(text)
}

const { headers, auth, validate, compression, url: _, ...rest } = clientOptions
export const elasticsearchOptions = z
  .strictObject({
    url: baseUrl(BULK_PATH).describe('The address of the cluster, such as http://127.0.0.1:9200.'),
    index: template()
      .refine(isNeverEmpty, { error: 'must never be empty: a text, or a field as in ${.app:-none}' })
      .refine(isName, {
        error: 'must not contain spaces or \\ / * ? " < > | , # : and must not begin with - _ or +',
      })
      .describe(
        'Index or data stream to write to. It may contain fields, as in `logs-${.app}`, and the event time in UTC, as in `logs-%Y.%m.%d`: `%Y`, `%m`, `%d`, `%F` (the date), `%H`, `%M`. Each distinct name creates an index, so use few values.',
      ),
    mode: z
      .enum(['index', 'data_stream'])
      .prefault('index')
      .describe('Whether `index` names an index or a data stream. A data stream requires `action: create`.'),
    action: z
      .enum(['create', 'index'])
      .prefault('create')
      .describe(
        'What happens to an event that is sent again after it was stored: `create` keeps the stored document, `index` replaces it.',
      ),
    pipeline: template()
      .optional()
      .describe('Ingest pipeline for the event. Empty: the default pipeline of the index, if it has one.'),
    timestamp: fieldPath()
      .prefault('.timestamp')
      .describe(
        'Field with the time of the event, used if the event lacks `@timestamp`. Events with neither get the time when they were read.',
      ),
    compression: compression
      .prefault('gzip')
      .describe(
        'Compression of the body. zstd requires a Node.js version that supports it; Elasticsearch does not accept zstd.',
      ),
    headers,
    auth,
    validate,
    ...rest,
  })
  .superRefine((options, context) => {
    checkHeaders(options, context)
    if (options.mode === 'data_stream' && options.action !== 'create')
      refuseAt(context, ['action'], 'must be create: a data stream does not accept updates')
  })

export type ElasticsearchOptions = z.output<typeof elasticsearchOptions>
