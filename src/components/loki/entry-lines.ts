import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { type LineMemory, type Lines, MOST_LINES } from '../../lib/kernel/line-memory.js'

export interface EntryExports {
  writeEntries(
    length: number,
    starts: number,
    ends: number,
    shift: number,
    seconds: number,
    nanos: number,
    to: number,
  ): number
}

/** Maximum bytes of an entry without its line, plus the bytes that may be written beyond the entry. */
const ENTRY_BYTES = 64
/** The kernel writes seconds of 10 digits and 32 bits: the years 2001 to 2106. */
const [FIRST, LAST] = [1_000_000_000, 2 ** 32 - 1]

/** Writes lines as entries of a push request in protobuf. */
export class EntryLines {
  readonly #code: EntryExports
  readonly #memory: LineMemory
  readonly #seconds: Uint32Array
  readonly #nanos: Uint32Array

  constructor(code: EntryExports, memory: LineMemory) {
    const { buffer } = memory.bytes
    this.#code = code
    this.#memory = memory
    this.#seconds = new Uint32Array(buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#nanos = new Uint32Array(buffer, memory.take(MOST_LINES * 4), MOST_LINES)
  }

  /**
   * Adds the entries of the lines from `from` on, as many as fit. `readTime`: reads the time of a line into `unix`.
   * Returns the index after these lines; `from` if the line or its time needs another writer.
   */
  write(
    lines: Lines,
    from: number,
    { unix, readTime }: { readonly unix: { seconds: number; nanos: number }; readTime(i: number): void },
    to: GrowingBytes,
  ): number {
    const { starts, ends } = lines
    const { output } = this.#memory
    const most = Math.min(lines.length, from + MOST_LINES)
    let room = output.length
    let until = from
    for (; until < most; until++) {
      room -= ends[until]! - starts[until]! + ENTRY_BYTES
      if (room < 0) break
      readTime(until)
      if (unix.seconds < FIRST || unix.seconds > LAST) break
      this.#seconds[until - from] = unix.seconds
      this.#nanos[until - from] = unix.nanos
    }
    const end = this.#memory.put({ ...lines, length: until }, from, 0)
    if (end === from) return from
    const stop = this.#code.writeEntries(
      end - from,
      this.#memory.starts.byteOffset,
      this.#memory.ends.byteOffset,
      this.#memory.shift(lines, from),
      this.#seconds.byteOffset,
      this.#nanos.byteOffset,
      output.byteOffset,
    )
    to.add(output, 0, stop - output.byteOffset)
    return end
  }
}
