import { crc32 } from 'node:zlib'
import { readSync } from '../../../lib/files/disk/disk.js'
import { fingerprint } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Slices } from '../slices.js'
import type { Candidate } from './copy.js'

const PORTION_BYTES = 64 * 1024

/**
 * Whether a compressed file has just the beginning of one of these open files, as when lines were written to it while it
 * was compressed. Only what was read of the open file counts.
 */
export async function isBeginningOf(
  candidate: Candidate,
  tailers: readonly Tailer[],
  slices: Slices,
): Promise<boolean> {
  for (const tailer of tailers)
    if (mayBegin(candidate, tailer) && (await begins(candidate, tailer, slices))) return true
  return false
}

function mayBegin({ size, first }: Candidate, { sought: { head, offset } }: Tailer): boolean {
  return size <= offset && first.length >= head.bytes && fingerprint(first, 0, head.bytes).hash === head.hash
}

async function begins({ size, crc }: Candidate, tailer: Tailer, slices: Slices): Promise<boolean> {
  const { fd } = tailer
  const portion = Buffer.allocUnsafe(PORTION_BYTES)
  let sum = 0
  for (let at = 0; at < size; ) {
    if (slices.due) await slices.pause()
    // Another file may have its descriptor by then.
    if (fd === undefined || tailer.fd !== fd) return false
    const length = readSync(fd, portion, 0, Math.min(portion.length, size - at), at)
    if (length === 0) return false
    sum = crc32(portion.subarray(0, length), sum)
    at += length
  }
  return sum === crc
}
