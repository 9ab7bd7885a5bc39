import { fstatSync } from '../../../lib/files/remote/guarded-fs.js'

/** Unit of `blocks` in a stat. */
const BLOCK_BYTES = 512

/**
 * Skips the hole at the beginning of a file. A program that does not append but writes at its old position leaves one
 * after a truncation: NUL bytes that were never written, and that would become part of the next line. NUL bytes of a
 * file with all of its blocks are data.
 */
export class Hole {
  #mayContinue: boolean
  #bytes = 0

  /** `offset`: where reading starts. */
  constructor(offset: number) {
    this.#mayContinue = offset === 0
  }

  /** How many of the next `length` bytes are part of the hole. Calls `onEnd` with the size when it ends. */
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
