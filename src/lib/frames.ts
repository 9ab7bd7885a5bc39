/**
 * Frames for a pipe between two processes. A frame consists of two sizes (of its head and of its bytes), the head, and
 * the bytes. The reader limits both sizes, so the reader throws only if the writer is at fault.
 */

/** Descriptors in a BoundedProcess: the process reads frames from the first, and writes frames to the second. */
export const TO_CHILD = 3
export const FROM_CHILD = 4

const SIZES = 8

/** Returns the sizes and the head of a frame. Send the frame's bytes after them. */
export function frameHead(head: Buffer, bytes: number): Buffer {
  const sizes = Buffer.allocUnsafe(SIZES)
  sizes.writeUInt32LE(head.length, 0)
  sizes.writeUInt32LE(bytes, 4)
  return Buffer.concat([sizes, head])
}

export function jsonHead(head: object, bytes: number): Buffer {
  return frameHead(Buffer.from(JSON.stringify(head)), bytes)
}

/** Parses a head in JSON. Throws if it has more than `most` values, because a value of one byte takes 56 in memory. */
export function readHead(head: Buffer, most: number): unknown {
  let values = 1
  let isText = false
  for (let i = 0; i < head.length; i++) {
    const byte = head[i]
    if (byte === QUOTE) isText = !isText
    else if (isText && byte === BACKSLASH) i++
    else if (!isText && (byte === COMMA || byte === BRACKET || byte === BRACE)) values++
  }
  if (values > most) throw new RangeError(`its process sent ${values} values; at most ${most} are allowed`)
  return JSON.parse(head.toString())
}

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = Buffer.from('"\\,[{')

export interface Begun {
  /** Maximum number of bytes after the head. */
  readonly most: number
  /** Receives the buffer from `room`. The bytes are at the start of the buffer. */
  readonly take: (bytes: Buffer) => void
  /** Returns a buffer of at least `size` bytes. */
  readonly room?: (size: number) => Buffer
}

/** Reads frames from portions of any size. */
export class FrameReader {
  readonly #mostHead: number
  readonly #begin: (head: Buffer) => Begun
  readonly #sizes = Buffer.alloc(SIZES)
  #begun: Begun | undefined
  #step: 'sizes' | 'head' | 'bytes' = 'sizes'
  #into: Buffer = this.#sizes
  #size = SIZES
  #got = 0

  /** `begin` receives each head, and throws if the head is unexpected. */
  constructor(mostHead: number, begin: (head: Buffer) => Begun) {
    this.#mostHead = mostHead
    this.#begin = begin
  }

  /** Throws at the first frame that is too large or unexpected. */
  push(portion: Buffer): void {
    for (let at = 0; at < portion.length; ) {
      const end = Math.min(portion.length, at + this.#size - this.#got)
      portion.copy(this.#into, this.#got, at, end)
      this.#got += end - at
      at = end
      // A part of 0 bytes is complete without further input.
      while (this.#got === this.#size) this.#next()
    }
  }

  #next(): void {
    const [sizes, into] = [this.#sizes, this.#into]
    if (this.#step === 'sizes') this.#read('head', sizes.readUInt32LE(0), this.#mostHead, allocate)
    else if (this.#step === 'head') {
      const begun = this.#begin(into)
      this.#begun = begun
      this.#read('bytes', sizes.readUInt32LE(4), begun.most, begun.room ?? allocate)
    } else {
      this.#read('sizes', SIZES, SIZES, () => sizes)
      this.#begun!.take(into)
    }
  }

  #read(step: 'sizes' | 'head' | 'bytes', size: number, most: number, room: (size: number) => Buffer): void {
    if (size > most) throw new RangeError(`its process sent ${size} bytes; at most ${most} are allowed`)
    this.#step = step
    this.#into = room(size)
    this.#size = size
    this.#got = 0
  }
}

/** Does not use the buffer pool of Node.js, because a kept buffer would keep the whole pool in memory. */
const allocate = (size: number) => Buffer.allocUnsafeSlow(size)
