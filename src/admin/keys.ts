import type { ServerResponse } from 'node:http'
import type { KeyWatch } from '../core/component.js'
import { sendAnswer } from '../http/server/answers.js'
import { onReplyOver } from '../http/server/reply.js'
import { sleep } from '../lib/time.js'

/** Components that decide by key. */
export interface Keyed {
  /** Counts by key from now on; undefined: there is no such component, or it has no keys. */
  watchKeys(component: string): KeyWatch | undefined
}

export interface KeysQuery {
  readonly component: string
  /** How long it is counted, in milliseconds. */
  readonly forMs: number
}

/** So long it is counted at most. */
export const LONGEST_MS = 60_000
const MOST_KEYS = 100

/** Counts by key for a while, for as long as the asker waits, and answers with the busiest. */
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
