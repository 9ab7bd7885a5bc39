import { portionAfter, roomForPortion } from './chunk-pool.js'
import type { Frame } from './line-splitter.js'

interface Divider {
  /** Bytes of the unfinished line or record. */
  readonly pending: number
  /** `room`: the space to reserve for the bytes. */
  push(bytes: Buffer, room: number): Frame | undefined
}

/** Passes on bytes of a stream, if possible only as many as fit into reused memory. Returns the number of bytes. */
export function pushPortion(divider: Divider, bytes: Buffer, take: (frame: Frame) => void): number {
  const size = portionAfter(divider.pending, bytes.length)
  const frame = divider.push(bytes.subarray(0, size), roomForPortion(size))
  if (frame) take(frame)
  return size
}
