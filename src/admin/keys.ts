import type { ServerResponse } from 'node:http'
import type { KeyWatch } from '../core/component.js'
import { sendAnswer } from '../http/server/answers.js'
import { onReplyOver } from '../http/server/reply.js'
import { sleep } from '../lib/time.js'

/** Components that work by key. */
export interface Keyed {
  /** Starts to count by key. Returns undefined if the component does not exist or has no keys. */
  watchKeys(component: string): KeyWatch | undefined
}

export interface KeysQuery {
  readonly component: string
  /** How long to count, in milliseconds. */
  readonly forMs: number
}

/** Upper limit of `forMs`. */
export const LONGEST_MS = 60_000
const MOST_KEYS = 100

/** Counts by key for `forMs`, or until the client disconnects, and responds with the busiest keys. */
export async function answerKeys(query: KeysQuery, keyed: Keyed, response: ServerResponse): Promise<void> {
  const { component, forMs } = query
  if (!(forMs >= 1 && forMs <= LONGEST_MS)) {
    response.writeHead(400).end(`for is a number of milliseconds, at most ${LONGEST_MS}\n`)
    return
  }
  const watch = keyed.watchKeys(component)
  if (!watch) {
    response.writeHead(404).end(`${component} has no keys\n`)
    return
  }
  const gone = new AbortController()
  onReplyOver(response, () => gone.abort())
  await sleep(forMs, gone.signal)
  const counts = watch.end(MOST_KEYS)
  sendAnswer(response, { status: 200, body: counts })
}
