import { type Frame, LINE_END } from './line-splitter.js'

/** Removes lines for which `isLeftOut` returns true, except for parts of an over-long line. Changes the columns. */
export function withoutLines(frame: Frame, isLeftOut: (chunk: Buffer, start: number, end: number) => boolean): Frame {
  const { chunk, starts, ends, flags } = frame
  let { bytes } = frame
  let kept = 0
  for (let i = 0; i < frame.length; i++) {
    if (flags[i]! <= LINE_END && isLeftOut(chunk, starts[i]!, ends[i]!)) {
      bytes -= ends[i]! - starts[i]! + flags[i]!
      continue
    }
    starts[kept] = starts[i]!
    ends[kept] = ends[i]!
    flags[kept++] = flags[i]!
  }
  return kept === frame.length ? frame : { ...frame, length: kept, bytes, isRun: false }
}
