import { fstatSync, unlessSilent } from '../../../lib/files/disk/disk.js'
import { fingerprintAt, same } from '../identity.js'
import type { Slices } from '../slices.js'
import type { Tailer } from './tailer.js'

/**
 * Finds open files that were truncated before they were read to their end. While a destination is blocked, no read
 * detects this, and each further rotation would leave another unknown copy. Files that `sweep` found unchanged, and that
 * were read to their end, are not looked at again.
 */
export async function findOverwritten(
  tailers: Iterable<Tailer>,
  sweep: number,
  onTruncated: (tailer: Tailer) => void,
  slices: Slices,
): Promise<void> {
  for (const tailer of tailers) {
    if (tailer.unchanged === sweep && tailer.at === tailer.size) continue
    if (slices.due) await slices.pause()
    try {
      if (isOverwritten(tailer)) onTruncated(tailer)
      else tailer.learnHead()
    } catch (error) {
      unlessSilent(error)
      // The next read fails as well and is reported.
    }
  }
}

function isOverwritten(tailer: Tailer): boolean {
  const { fd, at, size, reading, copy } = tailer
  if (fd === undefined || reading || copy) return false
  const { size: now } = fstatSync(fd)
  if (now < at) return true
  // A file that was read to its end is compared at the next read.
  if (now === at && now === size) return false
  const { head, tail } = tailer
  const holds =
    at === 0
      ? now >= size && same(fingerprintAt(fd, 0, head.bytes), head)
      : same(fingerprintAt(fd, at - tail.bytes, at), tail)
  if (holds && head.bytes > 0) tailer.sureSize = Math.max(tailer.sureSize, now)
  return !holds
}
