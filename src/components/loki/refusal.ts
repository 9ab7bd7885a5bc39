import type { Failure } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { parseIsoTime } from '../../lib/formats/iso-time.js'
import type { Refused } from '../../net/http/client/request-format.js'
import type { PushRequest } from './push-request.js'

interface Known {
  readonly says: RegExp
  readonly reason?: string
  readonly advice: string
  /**
   * If this is set, all events fail in this way. In this case, `says` must match the beginning of the text, because
   * stream labels cannot appear there.
   */
  readonly failure?: Failure
  /** Whether the error concerns only the stream of the request. A stream is a partition. */
  readonly ofPartition?: true
  /** Returns a test for events that Loki certainly rejects, or undefined if the text does not contain the limit. */
  readonly refuses?: (text: string, push: PushRequest) => ((batch: EventBatch, i: number) => boolean) | undefined
}

function olderThan(text: string, push: PushRequest) {
  const oldest = /oldest acceptable timestamp is: ([^\s,';]+)/i.exec(text)?.[1]
  if (oldest === undefined) return undefined
  const ms = parseIsoTime(Buffer.from(oldest), 0, Buffer.byteLength(oldest))
  return (batch: EventBatch, i: number) => Number(push.nanosOf(batch, i).slice(0, -6)) < ms
}

function longerThan(text: string, push: PushRequest) {
  const most = /max entry size '?(\d+)'? bytes/i.exec(text)?.[1]
  if (most === undefined) return undefined
  return (batch: EventBatch, i: number) => Buffer.byteLength(push.lineOf(batch, i)) > Number(most)
}

/** Loki stores nanoseconds since the epoch as a signed 64-bit number. */
function outsideOfTime(_: string, push: PushRequest) {
  return (batch: EventBatch, i: number) => {
    const nanos = BigInt(push.nanosOf(batch, i))
    return nanos !== BigInt.asIntN(64, nanos)
  }
}

const KNOWN: readonly Known[] = [
  {
    says: /entry too far behind/i,
    reason: 'too_far_behind',
    refuses: olderThan,
    advice:
      'Loki rejects lines that are older than the newest line of their stream by more than half of max_chunk_age: give late events a label of their own, or raise max_chunk_age',
  },
  {
    says: /timestamp too old/i,
    reason: 'too_old',
    refuses: olderThan,
    advice: 'raise reject_old_samples_max_age of Loki, or do not read older files',
  },
  {
    says: /timestamp too new/i,
    reason: 'too_new',
    advice: 'check the clock of the host that wrote the event, or raise creation_grace_period of Loki',
  },
  {
    // Loki's errors for a time beyond its range, in JSON and in protobuf.
    says: /error found in #\d+ byte of|^timestamp: |10000-01-01/,
    reason: 'no_time',
    refuses: outsideOfTime,
    advice: 'Loki stores times from 1677 to 2262: correct the time of the event, or "timestamp"',
  },
  { says: /max entry size/i, reason: 'too_long', refuses: longerThan, advice: 'raise max_line_size of Loki' },
  {
    says: /out of order/i,
    reason: 'out_of_order',
    advice: 'this Loki accepts lines only in order: set max_in_flight: 1, or unordered_writes in Loki',
  },
  {
    says: /couldn't parse labels|label names; limit|label (name|value) too long|duplicate label|at least one label|missing required labels/i,
    reason: 'labels',
    advice: 'correct "labels", or the limit of Loki',
  },
  {
    says: /^tenant ID |^multiple org IDs present/,
    reason: 'tenant',
    advice: `a tenant can have at most 150 characters: letters, digits and !-_.*'(). Correct "tenant"`,
  },
  { says: /structured metadata/i, reason: 'metadata', advice: 'correct "structured_metadata", or the limit of Loki' },
  {
    says: /per stream rate limit/i,
    reason: 'per_stream_rate_limit',
    ofPartition: true,
    advice: 'one stream exceeds per_stream_rate_limit of Loki: raise it, or divide the stream by another label',
  },
  {
    says: /maximum active stream limit/i,
    reason: 'max_global_streams_per_user',
    ofPartition: true,
    advice: 'use labels with fewer values, or raise max_global_streams_per_user',
  },
  {
    says: /ingestion rate limit/i,
    reason: 'ingestion_rate_mb',
    advice: 'throttle the events, or raise ingestion_rate_mb of Loki',
  },
  {
    // The status is 260, or the status that `block_ingestion_status_code` sets.
    says: /^ingestion blocked/,
    reason: 'ingestion_blocked',
    advice: 'Loki rejects all events until then (block_ingestion_until)',
    failure: 'retry',
  },
  { says: /^Content-Encoding .* not supported/, advice: 'set compression: gzip', failure: 'hold' },
  { says: /^no org id/, advice: 'this Loki requires a tenant: set "tenant"', failure: 'hold' },
]

/** Returns what an error response means for the events of a request; undefined: the status alone decides. */
export function readLokiRefusal(
  status: number,
  text: string,
  push: PushRequest,
  request: readonly EventBatch[],
): Refused | undefined {
  // If the text names several causes, prefers a cause whose `refuses` finds the rejected events.
  const all = KNOWN.filter(({ says }) => says.test(text))
  const known = all.find(({ refuses }) => refuses) ?? all[0]
  const { reason, advice, failure, ofPartition } = known ?? {}
  const said = {
    ...(reason && { reason }),
    ...(advice && { advice }),
    ...(failure && { failure }),
    ...(ofPartition && { ofPartition }),
  }
  const events = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => ({ batch, i })))
  // If the request has only one event, or if the stream, the tenant or the client is the cause, dividing the request
  // does not help.
  if (failure || events.length === 1 || reason === 'labels' || reason === 'tenant') return known && said
  const groups = events.map((_, n) => (n < events.length / 2 ? 0 : 1))
  const bytesOf = ({ batch, i }: (typeof events)[0]) => Buffer.byteLength(push.lineOf(batch, i))
  if (status === 429) {
    // Loki accepts a whole request or nothing. So a request that exceeds the limit for one second may never fit.
    const isTooMuch = events.reduce((sum, event) => sum + bytesOf(event), 0) > perSecond(text)
    return isTooMuch ? { ...said, failure: 'reject', groups } : known && said
  }
  if (status !== 400) return known && said
  const isRefused = known?.refuses?.(text, push)
  const rejected = events.flatMap(({ batch, i }, n) => (isRefused?.(batch, i) ? [n] : []))
  if (rejected.length === 0) return { ...said, groups }
  // The other events are sent again. Loki may have stored some of them already, but keeps only one copy of an event.
  const isLeft = new Set(rejected)
  return { ...said, rejected, again: events.flatMap((_, n) => (isLeft.has(n) ? [] : [n])) }
}

/** Returns the text's rate limit, such as `3MB/sec` or `4194304 bytes/sec`, in bytes per second. Infinity: no limit. */
function perSecond(text: string): number {
  const [, number, unit = ''] = /limit: ([\d.]+) ?([kmg]?)b(?:ytes)?\/sec/i.exec(text) ?? []
  return number === undefined
    ? Number.POSITIVE_INFINITY
    : Number(number) * 1024 ** ' kmg'.indexOf(unit.toLowerCase() || ' ')
}
