import type { BucketState, LiveBucket } from '../../../core/component.js'
import type { Finding } from '../../../core/explain.js'
import { formatDuration, formatSize } from '../../../lib/units.js'
import { discardedText } from '../../screen/discarded-text.js'

/** Asks a daemon for the state of a bucket; undefined if it has none. */
export type AskBucket = (
  dataDir: string,
  component: string,
  key: string | null,
  rule: string | null | undefined,
) => Promise<LiveBucket | undefined>

/** A step with the state of its bucket. */
type Live<S> = S & { readonly bucket?: LiveBucket }

const UNKNOWN: Finding = {
  text: 'now: not known; the daemon does not run this component, or the key is too long to ask about it',
}

/** Adds to each step the state of the bucket that its findings name. `ask` asks for it. */
export async function withLiveBuckets<S extends { readonly id: string; readonly findings?: readonly Finding[] }>(
  steps: readonly S[],
  ask: (component: string, key: string | null, rule: string | null | undefined) => Promise<LiveBucket | undefined>,
): Promise<Live<S>[]> {
  const live: Live<S>[] = []
  for (const step of steps) {
    const key = step.findings?.find(finding => finding.bucket !== undefined)?.bucket
    const rule = step.findings?.find(finding => finding.rule !== undefined)?.rule
    const bucket = key === undefined ? undefined : await ask(step.id, key, rule)
    if (key === undefined) live.push(step)
    else {
      const findings = bucket ? liveFindings(bucket) : [UNKNOWN]
      live.push({ ...step, ...(bucket && { bucket }), findings: [...(step.findings ?? []), ...findings] })
    }
  }
  return live
}

function liveFindings({ discarded_to: readers, waiting, ...state }: LiveBucket): Finding[] {
  const about = state.is_exact ? '' : 'about '
  const lost = `now: ${about}${state.discarded_last_hour} of its events were discarded in the last hour`
  const outage = state.outage && [
    { text: `now: the server of the cluster limit does not reply since ${state.outage.since}: ${state.outage.reason}` },
    { text: `now: meanwhile ${state.outage.meanwhile}` },
  ]
  return [
    ...(outage ?? []),
    ...levelFindings(state),
    ...waitFindings(waiting),
    { text: `${lost}; ${discardedText(readers)}` },
  ]
}

function waitFindings(waiting: LiveBucket['waiting']): Finding[] {
  if (!waiting) return []
  const { events, since, options } = waiting
  const text = `now: ${events} of its events wait for room, the first of them since ${since} (${options.join('; ')})`
  return [{ text }]
}

function levelFindings({ rule, limit, unit, used, window_ms: windowMs, since, until }: BucketState): Finding[] {
  if (limit === undefined || used === undefined || windowMs === undefined) return []
  const amount = (value: number) => (unit === 'bytes' ? formatSize(value) : String(value))
  const what = unit === 'cost' ? 'a cost of ' : ''
  const span = since === undefined ? 'no window is open' : `the window is open since ${since} until ${until}`
  const bucket = rule === undefined ? 'its bucket' : `its bucket under ${rule}`
  const text = `now: ${what}${amount(used)} of ${amount(limit)} have passed of ${bucket} in ${formatDuration(windowMs)}; ${span}`
  return [{ text }]
}
