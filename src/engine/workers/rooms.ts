import { CHUNK_BYTES } from '../../lib/lines/chunk-memory.js'

/** A full chunk of lines of 50 bytes and more, with what a record adds to each. */
export const ROOM_BYTES = CHUNK_BYTES + 16 * 1024
/** Most rooms kept for reuse. */
const MOST_KEPT = 24

/**
 * The memory of large records. The main thread sends it back, and it is used again: fresh memory would cost page faults.
 * Memory that never comes back does no harm.
 */
export class Rooms {
  readonly #kept: ArrayBuffer[] = []

  /** Memory for a record of `size` bytes. */
  take(size: number): Buffer {
    if (size > ROOM_BYTES || size < ROOM_BYTES / 4) return Buffer.allocUnsafeSlow(size)
    return Buffer.from(this.#kept.pop() ?? Buffer.allocUnsafeSlow(ROOM_BYTES).buffer)
  }

  give(room: ArrayBuffer): void {
    if (this.#kept.length < MOST_KEPT) this.#kept.push(room)
  }
}

/** Whether the memory of a record is worth sending back. */
export function isRoom({ byteLength }: ArrayBuffer): boolean {
  return byteLength === ROOM_BYTES
}
