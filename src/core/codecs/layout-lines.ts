import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { type LineMemory, type Lines, MOST_LINES } from '../../lib/kernel/line-memory.js'
import type { EventBatch } from '../event/batch.js'
import { READING } from '../event/event-id.js'
import type { EventTime } from '../event/event-time.js'
import type { FieldReader } from '../event/field-reader.js'

/** The kinds of parts, as in assembly/layout.ts. */
export const PART_KIND = { constant: 0, text: 1, nanos: 2, id: 3, event: 4, escaped: 5, members: 6 } as const

export interface TextColumn {
  readonly kind: 1
  text(batch: EventBatch, i: number): string
  /** If a field of the event has this text as it is, returns the reader of the field. */
  written?(batch: EventBatch, i: number): FieldReader | undefined
}

/** A part of a record. `time`: of which the nanoseconds since the epoch are written. */
export type RecordPart =
  | { readonly kind: 0; readonly bytes: Buffer }
  | TextColumn
  | { readonly kind: 2; readonly time: EventTime }
  | { readonly kind: 3 | 4 | 5 | 6 }

export interface LayoutExports {
  setIds(at: number): void
  writeLayout(
    length: number,
    starts: number,
    ends: number,
    shift: number,
    parts: number,
    partCount: number,
    to: number,
    toEnd: number,
    endAt: number,
  ): number
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const [MOST_PARTS, MOST_COLUMNS, PART_NUMBERS] = [32, 4, 3]
const [CONSTANT_BYTES, TEXT_BYTES] = [4 * 1024, 64 * 1024]
/** The kernel reads up to 16 bytes at a time. */
const AHEAD = 16
/** The kernel writes seconds of 10 digits and 32 bits: the years 2001 to 2106. */
const [FIRST_SECOND, LAST_SECOND] = [1_000_000_000, 2 ** 32 - 1]
const LOW = 2 ** 32
const MOST_PLACE = 2 ** 48

/** Writes lines as records. */
export class LayoutLines {
  readonly #code: LayoutExports
  readonly #memory: LineMemory
  readonly #table: Uint32Array
  readonly #end: Uint32Array
  readonly #ids: number
  readonly #constants: number
  readonly #texts: number
  #textsEnd = 0
  /** Two numbers for each line: the range of a text, seconds and nanoseconds, or a place. */
  readonly #columns: readonly (readonly [Uint32Array, Uint32Array])[]
  #parts: readonly RecordPart[] | undefined

  constructor(code: LayoutExports, memory: LineMemory) {
    const numbers = (count: number) => new Uint32Array(memory.bytes.buffer, memory.take(count * 4), count)
    this.#code = code
    this.#memory = memory
    this.#table = numbers(MOST_PARTS * PART_NUMBERS)
    this.#end = numbers(4)
    this.#ids = memory.take(READING + DIGITS.length + 8)
    this.#constants = memory.take(CONSTANT_BYTES + AHEAD)
    this.#texts = memory.take(TEXT_BYTES + AHEAD)
    this.#columns = Array.from({ length: MOST_COLUMNS }, () => [numbers(MOST_LINES), numbers(MOST_LINES)])
    memory.bytes.write(DIGITS, this.#ids + READING, 'latin1')
    code.setIds(this.#ids)
  }

  takes(parts: readonly RecordPart[]): boolean {
    const bytes = parts.reduce((sum, part) => sum + (part.kind === PART_KIND.constant ? part.bytes.length : 0), 0)
    const columns = parts.filter(({ kind }) => kind >= PART_KIND.text && kind <= PART_KIND.id)
    return parts.length <= MOST_PARTS && columns.length <= MOST_COLUMNS && bytes <= CONSTANT_BYTES
  }

  /**
   * Adds the records of events from `from` on, as many as fit; `lines` has their lines. `skip`: how many bytes of the
   * first record are left out. Returns the index after these events; `from` if the first one needs another writer.
   */
  write(
    parts: readonly RecordPart[],
    batch: EventBatch,
    lines: Lines,
    from: number,
    to: GrowingBytes,
    skip: number,
  ): number {
    const { output, starts, ends, bytes } = this.#memory
    if (parts !== this.#parts) this.#use(parts)
    this.#textsEnd = this.#texts
    let until = Math.min(lines.length, from + MOST_LINES)
    let column = 0
    for (const part of parts) {
      if (part.kind === PART_KIND.text) until = this.#fillTexts(column++, part, batch, lines, from, until)
      else if (part.kind === PART_KIND.nanos) until = this.#fillTimes(column++, part.time, batch, from, until)
      else if (part.kind === PART_KIND.id) until = this.#fillPlaces(column++, batch, from, until)
    }
    // The columns are filled before, because reading fields may also use the kernel.
    const end = this.#memory.put({ ...lines, length: until }, from, 0)
    if (end === from) return from
    bytes.fill(0, this.#ids, this.#ids + READING)
    bytes.write(batch.reading, this.#ids, READING, 'hex')
    const count = this.#code.writeLayout(
      end - from,
      starts.byteOffset,
      ends.byteOffset,
      this.#memory.shift(lines, from),
      this.#table.byteOffset,
      parts.length,
      output.byteOffset,
      output.byteOffset + output.length,
      this.#end.byteOffset,
    )
    if (count > 0) to.add(output, skip, this.#end[0]! - output.byteOffset)
    return from + count
  }

  #use(parts: readonly RecordPart[]): void {
    this.#parts = parts
    let [at, column, constants] = [0, 0, this.#constants]
    for (const part of parts) {
      const isColumn = part.kind >= PART_KIND.text && part.kind <= PART_KIND.id
      const [a, b] = isColumn ? this.#columns[column++]!.map(numbers => numbers.byteOffset) : [constants, constants]
      this.#table.set([part.kind, a!, b!], at)
      if (part.kind === PART_KIND.constant) {
        this.#memory.bytes.set(part.bytes, constants)
        this.#table[at + 2] = constants += part.bytes.length
      }
      at += PART_NUMBERS
    }
  }

  /** Copies texts; an equal text that follows is copied once. */
  #fillTexts(n: number, column: TextColumn, batch: EventBatch, lines: Lines, from: number, until: number): number {
    const [starts, ends] = this.#columns[n]!
    const { bytes } = this.#memory
    const shift = this.#memory.shift(lines, from)
    let last: string | undefined
    let start = 0
    let end = this.#textsEnd
    for (let i = from; i < until; i++) {
      const written = column.written?.(batch, i)
      if (written?.bytes === lines.chunk) {
        starts[i - from] = written.start - shift
        ends[i - from] = written.end - shift
        continue
      }
      const text = column.text(batch, i)
      if (text !== last) {
        start = this.#textsEnd
        if (start + text.length * 3 > this.#texts + TEXT_BYTES) return i
        end = this.#textsEnd += bytes.write(text, start)
        last = text
      }
      starts[i - from] = start
      ends[i - from] = end
    }
    return until
  }

  #fillTimes(column: number, time: EventTime, batch: EventBatch, from: number, until: number): number {
    const [seconds, nanos] = this.#columns[column]!
    const { unix } = time
    for (let i = from; i < until; i++) {
      time.readUnix(batch, i)
      if (unix.seconds < FIRST_SECOND || unix.seconds > LAST_SECOND) return i
      seconds[i - from] = unix.seconds
      nanos[i - from] = unix.nanos
    }
    return until
  }

  #fillPlaces(column: number, batch: EventBatch, from: number, until: number): number {
    const [high, low] = this.#columns[column]!
    for (let i = from; i < until; i++) {
      const place = batch.place(i)
      if (!(place >= 0 && place < MOST_PLACE)) return i
      high[i - from] = place / LOW
      low[i - from] = place
    }
    return until
  }
}
