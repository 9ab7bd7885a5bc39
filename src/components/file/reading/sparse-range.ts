import { fstatSync } from '../../../lib/files/disk/disk.js'

/** Unit of `blocks` in a stat. */
const BLOCK_BYTES = 512

/**
 * Skips the hole at the beginning of a file. After a truncation, a program that does not append but writes at its old
 * position leaves a hole. The hole consists of NUL bytes that were never written and would become part of the next
 * line. If all blocks of the file exist, its NUL bytes are data.
 */
export class SparseRange {
  #mayContinue: boolean
  #bytes = 0

  /** `offset`: where reading starts. */
  constructor(offset: number) {
    this.#mayContinue = offset === 0
  }

  /**
   * Returns how many of the next `length` bytes are in the hole. When the hole ends, calls `onEnd` with the hole size.
   */
  skip(fd: number | undefined, next: Buffer, length: number, onEnd: (bytes: number) => void): number {
    if (!this.#mayContinue) return 0
    let bytes = 0
    if (next[0] === 0 && fd !== undefined && isSparse(fd)) while (bytes < length && next[bytes] === 0) bytes++
    this.#bytes += bytes
    this.#mayContinue = bytes === length
    if (!this.#mayContinue && this.#bytes > 0) onEnd(this.#bytes)
    return bytes
  }
}

function isSparse(fd: number): boolean {
  const { blocks, size } = fstatSync(fd)
  return blocks * BLOCK_BYTES < size
}
