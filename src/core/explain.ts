import { type Encoding, encodeAlone } from './codecs/encode.js'
import type { EventBatch } from './event/batch.js'
import { type FieldReader, MISSING, STRING_VALUE } from './event/field-reader.js'

/** An example of a component for the reference. The tests run it. */
export interface Example {
  readonly title: string
  /** The component's options as YAML, without `type` and `inputs`. */
  readonly yaml: string
  /** The content of each file that the options refer to as `./NAME`, by NAME. */
  readonly files?: Readonly<Record<string, string>>
  /** Input and output as NDJSON lines. For processors only. */
  readonly input?: readonly string[]
  readonly output?: readonly string[]
  /** NDJSON lines of the side outputs, by name. */
  readonly outputs?: Readonly<Record<string, readonly string[]>>
}

export interface MadeLines {
  /** One line per event, in the form that the source processes. */
  readonly lines: Buffer
  /** Describes the input: `an entry of the journal`. */
  readonly of: string
}

/** A condition and whether it holds for an event, or a statement about the event. */
export interface Finding {
  readonly text: string
  /** Whether the condition holds; undefined for a statement. */
  readonly holds?: boolean
  /** The event's value, as JSON or in words. */
  readonly value?: string
  readonly parts?: readonly Finding[]
  /** The name of the bucket that counts the event; null: the default bucket. */
  readonly bucket?: string | null
  /** The rule that applies to the event in that bucket; null if no rule applies. */
  readonly rule?: string | null
  /** The event's own time, in milliseconds since the epoch, if it counts at this time. */
  readonly time?: number
}

/** What a component would do with an event if it were the first to arrive, and why. */
export interface Explanation {
  readonly outcome: 'passed' | 'discarded' | 'consumed' | 'delivered'
  /** The discard reason, as in the metric label. */
  readonly reason?: string
  /** The side output that receives the event, if any. */
  readonly output?: string
  /** The outputs that receive the event, if it goes to several; '' is the main output. */
  readonly outputs?: readonly string[]
  readonly findings: readonly Finding[]
  /** The bytes that a destination writes for the event. */
  readonly bytes?: Buffer
}

/** Explains what a destination does with a batch of one event. Throws DeliveryError if it rejects the event. */
export type Explain = (batch: EventBatch) => Explanation

/** Returns the reasons for a processor's decision about a batch of one event. */
export type FindingsOf = (batch: EventBatch) => readonly Finding[]

const LONGEST_VALUE = 100

/** Returns the reader's current value, shortened for display. */
export function shownValue(reader: FieldReader): string {
  if (reader.kind === MISSING) return 'missing'
  const text = reader.kind === STRING_VALUE ? JSON.stringify(reader.text()) : reader.json()
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`
}

/** Explains a destination that writes the events by themselves. `placeOf`: where it writes an event, in words. */
export const explainAlone =
  (encoding: Encoding, placeOf: (batch: EventBatch) => string): Explain =>
  batch => ({
    outcome: 'delivered',
    findings: [{ text: placeOf(batch) }],
    bytes: written(encodeAlone(encoding, [batch])),
  })

export function written({ parts }: { readonly parts: readonly Buffer[] }): Buffer {
  return Buffer.concat(parts)
}
