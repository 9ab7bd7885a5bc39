import type { LineMemory, Lines } from '../../lib/kernel/line-memory.js'

/** How a log record uses a field that is not an attribute. `left`: the kernel skips events with this field. */
export const USE = { left: 1, body: 2, time: 3, severity: 4, trace: 5, span: 6 } as const

type Table = ReadonlyMap<string, number>

export interface LogFields {
  readonly uses: Table
  /** The names of fields whose values decide the group of an event. */
  readonly grouped: readonly string[]
  /** The numbers of severities, by name in lower case. */
  readonly severities: Table
}

export interface RecordExports {
  setLogFields(names: number, nameCount: number, grouped: number, severities: number, severityCount: number): void
  writeRecords(
    length: number,
    starts: number,
    ends: number,
    shift: number,
    observed: bigint,
    same: number,
    to: number,
    toEnd: number,
  ): number
}

/** An entry of a table: the length of a text, the number of the text and, at TEXT_AT, the text. */
const ENTRY_BYTES = 32
const TEXT_AT = 16
const MOST_TEXT = 16
const MOST_ENTRIES = 64
const MOST_GROUPED = 15
/** Number of bits for a field's use. If the field decides the group, higher bits contain the field's number. */
const USE_BITS = 8

/** Writes JSON objects as log records of OTLP. Leaves rare objects to the caller. */
export class RecordLines {
  /** The last output. Record i of the group is [starts[i], ends[i]) of `output`; `ends[i]` is 0 if it was skipped. */
  readonly output: Buffer
  readonly starts: Int32Array
  readonly ends: Int32Array
  /** 1 for each record that is in the same group as the record before it. */
  readonly same: Uint8Array
  readonly #code: RecordExports
  readonly #memory: LineMemory
  readonly #names: number
  readonly #severities: number
  #fields: LogFields | undefined

  constructor(code: RecordExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.output = memory.output
    this.starts = memory.starts
    this.ends = memory.ends
    this.same = memory.flags
    this.#names = memory.take(MOST_ENTRIES * ENTRY_BYTES)
    this.#severities = memory.take(MOST_ENTRIES * ENTRY_BYTES)
  }

  takes(fields: LogFields): boolean {
    const hasRoom = (table: Table) => [...table.keys()].every(text => Buffer.byteLength(text) <= MOST_TEXT)
    const tables = [namesOf(fields), fields.severities]
    return fields.grouped.length <= MOST_GROUPED && tables.every(table => table.size <= MOST_ENTRIES && hasRoom(table))
  }

  /**
   * Writes the records of valid JSON objects from `from` on, as many as fit. The objects are in order in the chunk.
   * `observed`: when they were read, in milliseconds. Returns the end of the group.
   */
  write(lines: Lines, from: number, fields: LogFields, observed: number): number {
    const memory = this.#memory
    if (fields !== this.#fields) this.#use(fields)
    const to = memory.put(lines, from, 0)
    if (to === from) {
      memory.ends[0] = 0
      return from + 1
    }
    const count = this.#code.writeRecords(
      to - from,
      memory.starts.byteOffset,
      memory.ends.byteOffset,
      memory.shift(lines, from),
      BigInt(Math.floor(observed)) * 1_000_000n,
      this.same.byteOffset,
      this.output.byteOffset,
      this.output.byteOffset + this.output.length,
    )
    return from + count
  }

  #use(fields: LogFields): void {
    this.#fields = fields
    const { grouped, severities } = fields
    const names = namesOf(fields)
    this.#put(names, this.#names)
    this.#put(severities, this.#severities)
    this.#code.setLogFields(this.#names, names.size, grouped.length, this.#severities, severities.size)
  }

  #put(table: Table, at: number): void {
    const { bytes, view } = this.#memory
    for (const [text, number] of table) {
      view.setUint32(at, bytes.write(text, at + TEXT_AT, MOST_TEXT), true)
      view.setUint32(at + 4, number, true)
      at += ENTRY_BYTES
    }
  }
}

function namesOf({ uses, grouped }: LogFields): Table {
  const names = new Map(uses)
  for (const [n, name] of grouped.entries()) names.set(name, (uses.get(name) ?? 0) | ((n + 1) << USE_BITS))
  return names
}
