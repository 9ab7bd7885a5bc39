import { Byte, findByte } from '../../../../lib/kernel/assembly/bytes'
import { isIsoTime } from '../../../../lib/kernel/assembly/iso-time'
import { putOther, putText } from '../../../../lib/kernel/assembly/members'

/**
 * Reads whole lines of container runtimes, like core/codecs/cri/cri.ts. Leaves the parts of divided lines to JavaScript.
 */

/** The fields, in the order of CRI_LINES. */
const MESSAGE: u32 = 0
const TIMESTAMP: u32 = 1
const STREAM: u32 = 2

/** The bytes of `stdout` and `stderr`, each with the space after it, as the lower 7 bytes of a u64. */
const STREAM_BYTES: usize = 6
const STDOUT: u64 = 0x2074756f647473
const STDERR: u64 = 0x20727265647473
/** `F` and a space. */
const WHOLE: u32 = 0x2046

/** Reads the line [p, end). Returns false for a line that it leaves to JavaScript. */
export function readCriLine(p: usize, end: usize): bool {
  const stop = findByte(p, end, <u8>Byte.SPACE)
  const stream = stop + 1
  const text = stream + STREAM_BYTES + 3
  if (text > end || !isIsoTime(p, stop)) return false
  const name = load<u64>(stream) & 0xffffffffffffff
  if ((name != STDOUT && name != STDERR) || <u32>load<u16>(stream + STREAM_BYTES + 1) != WHOLE) return false
  putText(MESSAGE, text, end)
  putText(TIMESTAMP, p, stop)
  putOther(STREAM, stream, STREAM_BYTES)
  return true
}
