import type { Failure } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Refused } from '../../net/http/client/request-format.js'
import type { PushRequest } from './push-request.js'

/** What Loki says, what it is called here, and what to do about it. */
interface Known {
  readonly says: RegExp
  readonly reason?: string
  readonly advice: string
  readonly failure?: Failure
}

const KNOWN: readonly Known[] = [
  {
    says: /entry too far behind/i,
    reason: 'too_far_behind',
    advice:
      'Loki takes nothing older than half of its max_chunk_age behind the newest line of the stream: give late events a label of their own, or raise max_chunk_age',
  },
  {
    says: /timestamp too old/i,
    reason: 'too_old',
    advice: 'raise reject_old_samples_max_age of Loki, or read no older files',
  },
  {
    says: /timestamp too new/i,
    reason: 'too_new',
    advice: 'check the clock of the host that wrote the event, or raise creation_grace_period of Loki',
  },
  { says: /max entry size/i, reason: 'too_long', advice: 'raise max_line_size of Loki' },
  {
    says: /out of order/i,
    reason: 'out_of_order',
    advice: 'this Loki takes lines in their order only: set max_in_flight: 1, or unordered_writes in Loki',
  },
  {
    says: /label names; limit|label (name|value) too long|duplicate label|at least one label/i,
    reason: 'labels',
    advice: 'correct "labels", or the limit of Loki',
  },
  { says: /structured metadata/i, reason: 'metadata', advice: 'correct "structured_metadata", or the limit of Loki' },
  {
    says: /per.stream rate limit/i,
    advice: 'one stream has more than per_stream_rate_limit of Loki: raise it, or divide the stream by another label',
  },
  {
    says: /maximum active stream limit/i,
    advice: 'use labels with fewer values, or raise max_global_streams_per_user',
  },
  { says: /ingestion rate limit/i, advice: 'throttle the events, or raise ingestion_rate_mb of Loki' },
  { says: /no org id/i, advice: 'this Loki has tenants: set "tenant"', failure: 'hold' },
]

/** The meaning of an error response for the events of a request; undefined: what its status says. */
export function readRefusal(
  status: number,
  text: string,
  push: PushRequest,
  request: readonly EventBatch[],
): Refused | undefined {
  const known = KNOWN.find(({ says }) => says.test(text))
  const { reason, advice, failure } = known ?? {}
  const said = { ...(reason && { reason }), ...(advice && { advice }), ...(failure && { failure }) }
  if (status !== 400 || failure) return known && said
  const events = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => ({ batch, i })))
  if (events.length === 1) return known && said
  // What a stream is refused for says nothing about the others, and Loki names one of them only.
  const streams = events.map(({ batch, i }) => push.labelsOf(batch, i))
  const numbers = new Map([...new Set(streams)].map((labels, n) => [labels, n]))
  const isOfStream = reason === 'too_far_behind' || reason === 'out_of_order' || reason === undefined
  if (numbers.size > 1 && isOfStream) return { ...said, groups: streams.map(labels => numbers.get(labels)!) }
  const isRefused = refusedBy(text, push)
  const rejected = events.flatMap(({ batch, i }, n) => (isRefused?.(batch, i) ? [n] : []))
  if (rejected.length === 0) return { ...said, groups: events.map((_, n) => (n < events.length / 2 ? 0 : 1)) }
  // What Loki has stored it does not store again.
  const isLeft = new Set(rejected)
  return { ...said, rejected, again: events.flatMap((_, n) => (isLeft.has(n) ? [] : [n])) }
}

/** Says which events are refused for certain, as far as the text has the limit. */
function refusedBy(text: string, push: PushRequest): ((batch: EventBatch, i: number) => boolean) | undefined {
  const oldest = /oldest acceptable timestamp is: ([^\s,']+)/i.exec(text)?.[1]
  if (oldest !== undefined) {
    const ms = Date.parse(oldest)
    return (batch, i) => Number(push.nanosOf(batch, i).slice(0, -6)) < ms
  }
  const most = /max entry size '?(\d+)'? bytes/i.exec(text)?.[1]
  if (most !== undefined) return (batch, i) => Buffer.byteLength(push.lineOf(batch, i)) > Number(most)
  return undefined
}
