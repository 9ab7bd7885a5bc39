import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { type LineMemory, type Lines, MOST_LINES } from '../../lib/kernel/line-memory.js'
import { SUM_TABLE_BYTES, type SumExports } from '../../lib/kernel/line-sums.js'

export interface KafkaRecordExports extends Pick<SumExports, 'setSumTables' | 'sumBytes'> {
  writeKafkaRecords(
    length: number,
    starts: number,
    ends: number,
    shift: number,
    deltas: number,
    offset: number,
    headers: number,
    headersSize: number,
    to: number,
  ): number
}

/** CRC-32C (Castagnoli). */
const POLYNOMIAL = 0x82f63b78
/** Maximum bytes of a record without its value and headers, plus the bytes that may be written beyond the record. */
const RECORD_BYTES = 64
const MOST_HEADERS = 4096
/** The kernel writes differences between times in 32 bits: 24 days. */
const MOST_DELTA = 2 ** 31 - 1

/** Writes lines as the values of records without keys, and computes the checksums of record batches. */
export class KafkaRecordLines {
  readonly #code: KafkaRecordExports
  readonly #memory: LineMemory
  readonly #deltas: Int32Array
  readonly #headers: Buffer
  readonly #tables: number

  constructor(code: KafkaRecordExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    const { buffer } = memory.bytes
    this.#deltas = new Int32Array(buffer, memory.take(MOST_LINES * 4), MOST_LINES)
    this.#headers = Buffer.from(buffer, memory.take(MOST_HEADERS), MOST_HEADERS)
    this.#tables = memory.take(SUM_TABLE_BYTES)
    code.setSumTables(this.#tables, POLYNOMIAL)
  }

  /**
   * Adds the records of the lines from `from` on, as many as fit, and their times. `msOf`: the time of a line. Returns
   * the index after these lines; `from` if the line or its time needs another writer.
   */
  write(
    lines: Lines,
    from: number,
    msOf: (i: number) => number,
    headers: GrowingBytes,
    to: GrowingBytes,
    times: number[],
  ): number {
    if (headers.length > MOST_HEADERS) return from
    const { starts, ends } = lines
    const memory = this.#memory
    const [offset, most] = [times.length, Math.min(lines.length, from + MOST_LINES)]
    let room = memory.output.length
    let until = from
    for (; until < most; until++) {
      room -= ends[until]! - starts[until]! + headers.length + RECORD_BYTES
      if (room < 0) break
      const time = msOf(until)
      const delta = time - (times[0] ?? time)
      if (Math.abs(delta) > MOST_DELTA) break
      this.#deltas[until - from] = delta
      times.push(time)
    }
    const end = memory.put({ ...lines, length: until }, from, 0)
    times.length = offset + end - from
    if (end === from) return from
    headers.bytes.copy(this.#headers, 0, 0, headers.length)
    const { output } = memory
    const stop = this.#code.writeKafkaRecords(
      end - from,
      memory.starts.byteOffset,
      memory.ends.byteOffset,
      memory.shift(lines, from),
      this.#deltas.byteOffset,
      offset,
      this.#headers.byteOffset,
      headers.length,
      output.byteOffset,
    )
    to.add(output, 0, stop - output.byteOffset)
    return end
  }

  /** Returns CRC-32C. */
  sumOf(bytes: Buffer): number {
    const { output } = this.#memory
    let sum = 0
    for (let at = 0; at < bytes.length; at += output.length) {
      const size = bytes.copy(output, 0, at)
      sum = this.#code.sumBytes(this.#tables, output.byteOffset, output.byteOffset + size, sum)
    }
    return sum >>> 0
  }
}
