import type { EventBatch } from '../event/batch.js'
import type { FieldReader } from '../event/field-reader.js'
import { narrowByStrings, UNKNOWN } from '../event/plain-strings.js'
import type { ValueTest } from './operators.js'

/** Tests all events of a batch in one call. This takes a fraction of the time of separate calls. */

/**
 * For each event `i` that does not satisfy a condition, sets `among[i]` to 0. Before the call, `among[i]` is 1 for each
 * event to test and 0 for each event to skip.
 */
export type Narrow = (batch: EventBatch, among: Uint8Array) => void

/** Texts that can also be numbers or booleans. */
const OF_OTHER_KINDS = /^(?:true|false|-?(?:\d|Infinity))/

type Holds = (batch: EventBatch, i: number) => boolean

export function narrowEach(holds: Holds): Narrow {
  return (batch, among) => {
    for (let i = 0; i < batch.length; i++) if (among[i] === 1 && !holds(batch, i)) among[i] = 0
  }
}

export function narrowValues(reader: FieldReader, holds: ValueTest): Narrow {
  return (batch, among) => reader.narrow(batch, among, holds)
}

/** Tests whether a value equals a text or, if `same` is false, differs from the text. */
export function narrowTexts(reader: FieldReader, value: string, same: boolean, holds: ValueTest): Narrow {
  const wanted = { text: Buffer.from(value), same, isString: !OF_OTHER_KINDS.test(value) }
  const values = narrowValues(reader, holds)
  return (batch, among) => {
    const slot = reader.slotIn(batch)
    const unknown = slot < 0 ? undefined : narrowByStrings(batch, slot, wanted, among)
    if (unknown === undefined) values(batch, among)
    for (let i = 0, left = unknown ?? 0; left > 0; i++) {
      if (among[i] !== UNKNOWN) continue
      left--
      reader.load(batch, i)
      among[i] = holds(reader) ? 1 : 0
    }
  }
}

export function narrowByAll(terms: readonly Narrow[]): Narrow {
  return (batch, among) => {
    for (const term of terms) term(batch, among)
  }
}

export function narrowByNot(term: Narrow): Narrow {
  let held = new Uint8Array(0)
  return (batch, among) => {
    const { length } = batch
    if (held.length < length) held = new Uint8Array(length * 2)
    held.set(among.subarray(0, length))
    term(batch, held)
    for (let i = 0; i < length; i++) among[i]! -= held[i]!
  }
}

/** At least one term holds unless the negations of all terms hold (De Morgan's law). */
export function narrowByAny(terms: readonly Narrow[]): Narrow {
  return narrowByNot(narrowByAll(terms.map(narrowByNot)))
}
