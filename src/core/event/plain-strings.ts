import { theKernel } from '../../kernel/kernel.js'
import type { HashOptions, StringColumns } from '../../kernel/strings.js'
import { SLOT } from '../../lib/formats/json-scan.js'
import type { EventBatch } from './batch.js'
import { DECODED, INVALID, MODIFIED } from './flags.js'

/**
 * The values of a field in all lines of a batch at once, as far as they are strings without escapes. Others are left to
 * a FieldReader.
 */

const PLAIN = { mask: DECODED | INVALID | MODIFIED, plain: DECODED }
/** What `equalStrings` writes for a value that is left to a reader. */
export const UNKNOWN = 2
/** Writes 1 for each event whose value in `slot` is the text, 0 or UNKNOWN for others. Returns how many are UNKNOWN. */
export function equalStrings(batch: EventBatch, slot: number, text: Buffer, to: Uint8Array): number | undefined {
  return theKernel()?.strings.equal(batch, slot * SLOT, text, to, PLAIN)
}

/** Finds the values in `slot`, as Strings does in the kernel. False: it cannot. */
export function hashStrings(
  batch: EventBatch,
  slot: number,
  options: HashOptions,
  skipped: Uint8Array | undefined,
  to: StringColumns,
): boolean {
  return theKernel()?.strings.hash(batch, slot * SLOT, options, skipped, to, PLAIN) ?? false
}
