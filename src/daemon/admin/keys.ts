import type { ServerResponse } from 'node:http'
import { keyedOf } from '../../components/throttle/keyed-processor.js'
import { DISCARDED } from '../../core/processor.js'
import type { WaitState } from '../../core/status-document.js'
import type { Links } from '../../engine/run/links.js'
import { sleep } from '../../lib/time.js'
import { onReplyOver, sendReply } from '../../net/http/server/respond.js'

export type Keyed = Pick<Links, 'processor' | 'waiting' | 'readers'>

/** Maximum duration for which keys are counted. */
export const LONGEST_MS = 60_000
const MOST_KEYS = 100

/** Counts events by key for some time, or until the client disconnects. Responds with the busiest keys. */
export async function answerKeys(query: URLSearchParams, keyed: Keyed, response: ServerResponse): Promise<void> {
  const component = query.get('component') ?? ''
  const forMs = Number(query.get('for') ?? 1000)
  if (!(forMs >= 1 && forMs <= LONGEST_MS)) {
    response.writeHead(400).end(`for must be a number of milliseconds, at most ${LONGEST_MS}\n`)
    return
  }
  const watch = keyedOf(keyed.processor(component))?.watchKeys()
  if (!watch) {
    response.writeHead(404).end(`${component} has no keys\n`)
    return
  }
  const gone = new AbortController()
  onReplyOver(response, () => gone.abort())
  await sleep(forMs, gone.signal)
  const counts = watch.end(MOST_KEYS)
  sendReply(response, { status: 200, body: { ...counts, discarded_to: discardedTo(component, keyed) } })
}

/** Responds with the state of one bucket. Without a `key`, it is the default bucket. An empty `rule` means no rule. */
export function answerBucket(query: URLSearchParams, keyed: Keyed, response: ServerResponse): void {
  const component = query.get('component') ?? ''
  const key = query.get('key')
  const rule = query.get('rule') ?? undefined
  const state = keyedOf(keyed.processor(component))?.bucket(key, rule === '' ? null : rule)
  if (!state) response.writeHead(404).end(`${component} has no keys\n`)
  else {
    const { options, buckets = [] } = waitState(component, keyed) ?? {}
    const wait = buckets.find(bucket => bucket.key === key)
    const waiting = wait && { waiting: { ...wait, options } }
    sendReply(response, {
      status: 200,
      body: { key, ...state, ...waiting, discarded_to: discardedTo(component, keyed) },
    })
  }
}

/** Why events wait in a component; undefined if none wait, or the component does not decide by key. */
export function waitState(component: string, keyed: Keyed): WaitState | undefined {
  const waiting = keyed.waiting(component)
  return waiting && keyedOf(keyed.processor(component))?.waitsFor(waiting)
}

const discardedTo = (component: string, keyed: Keyed) => keyed.readers(`${component}.${DISCARDED}`)
