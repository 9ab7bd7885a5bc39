import { z } from 'zod'
import { isDated } from '../../core/dated.js'
import { isConstant } from '../../core/template.js'
import { withoutSlash } from '../../net/http/client/options.js'
import type { Inspection } from '../../net/http/client/request-format.js'
import type { ElasticsearchOptions } from './options.js'

const info = z.object({ version: z.object({ number: z.string().max(40), distribution: z.string().optional() }) })
const names = z.array(z.object({ name: z.string() })).prefault([])
const resolved = z.object({ indices: names, aliases: names, data_streams: names })

const aliased = z.record(
  z.string(),
  z.object({ aliases: z.record(z.string(), z.object({ is_write_index: z.boolean().optional() })) }),
)

export const NO_WRITE_INDEX =
  'the alias has several indices, or an index for reading: set is_write_index: true on one of them'

const TEMPLATE =
  'the first event creates a data stream if an index template with "data_stream" matches the name, otherwise an index'

/** Asks for the version and checks whether `index` fits `mode`. A key that can send events may lack rights for this. */
export async function inspect(
  { url, index, mode }: ElasticsearchOptions,
  get: (url: string) => Promise<unknown>,
): Promise<Inspection> {
  const base = withoutSlash(url)
  const { data } = info.safeParse(await get(`${base}/`))
  if (!data) return {}
  const { number, distribution } = data.version
  const server = `${distribution === 'opensearch' ? 'OpenSearch' : 'Elasticsearch'} ${number}`
  if (!isConstant(index) || isDated(index)) return { server }
  const name = index.parts.join('')
  const found = resolved.safeParse(await get(`${base}/_resolve/index/${encodeURIComponent(name)}`)).data
  if (!found) return { server }
  const has = (list: (typeof found)['indices']) => list.some(one => one.name === name)
  const { indices, aliases, data_streams: streams } = found
  if (mode === 'index' && has(aliases)) {
    const known = aliased.safeParse(await get(`${base}/_alias/${encodeURIComponent(name)}`)).data ?? {}
    const writes = Object.values(known).map(({ aliases }) => aliases[name]?.is_write_index)
    const isWritable = writes.includes(true) || (writes.length < 2 && !writes.includes(false))
    return { server, ...(!isWritable && { problem: `${name} has no write index: ${NO_WRITE_INDEX}` }) }
  }
  if (mode === 'index')
    return { server, ...(has(streams) && { problem: `${name} is a data stream: set mode: data_stream` }) }
  if (has(indices))
    return { server, problem: `${name} is an index, not a data stream: set mode: index, or correct "index"` }
  const isThere = has(streams) || has(aliases)
  return { server, ...(!isThere && { note: `the data stream ${name} does not exist yet; ${TEMPLATE}` }) }
}
