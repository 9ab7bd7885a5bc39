import type { BucketState, LiveBucket } from '../../../components/throttle/keyed-processor.js'
import type { Finding } from '../../../core/explain.js'
import { formatDuration, formatSize } from '../../../lib/units.js'
import { discardedText } from '../../inspect/discarded-text.js'
import type { AskPast } from './past.js'

/** Asks a daemon for the state of a bucket; undefined if the daemon does not have the bucket. */
export type AskBucket = (
  dataDir: string,
  component: string,
  key: string | null,
  rule: string | null | undefined,
) => Promise<LiveBucket | undefined>

/** Questions to the daemon that uses the given `data_dir`. */
export interface AskDaemon {
  readonly bucket: AskBucket
  /** The problems of the daemon's destinations, in words, by id. */
  problems(dataDir: string): Promise<ReadonlyMap<string, string>>
  readonly past: AskPast
}

/** State of an event's bucket in the running daemon. */
export interface LiveBucketState {
  /** Undefined if the daemon does not report a state. */
  readonly bucket?: LiveBucket
  readonly findings: readonly Finding[]
  /** Whether the bucket is full, so that the event would be over the limit. */
  readonly isFull: boolean
}

const UNKNOWN: Finding = {
  text: 'now: not known; the daemon does not run this component, or the key is too long to look up',
}

/** Asks the daemon for the bucket that `findings` name. Undefined if `findings` do not name a bucket. */
export async function liveBucket(
  component: string,
  findings: readonly Finding[],
  ask: (component: string, key: string | null, rule: string | null | undefined) => Promise<LiveBucket | undefined>,
): Promise<LiveBucketState | undefined> {
  const key = findings.find(finding => finding.bucket !== undefined)?.bucket
  if (key === undefined) return undefined
  const rule = findings.find(finding => finding.rule !== undefined)?.rule
  const bucket = await ask(component, key, rule)
  if (!bucket) return { findings: [UNKNOWN], isFull: false }
  const { used, limit, outage, since, until } = bucket
  const time = findings.find(finding => finding.time !== undefined)?.time
  // An event with a time of its own may count in another window than the open one.
  const isElsewhere =
    time !== undefined && since !== undefined && (time < Date.parse(since) || time >= Date.parse(until!))
  const isFull = outage === undefined && used !== undefined && limit !== undefined && used >= limit && !isElsewhere
  return { bucket, findings: liveFindings(bucket), isFull }
}

function liveFindings({ discarded_to: readers, waiting, ...state }: LiveBucket): Finding[] {
  const about = state.is_exact ? '' : 'about '
  const lost = `now: ${about}${state.discarded_last_hour} of its events were discarded in the last hour`
  const outage = state.outage && [
    {
      text: `now: the server of the cluster limit has not replied since ${state.outage.since}: ${state.outage.reason}`,
    },
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
  const span = since === undefined ? 'no window is open' : `the window is open from ${since} to ${until}`
  const bucket = rule === undefined ? 'its bucket' : `its bucket under ${rule}`
  const text = `now: ${bucket} has passed ${what}${amount(used)} of ${amount(limit)} in ${formatDuration(windowMs)}; ${span}`
  return [{ text }]
}
