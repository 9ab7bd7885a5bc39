import type { EventBatch } from '../core/event/batch.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { equalStrings, UNKNOWN } from '../core/event/plain-strings.js'
import type { ValueTest } from './operators.js'

/**
 * Tests all events of a batch at once, which takes a fraction of the time of as many calls. Sets the first numbers of
 * `to` to 1 for events that satisfy a condition, and to 0 for others. False: it cannot, and what it has set means nothing.
 */
export type BatchTest = (batch: EventBatch, to: Uint8Array) => boolean

/** Tests whether a field is a text; `holds` tests a value that is no plain string. */
export function equalInBatch(reader: FieldReader, value: string, holds: ValueTest): BatchTest {
  const text = Buffer.from(value)
  return (batch, to) => {
    const slot = reader.slotIn(batch)
    const unknown = slot < 0 ? undefined : equalStrings(batch, slot, text, to)
    if (unknown === undefined) return false
    for (let i = 0, left = unknown; left > 0; i++) {
      if (to[i] !== UNKNOWN) continue
      left--
      reader.load(batch, i)
      to[i] = holds(reader) ? 1 : 0
    }
    return true
  }
}
