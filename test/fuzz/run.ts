import type { InitResult } from '../../src/daemon/client/documents.js'
import { FakeIngest } from '../support/fake-ingest.js'
import { type Got, pipelineConfig, send, startService } from '../support/service.js'
import { Answers } from './answers.js'
import { type FuzzRequest, Requests } from './requests.js'

export interface FuzzReport {
  /** How many answers had each status. */
  readonly statuses: Record<string, number>
  /** Requests whose answer is not as documented, with what is wrong. */
  readonly problems: { readonly request: FuzzRequest; readonly status: number; readonly faults: readonly string[] }[]
}

const ABREAST = 8
const MOST_IDS = 40

/** Sends `count` requests made of `seed` to a service in `folder`. */
export async function fuzz(folder: string, seed: number, count: number): Promise<FuzzReport> {
  const ingest = new FakeIngest()
  const running = await startService(folder, { ingest })
  ingest.service = running.service
  try {
    return await fuzzNodes([running.url], running.made, seed, count)
  } finally {
    await running.close()
  }
}

/** The same to nodes of a service, in turn. */
export async function fuzzNodes(
  urls: readonly string[],
  made: InitResult,
  seed: number,
  count: number,
): Promise<FuzzReport> {
  const call = async (method: string, path: string, key: string, json?: unknown): Promise<Got> => {
    const got = await send(urls[0]!, method, path, { key, json })
    if (got.status >= 400) throw new Error(`${method} ${path}: ${got.text}`)
    return got
  }
  const document = (await call('GET', '/v3/openapi.json', made.manager.key)).body
  const ids = ['0'.repeat(24), made.account.id]
  for (let i = 0; i < 3; i++) {
    const pipeline = await call('POST', '/v3/pipeline', made.manager.key, { title: 'p', config: pipelineConfig() })
    const account = await call('POST', '/v3/service-account', made.manager.key, { title: 's' })
    const user = await call('POST', '/v3/user', made.manager.key, { email: `a${i}@example.com`, role: 'viewer' })
    ids.push(pipeline.body.data.id, account.body.data.id, user.body.data.id)
    if (i > 0) await call('POST', `/v3/pipeline/${pipeline.body.data.id}/publish`, made.manager.key)
  }
  const viewer = await call('POST', '/v3/user', made.manager.key, { email: 'v@example.com', role: 'viewer' })
  const keys = [
    made.manager.key,
    made.manager.key,
    made.service_account.key,
    made.enterprise_service_account.key,
    viewer.body.data.key,
  ]
  const known = { ids, keys, manager: made.manager.key, enterprise: made.enterprise_service_account.key }
  return await sendAll(urls, new Requests(seed, document, known), new Answers(document), count, ids)
}

async function sendAll(
  urls: readonly string[],
  requests: Requests,
  answers: Answers,
  count: number,
  ids: string[],
): Promise<FuzzReport> {
  const begun = ids.length
  const report: FuzzReport = { statuses: {}, problems: [] }
  let left = count
  const sender = async () => {
    while (left-- > 0) {
      const request = requests.next()
      const { method, path, headers, body, template } = request
      const url = urls[left % urls.length]!
      const got = await send(url, method, path, { headers, ...(body === undefined ? {} : { body }) })
      // What was made can be used, and what was removed must not be all there is.
      if (got.status === 201 && ids.push(got.body.data.id) > MOST_IDS) ids.splice(begun, 1)
      report.statuses[got.status] = (report.statuses[got.status] ?? 0) + 1
      // A path that was spoiled may be another one, or none.
      const own = new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(path.replace(/\?.*/s, ''))
      const faults = own ? answers.faults(template, method, got) : []
      if (got.status >= 500 && got.status !== 503) faults.push(`status ${got.status}: ${got.text}`)
      if (faults.length > 0) report.problems.push({ request, status: got.status, faults })
    }
  }
  await Promise.all(Array.from({ length: ABREAST }, sender))
  return report
}
