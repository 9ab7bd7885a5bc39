import { discard, FAILED, MAIN, output } from '../../../core/processor.js'
import { objectEnd } from '../../../lib/formats/json-scan.js'
import type { DoneHead, FromScript, JobDone } from './messages.js'
import { LONGEST_ERROR, mostTexts } from './results.js'
import { LONGEST_LINE } from './written-lines.js'

/**
 * Validates messages from the process of a script, because these messages are untrusted input. The functions throw if a
 * message is invalid.
 */

/** A batch whose result is awaited. */
export interface Expected {
  readonly length: number
  /** Bytes of its lines. */
  readonly bytes: number
  readonly isNoted: boolean
  /** The event whose call the process reported last. */
  readonly at: number | undefined
}

const LF = 0x0a
/** Bytes per event: a start, an end and a value of the column. */
const COLUMN_BYTES = 9

function demand(holds: boolean, what: string): asserts holds {
  if (!holds) throw new TypeError(`its process sent ${what}`)
}

const isIndex = (value: unknown, length: number): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < length

/** Returns the head of a message. `expected`: a function that returns the awaited batch with this id. */
export function checkedHead(head: unknown, expected: (id: unknown) => Expected | undefined): FromScript {
  demand(typeof head === 'object' && head !== null, 'a head that is not an object')
  const { type, error, line, id, event, several, errors } = head as Record<string, unknown>
  if (type === 'ready') return { type }
  if (type === 'failed' && typeof error === 'string') return { type, error: error.slice(0, LONGEST_ERROR) }
  if (type === 'wrote' && typeof line === 'string') return { type, line: line.slice(0, LONGEST_LINE) }
  const batch = expected(id)
  demand(batch !== undefined, 'an answer to a batch that is not pending')
  const { length } = batch
  if (type === 'at') {
    demand(batch.isNoted && isIndex(event, length) && event > (batch.at ?? -1), 'an event that is not the next one')
    return { type, id: id as number, event }
  }
  demand(type === 'done', 'a message of an unknown type')
  demand(Array.isArray(several) && new Set(several).size === several.length, 'replaced events that are not a list')
  demand(
    several.every(i => isIndex(i, length)),
    'replaced events that do not exist',
  )
  demand(
    Array.isArray(errors) && errors.length <= length && errors.every(one => isReason(one, length)),
    'errors that are not valid',
  )
  return { type, id: id as number, several, errors }
}

function isReason(one: unknown, length: number): one is [number, string] {
  if (!Array.isArray(one)) return false
  const [i, error] = one
  return isIndex(i, length) && typeof error === 'string' && error.length <= LONGEST_ERROR
}

/** Maximum bytes after the head of an answer. */
export function mostBytes({ length, bytes }: Expected): number {
  return length * COLUMN_BYTES + mostTexts(length, bytes)
}

/** Whether each line of [start, last) is a JSON object. Readers of events rely on this. A line feed is at `last`. */
function areObjects(bytes: Buffer, start: number, last: number): boolean {
  for (let at = start; at <= last; ) {
    const end = bytes.indexOf(LF, at)
    if (objectEnd(bytes, at, end) !== end) return false
    at = end + 1
  }
  return true
}

/** `frame`: columns of the answer, followed by the new lines. `outputs`: number of outputs besides the main one. */
export function checkedDone(head: DoneHead, length: number, outputs: number, frame: Buffer): JobDone {
  demand(frame.length >= length * COLUMN_BYTES, 'columns that are too short')
  const { buffer, byteOffset } = frame
  const starts = new Int32Array(buffer, byteOffset, length)
  const ends = new Int32Array(buffer, byteOffset + length * 4, length)
  const to = frame.subarray(length * 8, length * COLUMN_BYTES)
  const bytes = frame.subarray(length * COLUMN_BYTES)
  const several = new Set(head.several)
  let sum = 0
  for (let i = 0; i < length; i++) {
    const value = to[i]!
    const passes = value === MAIN || value < output(outputs)
    demand(passes || value === FAILED || value === discard(0), 'an event that goes nowhere')
    const [start, end] = [starts[i]!, ends[i]!]
    if (end === 0 && !several.has(i)) continue
    demand(passes && start >= 0 && start < end && end <= bytes.length, 'a place of an event that does not exist')
    const last = several.has(i) ? end - 1 : end
    demand(bytes[last] === LF && (several.has(i) || bytes.indexOf(LF, start) === end), 'an event that is not a line')
    demand(areObjects(bytes, start, last), 'an event that is not a JSON object')
    sum += last + 1 - start
  }
  demand(sum === bytes.length, 'bytes that do not belong to an event')
  demand(
    head.errors.every(([i]) => to[i] === FAILED),
    'an error of an event that passes',
  )
  return { ...head, starts, ends, to, bytes }
}
