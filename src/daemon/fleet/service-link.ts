import type { AccessKey } from '../../net/key.js'
import { fetchTrusting } from '../client/fetch-trusting.js'
import { ApiTransport } from '../client/transport.js'

const TIMEOUT_MS = 10_000
/** The service accepts configurations of 128 KiB. */
const MOST_BYTES = 1_000_000

export interface PublishedRevision {
  readonly revision: number
  readonly config: unknown
  readonly etag: string
}

export interface Report {
  readonly daemon_id: string
  readonly host: string
  readonly version: string
  readonly revision: number | null
  readonly health: 'ready' | 'holding' | 'starting' | 'failed'
  readonly error: string | null
  readonly totals: Readonly<Record<string, number>>
  readonly started_at: string
}

/** The requests of a managed daemon to its service. */
export interface ServiceLink {
  /** Resolves with undefined if the ETag of the published revision is still `etag`. */
  published(etag: string | undefined): Promise<PublishedRevision | undefined>
  report(report: Report): Promise<void>
}

/** Splits `https://host/v3/pipeline/{id}` into the URL of the service and the id; undefined if it has another form. */
export function readPipelineUrl(text: string): { base: string; id: string } | undefined {
  const match = /^(https?:\/\/[^/?#]+.*?)\/v3\/pipeline\/([0-9a-f]{24})\/?$/.exec(text)
  if (!match || !URL.canParse(match[1]!)) return undefined
  const { username, password } = new URL(match[1]!)
  return username || password ? undefined : { base: match[1]!, id: match[2]! }
}

export function linkTo(
  { base, id }: { base: string; id: string },
  key: AccessKey,
  delegateAccountId: string | undefined,
  fetch = base.startsWith('https:') ? fetchTrusting() : undefined,
): ServiceLink {
  // The caller retries.
  const options = {
    url: base,
    key: () => key.current(),
    retries: 0,
    timeoutMs: TIMEOUT_MS,
    delegateAccountId,
    ...(fetch && { fetch }),
  }
  const transport = new ApiTransport(options)
  return {
    async published(etag) {
      const headers = { 'if-none-match': etag }
      const answer = await transport.request('GET', `/v3/pipeline/${id}/published`, { headers, mostBytes: MOST_BYTES })
      if (answer.status === 304) return undefined
      const { data } = (answer.body ?? {}) as { data?: { revision?: unknown; config?: unknown } }
      const { revision, config } = data ?? {}
      if (answer.status !== 200 || !Number.isInteger(revision) || typeof config !== 'object')
        throw new Error(
          `${base} did not send a response of a Sluice service (status ${answer.status}); check the address in --pipeline`,
        )
      return { revision: revision as number, config, etag: answer.headers.get('etag') ?? '' }
    },
    async report(report) {
      await transport.request('POST', '/v3/fleet/report', {
        json: { ...report, pipeline_id: id },
        mostBytes: MOST_BYTES,
      })
    },
  }
}
