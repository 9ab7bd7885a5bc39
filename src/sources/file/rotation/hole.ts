import { fstatSync } from '../../../lib/files/remote/guarded-fs.js'

/** Unit of `blocks` in the status of a file. */
const BLOCK_BYTES = 512

/**
 * The hole at the beginning of a file. A program that does not append, but writes where it stopped, leaves one when its
 * file is truncated: bytes that read as NUL and that nobody wrote. They would be taken for the beginning of the next
 * line. NUL bytes of a file that has all of its blocks are data.
 */
export class Hole {
  #mayContinue: boolean
  #bytes = 0

  /** `offset`: where the file is read from. */
  constructor(offset: number) {
    this.#mayContinue = offset === 0
  }

  /** How many of the next `length` bytes of the file belong to it. `onEnd` gets its size when there is one, and it ends. */
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
