import { createHash } from 'node:crypto'
import { ApiError } from '../errors.js'
import type { PipelineRecord } from '../records.js'

/** Changes with everything that a pipeline shows. */
export function pipelineTag({ version }: PipelineRecord, missingSecrets: readonly string[]): string {
  const missing = createHash('sha256').update(missingSecrets.join()).digest('hex').slice(0, 8)
  return missingSecrets.length === 0 ? `"v${version}"` : `"v${version}-${missing}"`
}

/** Changes with what daemons receive, but not with drafts. */
export function publishedTag({ published_revision, published_at, title }: PipelineRecord): string {
  const mark = createHash('sha256').update(`${published_at} ${title}`).digest('hex').slice(0, 8)
  return `"r${published_revision}-${mark}"`
}

/** Throws 412 if `ifMatch` is given and does not contain `etag`. Weak tags never match. */
export function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return
  if (ifMatch.split(',').some(tag => tag.trim() === etag)) return
  throw new ApiError(
    412,
    'precondition_failed',
    'it was changed since you read it: read it again, and repeat the change',
    {
      headers: { etag },
    },
  )
}
