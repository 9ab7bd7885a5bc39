import { Byte, byteAt, findByte } from '../../../../lib/kernel/assembly/bytes'
import { escaped, stringEndAt } from '../../../../lib/kernel/assembly/json-scalars'
import { putString, putText } from '../../../../lib/kernel/assembly/members'

/** Reads usual whole lines of Docker, like core/codecs/docker_json/docker_json.ts: `{"log":"…\n","stream":"…","time":"…"}`. */

/** The fields, in the order of DOCKER_LINES. */
const MESSAGE: u32 = 0
const TIMESTAMP: u32 = 1
const STREAM: u32 = 2

/** `{"log":"` before the text, `,"stream` after the text, and `,"time":` after the stream. */
const HEAD: u64 = 0x223a22676f6c227b
const STREAM_NAME: u64 = 0x6d6165727473222c
const TIME_NAME: u64 = 0x3a22656d6974222c
/** `":"`, in a u32 without its highest byte. */
const COLON: u32 = 0x223a22
const CLOSE: u32 = 0x7d
const N: u32 = 0x6e
const R: u32 = 0x72

/** Whether the string content [start, end) ends with an escape of `letter`, such as `\n`. */
function endsWithEscape(start: usize, end: usize, letter: u32): bool {
  let p = end - 1
  if (p <= start || byteAt(p) != letter) return false
  while (p > start && byteAt(p - 1) == Byte.BACKSLASH) p--
  return ((end - 1 - p) & 1) == 1
}

/** Reads the line [p, end). Returns false for a line that it leaves to JavaScript. */
export function readDockerLine(p: usize, end: usize): bool {
  if (load<u64>(p) != HEAD) return false
  const log = p + 8
  const logEnd = stringEndAt(log)
  // If the text does not end with a line end, this line is a part of a divided line.
  if (!logEnd || !escaped || !endsWithEscape(log, logEnd, N)) return false
  if (load<u64>(logEnd + 1) != STREAM_NAME || (load<u32>(logEnd + 9) & 0xffffff) != COLON) return false
  const stream = logEnd + 12
  const streamEnd = stringEndAt(stream)
  if (!streamEnd || escaped || load<u64>(streamEnd + 1) != TIME_NAME || byteAt(streamEnd + 9) != Byte.QUOTE) return false
  const time = streamEnd + 10
  const timeEnd = stringEndAt(time)
  if (!timeEnd || escaped || byteAt(timeEnd + 1) != CLOSE || timeEnd + 2 != end) return false
  const textEnd = endsWithEscape(log, logEnd - 2, R) ? logEnd - 4 : logEnd - 2
  putText(STREAM, stream, streamEnd)
  putText(TIMESTAMP, time, timeEnd)
  if (findByte(log, textEnd, <u8>Byte.BACKSLASH) == textEnd) putText(MESSAGE, log, textEnd)
  else putString(MESSAGE, log, textEnd)
  return true
}
