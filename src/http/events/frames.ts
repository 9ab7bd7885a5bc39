import { type Frame, LINE_END, LineSplitter } from '../../lib/lines/line-splitter.js'
import type { Content } from './checks.js'
import { linesOfJson } from './json-body.js'

/** Bytes of a body per frame. Small chunks limit what is retained of a large body. */
export const PORTION_BYTES = 256 * 1024
const LF = 0x0a

/** Splits a body into lines, in frames of limited size. Needs room for one byte after `size`; modifies the body. */
export function* framesOf(
  bytes: Buffer,
  size: number,
  content: Content,
  maxLineBytes: number,
): Generator<{ frame: Frame; pieces: number }> {
  const marked = content !== 'text' && size >= 3 && bytes.readUIntBE(0, 3) === 0xefbbbf
  const body = marked ? bytes.subarray(3) : bytes
  let end = marked ? size - 3 : size
  if (content === 'json') end = linesOfJson(body, end)
  else if (end > 0 && body[end - 1] !== LF) body[end++] = LF
  const splitter = new LineSplitter(maxLineBytes)
  let pieces = 0
  for (let at = 0; at < end; at += PORTION_BYTES) {
    const lines = splitter.push(body.subarray(at, Math.min(end, at + PORTION_BYTES)))
    const frame = lines && content === 'lines' ? withoutBlankLines(lines) : lines
    if (frame && frame.length > 0) yield { frame, pieces: splitter.pieces - pieces }
    pieces = splitter.pieces
  }
  splitter.release()
}

/** Removes blank lines, which have no meaning in JSON lines. */
function withoutBlankLines(frame: Frame): Frame {
  const { chunk, starts, ends, flags } = frame
  let { bytes } = frame
  let kept = 0
  for (let i = 0; i < frame.length; i++) {
    if (isBlank(chunk, starts[i]!, ends[i]!) && flags[i]! <= LINE_END) {
      bytes -= ends[i]! - starts[i]! + flags[i]!
      continue
    }
    starts[kept] = starts[i]!
    ends[kept] = ends[i]!
    flags[kept++] = flags[i]!
  }
  return { ...frame, length: kept, bytes }
}

function isBlank(chunk: Buffer, start: number, end: number): boolean {
  while (start < end && (chunk[start] === 0x20 || chunk[start] === 0x09 || chunk[start] === 0x0d)) start++
  return start === end
}
