/**
 * The binary format of saved buckets. It has numbers (8 bytes) and whole numbers (4 bytes), both little-endian, and
 * byte strings, each after its length.
 */

const SMALLEST = 1024

export class StateWriter {
  length = 0
  #bytes = Buffer.allocUnsafeSlow(SMALLEST)
  #view = new DataView(this.#bytes.buffer)

  number(value: number): void {
    if (this.length + 8 > this.#bytes.length) this.#grow(8)
    this.#view.setFloat64(this.length, value, true)
    this.length += 8
  }

  whole(value: number): void {
    if (this.length + 4 > this.#bytes.length) this.#grow(4)
    this.#view.setUint32(this.length, value, true)
    this.length += 4
  }

  setWhole(at: number, value: number): void {
    this.#view.setUint32(at, value, true)
  }

  /** Writes the number of bytes in [start, end), then these bytes. */
  bytes(bytes: Uint8Array, start = 0, end = bytes.length): void {
    this.whole(end - start)
    if (this.length + end - start > this.#bytes.length) this.#grow(end - start)
    for (let p = start; p < end; p++) this.#bytes[this.length++] = bytes[p]!
  }

  /** The written bytes from `start` on. They are valid until more is written. */
  written(start = 0): Buffer {
    return this.#bytes.subarray(start, this.length)
  }

  #grow(by: number): void {
    const larger = Buffer.allocUnsafeSlow((this.length + by) * 2)
    this.#bytes.copy(larger, 0, 0, this.length)
    this.#bytes = larger
    this.#view = new DataView(larger.buffer)
  }
}

/** Reads the bytes that a StateWriter wrote. Throws a RangeError if read past the end. */
export class StateReader {
  readonly view: DataView
  /** The current time by the clock of the decisions. In event time, the saved progress. */
  now: number
  readonly #shiftMs: number
  /** Whether buckets have sums (CreditedWindows). */
  readonly hasSums: boolean
  #at = 0

  /** `shiftMs` is added to times, because the times were measured by another clock. */
  constructor(bytes: Uint8Array, now: number, shiftMs: number, hasSums = false) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    this.now = now
    this.#shiftMs = shiftMs
    this.hasSums = hasSums
  }

  get isAtEnd(): boolean {
    return this.#at === this.view.byteLength
  }

  number(): number {
    const value = this.view.getFloat64(this.#at, true)
    this.#at += 8
    return value
  }

  time(): number {
    return this.number() + this.#shiftMs
  }

  whole(): number {
    const value = this.view.getUint32(this.#at, true)
    this.#at += 4
    return value
  }

  /** Skips `length` bytes. Returns their offset in `view`. They end at `at`. */
  bytes(length: number): number {
    const start = this.#at
    if (length > this.view.byteLength - start) throw new RangeError('the bytes end early')
    this.#at += length
    return start
  }

  /** Reads bytes that StateWriter.bytes wrote, as text. */
  text(): string {
    const start = this.bytes(this.whole())
    return Buffer.from(this.view.buffer, this.view.byteOffset + start, this.#at - start).toString()
  }

  get at(): number {
    return this.#at
  }
}
