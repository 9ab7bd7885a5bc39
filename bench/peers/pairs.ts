/** Lines that have no record yet, and records without a line: many batches of a program that swaps some. */
const MOST_OPEN = 100_000

/** Compares lines that were read with the records that were written of them. */
export class Pairs {
  readonly #anyOrder: boolean
  /** By text, how many lines more than records there were so far; less than 0: records more than lines. */
  readonly #open = new Map<string, number>()

  /** `anyOrder`: a record may come before or after those that it should be next to. */
  constructor(anyOrder = false) {
    this.#anyOrder = anyOrder
  }

  /** Adds a line and the record in its place. Throws if they cannot be equal. */
  add(line: Buffer, record: Buffer): void {
    if (record.equals(line)) return
    if (!this.#anyOrder) throw new Error(`a record is not the line that was read: ${record}`)
    this.#count(line, 1)
    this.#count(record, -1)
    if (this.#open.size > MOST_OPEN) throw this.#different()
  }

  /** Throws unless each line had its record. */
  end(): void {
    if (this.#open.size > 0) throw this.#different()
  }

  #count(text: Buffer, by: number): void {
    const key = text.toString('latin1')
    const open = (this.#open.get(key) ?? 0) + by
    if (open === 0) this.#open.delete(key)
    else this.#open.set(key, open)
  }

  #different(): Error {
    const [text, open] = [...this.#open][0]!
    return new Error(open > 0 ? `no record is this line: ${text}` : `a record is none of the lines: ${text}`)
  }
}
