import { BoundedMap } from '../../../lib/bounded-map.js'
import { mapped, type Steps } from '../../../lib/steps.js'

/** Maximum number of keys whose rows are remembered, to make repeated lookups fast. */
const MOST_REMEMBERED = 10_000
/** Keys with more characters are not remembered, to limit memory. Addresses and numbers are shorter than this. */
const LONGEST_REMEMBERED = 64

/** Thrown if a table or one of its rows cannot be used. `line`: the line in the file, from 1. */
export class TableError extends Error {
  readonly line: number

  constructor(message: string, line = 1) {
    super(message)
    this.line = line
  }
}

/** Finds rows by the text of their key. A row is a JSON object. */
export interface LookupTable {
  readonly size: number
  /** The row of a key, or undefined if the table lacks this key. Throws TableError if the row cannot be used. */
  find(text: string): Buffer | undefined
}

/** All rows are in one buffer, because an object for each row would take several times as much memory. */
export class TableRows {
  readonly #bytes: Buffer
  /** The start of each row, and the end of the last row. */
  readonly #starts: Float64Array

  static *of(rows: readonly string[]): Steps<TableRows> {
    let end = 0
    const sizes = yield* mapped(rows, row => Buffer.byteLength(row))
    const starts = new Float64Array(rows.length + 1)
    yield* mapped(sizes, (size, n) => {
      end += size
      starts[n + 1] = end
    })
    const bytes = Buffer.allocUnsafeSlow(end)
    yield* mapped(rows, (row, n) => bytes.write(row, starts[n]!))
    return new TableRows(bytes, starts)
  }

  private constructor(bytes: Buffer, starts: Float64Array) {
    this.#bytes = bytes
    this.#starts = starts
  }

  get size(): number {
    return this.#starts.length - 1
  }

  at(n: number | undefined): Buffer | undefined {
    return n === undefined || n < 0 ? undefined : this.#bytes.subarray(this.#starts[n], this.#starts[n + 1])
  }
}

export class ExactTable implements LookupTable {
  readonly #rows: TableRows
  readonly #places: ReadonlyMap<string, number>
  readonly #ignoresCase: boolean

  /** `places`: for each key, the number of its row. If `ignoresCase` is true, the keys are in lower case. */
  constructor(rows: TableRows, places: ReadonlyMap<string, number>, ignoresCase: boolean) {
    this.#rows = rows
    this.#places = places
    this.#ignoresCase = ignoresCase
  }

  get size(): number {
    return this.#rows.size
  }

  find(text: string): Buffer | undefined {
    return this.#rows.at(this.#places.get(this.#ignoresCase ? text.toLowerCase() : text))
  }
}

/** A table that finds rows with `search`. It caches the rows of the keys that were looked up last. */
export class SearchedTable implements LookupTable {
  readonly size: number
  readonly #search: (text: string) => Buffer | undefined
  readonly #found = new BoundedMap<string, Buffer | undefined>(MOST_REMEMBERED)

  constructor(size: number, search: (text: string) => Buffer | undefined) {
    this.size = size
    this.#search = search
  }

  find(text: string): Buffer | undefined {
    const known = this.#found.get(text)
    if (known !== undefined || this.#found.has(text)) return known
    const row = this.#search(text)
    if (text.length <= LONGEST_REMEMBERED) this.#found.set(text, row)
    return row
  }
}
