import { checkRecords, type FramedSplitter, type Framing, FramingError } from '../../../lib/lines/framed-splitter.js'
import { type Frame, LineSplitter } from '../../../lib/lines/line-splitter.js'
import { withoutLines } from '../../../lib/lines/without-lines.js'
import { Refusal } from '../server/refusal.js'
import type { BodyFormat } from './checks.js'
import { linesOfJson } from './json-body.js'

/** Bytes of a body per frame. An unsettled event keeps only its frame's chunk in memory, not the whole body. */
export const PORTION_BYTES = 256 * 1024
const LF = 0x0a

export interface EventPortion {
  readonly frame: Frame
  readonly pieces: number
}

/** Splits a body into lines, in frames of limited size. Modifies the body, which needs room for one more byte. */
export function* framesOf(
  bytes: Buffer,
  size: number,
  content: BodyFormat,
  maxLineBytes: number,
): Generator<EventPortion> {
  const marked = size >= 3 && bytes.readUIntBE(0, 3) === 0xefbbbf
  const body = marked ? bytes.subarray(3) : bytes
  let end = marked ? size - 3 : size
  if (content === 'json') end = linesOfJson(body, end)
  else if (end > 0 && body[end - 1] !== LF) body[end++] = LF
  yield* portionsOf(body.subarray(0, end), new LineSplitter(maxLineBytes), content === 'lines')
}

/** Splits a body into a codec's records. If a record is incomplete, throws a Refusal and yields no record. */
export function* recordsOf(body: Buffer, framing: Framing, splitter: FramedSplitter): Generator<EventPortion> {
  try {
    checkRecords(framing, body)
  } catch (error) {
    if (!(error instanceof FramingError)) throw error
    const text = `byte ${error.at} of the body: ${error.message}; no events of this request were accepted`
    throw new Refusal(400, 'malformed', text)
  }
  yield* portionsOf(body, splitter, false, framing.isWhole ? body.length : PORTION_BYTES)
}

function* portionsOf(
  body: Buffer,
  splitter: LineSplitter,
  skipsBlank = false,
  size = PORTION_BYTES,
): Generator<EventPortion> {
  let pieces = 0
  try {
    for (let at = 0; at < body.length; at += size) {
      const lines = splitter.push(body.subarray(at, at + size))
      const frame = lines && skipsBlank ? withoutLines(lines, isBlank) : lines
      if (frame && frame.length > 0) yield { frame, pieces: splitter.pieces - pieces }
      else frame?.release?.()
      pieces = splitter.pieces
    }
    if (splitter.problem) throw splitter.problem
  } finally {
    splitter.drop()
  }
}

/** Blank lines have no meaning in JSON lines. */
function isBlank(chunk: Buffer, start: number, end: number): boolean {
  while (start < end && (chunk[start] === 0x20 || chunk[start] === 0x09 || chunk[start] === 0x0d)) start++
  return start === end
}
