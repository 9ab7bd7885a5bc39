import type { Failure } from '../../../../core/errors.js'
import { failureOf } from './statuses.js'

/** Responses that distinguish events. A listed event is rejected, unless its own status means to retry or to wait. */

/** The results for the events of a request; those in neither list were accepted. */
export interface Divided {
  readonly failure: Failure
  readonly rejected: readonly number[]
  readonly again: readonly number[]
  /** Status of the first rejected event, or of the first listed one. */
  readonly status: number | undefined
  readonly message: string | undefined
}

/** The result for one event. */
export interface Entry {
  readonly index: number
  readonly status?: number | undefined
  readonly message?: string | undefined
}

/** Undefined if the response has another form; then its status counts for all events. */
export function divided(
  listed: readonly Entry[] | undefined,
  status: number,
  count: () => number,
): Divided | undefined {
  const entries = listed?.filter(({ status = 400 }) => status >= 300) ?? []
  if (entries.length === 0) return undefined
  const events = count()
  if (entries.some(({ index }) => index >= events)) return undefined
  const taken = status < 300
  const left = new Map<number, Failure>()
  for (const { index, status = 400 } of entries) {
    const failure = failureOf(status)
    left.set(index, failure === 'retry' || failure === 'hold' ? failure : 'reject')
  }
  const rejected: number[] = []
  const again: number[] = []
  for (let index = 0; index < events; index++) {
    const failure = left.get(index)
    if (failure === 'reject') rejected.push(index)
    else if (failure !== undefined || !taken) again.push(index)
  }
  const waits = (['hold', 'retry'] as const).find(failure => [...left.values()].includes(failure))
  const told = entries.find(({ index }) => left.get(index) === 'reject') ?? entries[0]!
  return { failure: waits ?? 'reject', rejected, again, status: told.status, message: told.message }
}
