import { SLOT } from '../../lib/formats/json-scan.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { WantedText } from '../../lib/kernel/strings.js'
import type { EventBatch } from './batch.js'
import { DECODED, INVALID, MODIFIED } from './flags.js'

/**
 * Tests a field's values in all lines of a batch in one call. Handles only strings without escapes. A FieldReader must
 * read all other values.
 */

/** The flags of lines that can contain strings without escapes. */
export const PLAIN = { mask: DECODED | INVALID | MODIFIED, plain: DECODED }
/** Like PLAIN, for the texts of changed events. */
export const PLAIN_TEXT = { mask: INVALID | MODIFIED, plain: MODIFIED }
/** Marks a value that a FieldReader must test. */
export const UNKNOWN = 2

/**
 * Tests the value in `slot` of each event that has a 1 in `among`. Sets that 1 to 0 if the value does not match, or to
 * UNKNOWN if a reader must test the value. Returns the number of UNKNOWN values; undefined if the kernel is
 * unavailable.
 */
export function narrowByStrings(
  batch: EventBatch,
  slot: number,
  wanted: WantedText,
  among: Uint8Array,
): number | undefined {
  return theKernel()?.strings.narrow(batch, slot * SLOT, wanted, among, PLAIN)
}
