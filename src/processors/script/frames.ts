import { writevSync } from 'node:fs'

/**
 * What goes through a pipe between a script's process and its processor: a head in JSON with bytes behind it, and the
 * sizes of both before them.
 */
const SIZES = 8
/** Errors of a batch are the largest part of a head, see results.ts. */
const MOST_HEAD = 16 * 1024 * 1024

/** The head of a frame, and the size of its bytes. */
export function frameHead(head: object, bytes: number): Buffer {
  const text = JSON.stringify(head)
  const frame = Buffer.allocUnsafe(SIZES + Buffer.byteLength(text))
  frame.writeUInt32LE(frame.length - SIZES, 0)
  frame.writeUInt32LE(bytes, 4)
  frame.write(text, SIZES)
  return frame
}

/** Waits until the reader has taken all of it, so that nothing of it is lost when the process ends. Throws if it is gone. */
export function writeFrame(fd: number, head: object, parts: readonly Uint8Array[] = []): void {
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0)
  let rest = [frameHead(head, size), ...parts].filter(part => part.byteLength > 0)
  while (rest.length > 0) {
    let written = writevSync(fd, rest)
    rest = rest.flatMap(part => {
      const left = part.subarray(Math.min(written, part.byteLength))
      written -= part.byteLength - left.byteLength
      return left.byteLength > 0 ? [left] : []
    })
  }
}

/** A head that was understood. */
export interface Begun {
  /** How many bytes may be behind it. */
  readonly most: number
  /** Takes them. */
  readonly take: (bytes: Buffer) => void
}

/** Reads frames from the portions in which they arrive. Throws at the first one that is too large, or has no JSON. */
export class FrameReader {
  readonly #begin: (head: unknown) => Begun
  readonly #sizes = Buffer.alloc(SIZES)
  #begun: Begun | undefined
  #step: 'sizes' | 'head' | 'bytes' = 'sizes'
  #into = this.#sizes
  #got = 0

  /** `begin` throws if a head is not one that is expected. */
  constructor(begin: (head: unknown) => Begun) {
    this.#begin = begin
  }

  push(portion: Buffer): void {
    for (let at = 0; at < portion.length; ) {
      const copied = portion.copy(this.#into, this.#got, at)
      at += copied
      this.#got += copied
      // A part of no bytes is complete at once.
      while (this.#got === this.#into.length) this.#next()
    }
  }

  #next(): void {
    const [sizes, into] = [this.#sizes, this.#into]
    if (this.#step === 'sizes') this.#read('head', sizes.readUInt32LE(0), MOST_HEAD)
    else if (this.#step === 'head') {
      this.#begun = this.#begin(JSON.parse(into.toString()))
      this.#read('bytes', sizes.readUInt32LE(4), this.#begun.most)
    } else {
      this.#step = 'sizes'
      this.#into = sizes
      this.#got = 0
      this.#begun!.take(into)
    }
  }

  #read(step: 'head' | 'bytes', size: number, most: number): void {
    if (size > most) throw new RangeError(`${size} bytes where at most ${most} may be`)
    this.#step = step
    // Not from the pool of Node.js: it may be kept.
    this.#into = Buffer.allocUnsafeSlow(size)
    this.#got = 0
  }
}
