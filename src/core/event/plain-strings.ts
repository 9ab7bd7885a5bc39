import { SLOT } from '../../lib/formats/json-scan.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { WantedText } from '../../lib/kernel/strings.js'
import type { EventBatch } from './batch.js'
import { DECODED, INVALID, MODIFIED } from './flags.js'

/**
 * The values of a field in all lines of a batch at once, as far as they are strings without escapes. Others are left to
 * a FieldReader.
 */

/** The flags of lines that may have them. */
export const PLAIN = { mask: DECODED | INVALID | MODIFIED, plain: DECODED }
/** What `narrowStrings` writes for a value that is left to a reader. */
export const UNKNOWN = 2

/**
 * Where a number in `among` is 1, sets it to 0 if the value in `slot` is not what is wanted, or to UNKNOWN. Returns how
 * many are UNKNOWN; undefined: it cannot.
 */
export function narrowStrings(
  batch: EventBatch,
  slot: number,
  wanted: WantedText,
  among: Uint8Array,
): number | undefined {
  return theKernel()?.strings.narrow(batch, slot * SLOT, wanted, among, PLAIN)
}
