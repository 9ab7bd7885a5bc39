import type { Failure } from '../../core/errors.js'
import { failureOf } from './answer.js'

/**
 * Answers that tell events apart: `{"errors":[{"index":3,"status":400,"message":"..."}]}`, the index of an event in its
 * request from 0; status and message may be missing. With a 2xx all that is not listed was taken; with a 4xx nothing
 * was. What is listed is refused for good, unless its own status is one that is waited for.
 */

/** What became of the events of a request; those in neither list were taken. */
export interface Divided {
  readonly failure: Failure
  readonly rejected: readonly number[]
  readonly again: readonly number[]
  /** Of the first that was refused, or else the first listed. */
  readonly status: number | undefined
  readonly message: string | undefined
}

export interface Entry {
  readonly index: number
  readonly status: number | undefined
  readonly message: string | undefined
}

/** Undefined: the answer is of another form, and its status counts for all events alike. */
export function divided(
  entries: readonly Entry[] | undefined,
  status: number,
  count: () => number,
): Divided | undefined {
  if (!entries || entries.length === 0) return undefined
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

/** Undefined: it is no list of entries. */
export function entriesOf(text: string): Entry[] | undefined {
  let errors: unknown
  try {
    errors = (JSON.parse(text) as { errors?: unknown } | null)?.errors
  } catch {
    return undefined
  }
  if (!Array.isArray(errors)) return undefined
  const entries = errors.map(entryOf)
  return entries.every(entry => entry !== undefined) ? entries : undefined
}

export function entryOf(entry: unknown): Entry | undefined {
  if (typeof entry !== 'object' || entry === null) return undefined
  const { index, status, message } = entry as { readonly [name: string]: unknown }
  if (!Number.isSafeInteger(index) || (index as number) < 0) return undefined
  const isStatus = Number.isSafeInteger(status) && (status as number) >= 300 && (status as number) < 600
  if (status !== undefined && !isStatus) return undefined
  return {
    index: index as number,
    status: status as number | undefined,
    message: typeof message === 'string' ? message : undefined,
  }
}
