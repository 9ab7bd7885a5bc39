import type { EventBatch } from './event/batch.js'
import { type FieldReader, MISSING } from './event/field-reader.js'

/** One thing that was asked of an event, or is said of it. */
export interface Finding {
  readonly text: string
  /** Whether it holds; undefined: it is no question. */
  readonly holds?: boolean
  /** What the event has there, as JSON or in words. */
  readonly value?: string
  /** What it is made of. */
  readonly parts?: readonly Finding[]
}

/** What a component does with an event that is the first that it sees, and why. */
export interface Explanation {
  readonly outcome: 'passed' | 'discarded' | 'consumed' | 'delivered'
  /** Why it is discarded, as the label of the metrics. */
  readonly reason?: string
  /** The output that it leaves by, if that is not the main one. */
  readonly output?: string
  readonly findings: readonly Finding[]
  /** What is written for it; destinations only. */
  readonly bytes?: Buffer
}

/** Explains what a destination does with the one event of a batch. */
export type Explain = (batch: EventBatch) => Explanation

const LONGEST_VALUE = 100

/** The value that `reader` was moved to, for a person. */
export function shownValue(reader: FieldReader): string {
  if (reader.kind === MISSING) return 'missing'
  const text = JSON.stringify(reader.value())
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`
}

/** What is written, all parts in one. */
export function written({ parts }: { readonly parts: readonly Buffer[] }): Buffer {
  return Buffer.concat(parts)
}
