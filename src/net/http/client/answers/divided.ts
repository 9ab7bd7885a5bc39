import type { Failure } from '../../../../core/errors.js'
import { failureOf } from './statuses.js'

/** Interprets responses that list events. A listed error rejects its event unless its status asks to retry or wait. */

/** The results for the events of a request. Events that are neither in `rejected` nor in `again` were accepted. */
export interface Divided {
  readonly failure: Failure
  readonly rejected: readonly number[]
  readonly again: readonly number[]
  /** The first event that makes the request wait or, without such an event, the first rejected event. */
  readonly first: EventResult
  /** The entries of the rejected events, in the order of `rejected`. */
  readonly refusals: readonly EventResult[]
}

/** The result for one event. */
export interface EventResult {
  readonly index: number
  readonly status?: number | undefined
  /** What becomes of the event, whatever its status is. */
  readonly failure?: 'retry' | 'reject'
  /** Default: derived from the status. */
  readonly reason?: string | undefined
  readonly message?: string | undefined
  readonly advice?: string | undefined
}

/** The result for an event that is not listed, although the receiver may have rejected it. */
const UNKNOWN: EventResult = {
  index: -1,
  reason: 'unknown_result',
  advice: 'the answer lists an error without a valid index, so it is unknown whether this event was rejected',
}

/**
 * Undefined if no entry is an error, or if no entry of an error response has a valid index. The response's status then
 * applies to all events. Indices from `countable` on are invalid.
 */
export function divided(
  listed: readonly EventResult[] | undefined,
  status: number,
  events: number,
  countable: () => number,
): Divided | undefined {
  const errors = listed?.filter(({ status = 400 }) => status >= 300) ?? []
  if (errors.length === 0) return undefined
  const end = countable()
  const entries = errors.filter(({ index }) => index >= 0 && index < end)
  const taken = status < 300
  if (entries.length === 0 && !taken) return undefined
  const unknown = taken && entries.length < errors.length && { entry: UNKNOWN, failure: 'reject' }
  const left = new Map(entries.map(entry => [entry.index, { entry, failure: failureOfEvent(entry) }]))
  const rejected: number[] = []
  const refusals: EventResult[] = []
  const again: number[] = []
  for (let index = 0; index < events; index++) {
    const found = left.get(index) ?? unknown
    if (found && found.failure === 'reject') {
      rejected.push(index)
      refusals.push(found.entry)
    } else if (found || !taken) again.push(index)
  }
  const failures = [...left.values()].map(({ failure }) => failure)
  const waits = (['hold', 'retry'] as const).find(failure => failures.includes(failure))
  const failure = waits ?? 'reject'
  const first = entries.find(entry => failureOfEvent(entry) === failure) ?? refusals[0]!
  return { failure, rejected, refusals, again, first }
}

function failureOfEvent({ status = 400, failure: own }: EventResult): Failure {
  const failure = own ?? failureOf(status)
  return failure === 'retry' || failure === 'hold' ? failure : 'reject'
}
