const START = 0
const SMALLEST = 4

/** What all buckets of a throttle keep besides their newest windows. */
export interface Room {
  /** Windows or runs, and buckets that keep some or did. */
  rows: number
  buckets: number
  /** Rows that were dropped before their time, since there was no more room. */
  forgotten: number
}

/** A bucket's windows or runs before the newest one, in the order of their times: rows of numbers, the first its time. */
export class Kept {
  length = 0
  readonly #width: number
  #cells: Float64Array
  /** The row that is the first one. */
  #first = 0

  constructor(width: number) {
    this.#width = width
    this.#cells = new Float64Array(SMALLEST * width)
  }

  get #rows(): number {
    return this.#cells.length / this.#width
  }

  get(row: number, column: number): number {
    return this.#cells[(this.#first + row) * this.#width + column]!
  }

  set(row: number, column: number, value: number): void {
    this.#cells[(this.#first + row) * this.#width + column] = value
  }

  /** How many rows are of `time` or before it. */
  upTo(time: number): number {
    let [low, high] = [0, this.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.get(middle, START) <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Makes row `row` a new one; the caller sets what is in it. */
  insert(row: number): void {
    if (this.#first + this.length === this.#rows) this.#makeRoom()
    const width = this.#width
    const at = (this.#first + row) * width
    if (row < this.length) this.#cells.copyWithin(at + width, at, (this.#first + this.length) * width)
    this.length++
  }

  #makeRoom(): void {
    if (this.#first >= this.#rows / 4) this.#move(this.#cells)
    else this.#move(new Float64Array(this.#cells.length * 2))
  }

  /** To the front of `cells`, which may be those where the rows are now. */
  #move(cells: Float64Array): void {
    const from = this.#first * this.#width
    cells.set(this.#cells.subarray(from, from + this.length * this.#width))
    this.#cells = cells
    this.#first = 0
  }

  remove(row: number): void {
    const width = this.#width
    const at = (this.#first + row) * width
    this.#cells.copyWithin(at, at + width, (this.#first + this.length) * width)
    this.length--
  }

  removeFirst(count: number): void {
    this.#first += count
    this.length -= count
    const rows = Math.max(this.length * 2, SMALLEST)
    if (rows * 2 < this.#rows) this.#move(new Float64Array(rows * this.#width))
  }
}
