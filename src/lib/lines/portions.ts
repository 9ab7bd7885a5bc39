import { portionAfter, roomForPortion } from './chunk-pool.js'
import type { Frame } from './line-splitter.js'

/** What divides the bytes of a stream. */
interface Divider {
  /** Size of what is unfinished. */
  readonly pending: number
  /** `room`: how much space to take for them. */
  push(bytes: Buffer, room: number): Frame | undefined
}

/** Passes on as many bytes of a stream as fit into memory that is reused, if possible. Returns how many. */
export function pushPortion(divider: Divider, bytes: Buffer, take: (frame: Frame) => void): number {
  const size = portionAfter(divider.pending, bytes.length)
  const frame = divider.push(bytes.subarray(0, size), roomForPortion(size))
  if (frame) take(frame)
  return size
}
