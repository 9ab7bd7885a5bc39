import type { LiveBucket } from '../../core/component.js'
import { textOf } from '../../daemon/admin/ask-socket.js'
import { socketPath } from '../../daemon/admin/socket.js'
import { ask } from './daemon-socket.js'

/**
 * Asks the daemon with this `data_dir` for the state of a bucket; null: the default one. `rule`: as in a Finding.
 * Undefined: the daemon has no such component, or it has no buckets.
 */
export async function liveBucket(
  dataDir: string,
  component: string,
  key: string | null,
  rule: string | null | undefined,
): Promise<LiveBucket | undefined> {
  const query = new URLSearchParams({ component })
  if (key !== null) query.set('key', key)
  if (rule !== undefined) query.set('rule', rule ?? '')
  const answer = await ask(socketPath(dataDir), `/bucket?${query}`)
  const text = await textOf(answer)
  return answer.statusCode === 200 ? (JSON.parse(text) as LiveBucket) : undefined
}
