import { isUtf8 } from 'node:buffer'
import { numbersFor } from '../../lib/lines/chunk-pool.js'
import { type Frame, LINE_END } from '../../lib/lines/line-splitter.js'

type Lines = Pick<Frame, 'chunk' | 'length' | 'bytes' | 'starts' | 'ends' | 'flags' | 'isRun'>

/** Returns the size of lines [from, to) with their line ends. */
export function sizeOfLines(
  { length, bytes: all, starts, ends, flags, isRun }: Lines,
  from: number,
  to: number,
): number {
  if (from === 0 && to === length) return all
  if (isRun && from < to) return ends[to - 1]! + (flags[to - 1]! & LINE_END) - starts[from]!
  let bytes = 0
  for (let i = from; i < to; i++) bytes += ends[i]! - starts[i]! + (flags[i]! & LINE_END)
  return bytes
}

/** Copies the first `length` numbers of a column. */
export function columnOf(chunk: Buffer, column: Int32Array, length: number): Int32Array {
  const copy = numbersFor(chunk, length)
  copy.set(column.subarray(0, length))
  return copy
}

/** Returns the rows at these indices. The table has `stride` numbers a row. */
export function selectedRows(rows: Int32Array, stride: number, indices: readonly number[]): Int32Array {
  const selected = new Int32Array(indices.length * stride)
  for (let to = 0; to < indices.length; to++) {
    const from = indices[to]! * stride
    for (let n = 0; n < stride; n++) selected[to * stride + n] = rows[from + n]!
  }
  return selected
}

export function areUtf8({ chunk, length, starts, ends }: Lines): boolean {
  return length === 0 || isUtf8(chunk.subarray(starts[0]!, ends[length - 1]!))
}

/** Copies lines with their line ends, without gaps, into new memory of exactly their size. */
export function compacted({ chunk: from, length, bytes, starts: begins, ends: stops, flags }: Lines) {
  const chunk = Buffer.allocUnsafeSlow(bytes)
  const [starts, ends] = [new Int32Array(length), new Int32Array(length)]
  for (let i = 0, at = 0; i < length; i++) {
    const size = stops[i]! - begins[i]!
    starts[i] = at
    ends[i] = at + size
    at += from.copy(chunk, at, begins[i]!, stops[i]! + (flags[i]! & LINE_END))
  }
  return { chunk, starts, ends }
}
