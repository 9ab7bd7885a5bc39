import { type Client, everything } from '../../daemon/client/client.js'
import { ServiceError } from '../../daemon/client/transport.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { loadService } from '../wings.js'
import type { Receiver } from './plan.js'

const ADVICE: Readonly<Record<number, string>> = {
  401: 'check the key in SLUICE_ACCESS_KEY',
  403: 'if the key may not list pipelines, name one by its id: --pipeline ID',
}

/** Checks the service at SLUICE_URL before anything is started. `name`: the title or id of the pipeline. */
export async function givenService(name: string | undefined, io: Io): Promise<Receiver> {
  const { baseAddress, connect, pipelineId } = await (await loadService()).loadApi()
  const url = baseAddress(io.env.SLUICE_URL!, 'SLUICE_URL=', '. Name the pipeline with --pipeline', 'quickstart')
  const client = await connect({ url }, io)
  try {
    const { scopes } = await client.whoami()
    if (!scopes.includes('ingest:write'))
      throw new Error(`the key in SLUICE_ACCESS_KEY is not allowed to send events to ${url}`)
    const pipeline = name === undefined ? await onlyPipeline(client, url) : await pipelineId(client, name)
    return { url, pipeline, caFile: url.startsWith('https:') ? io.env.SLUICE_CA_FILE || undefined : undefined }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { status, message } = error
    const advice = ADVICE[status] ?? 'is it the address of a service of Sluice?'
    throw new Error(`the service at ${url} answered ${status}: ${message}; ${advice}`, { cause: error })
  }
}

async function onlyPipeline(client: Client, url: string): Promise<string> {
  const published: { id: string; title: string }[] = []
  for await (const pipeline of everything(page => client.pipelines.all(page)))
    if (pipeline.published_revision !== null) published.push(pipeline)
  const [only, ...more] = published
  if (only && more.length === 0) return only.id
  if (!only) throw new Error(`the account at ${url} has no published pipeline; create and publish one first`)
  const titles = published.map(({ title }) => JSON.stringify(title)).join(', ')
  throw new UsageError(
    `name the pipeline with --pipeline. ${url} has these published pipelines: ${titles}`,
    'quickstart',
  )
}
