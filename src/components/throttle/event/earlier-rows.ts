import type { StateReader, StateWriter } from '../persist/state-bytes.js'

/** Maximum memory of all rows of a throttle, in bytes. */
export const MOST_ROW_BYTES = 64_000_000
/** Bytes that V8 needs for a list besides its numbers. */
const LIST_BYTES = 48
/** Head of a list: index of the first row, and number of rows. */
const FIRST = 0
const LENGTH = 1
const HEAD = 2

/** Counts the memory of all rows of a throttle. */
export class EarlierMemory {
  rows = 0
  bytes = 0
  /** Number of rows that were dropped early because no room was left. */
  forgotten = 0
}

const bytesOf = (numbers: number) => LIST_BYTES + numbers * 8

/** Used instead of a missing list. Only its length, 0, is read. */
const NONE: number[] = [0, 0]

/**
 * Keeps, for each bucket, all windows except the newest, in order of time. Each window is a row of numbers, and the
 * first number is its start. A bucket has a list of rows only while it has rows. One object serves all buckets, and
 * shows the rows of the bucket that was last passed to `of`.
 */
export class EarlierRows {
  length = 0
  /** The list with the rows. `#rows`: where the first row begins in it. */
  #array: number[] = NONE
  #rows = 0
  readonly #room: EarlierMemory
  readonly #width: number
  readonly #lists: (number[] | undefined)[] = []
  #bucket = -1

  constructor(room: EarlierMemory, width: number) {
    this.#room = room
    this.#width = width
  }

  /** Makes room for bucket ids below `capacity`, because V8 turns an array with large gaps into a dictionary. */
  reserve(capacity: number): void {
    if (this.#lists.length < capacity) this.#lists.length = capacity
  }

  of(bucket: number): this {
    if (bucket === this.#bucket) return this
    this.#leave()
    this.#bucket = bucket
    this.#show(this.#lists[bucket])
    return this
  }

  /** Writes the head of the shown list. After that, no bucket is shown. */
  #leave(): void {
    if (this.#hasList) {
      this.#array[FIRST] = (this.#rows - HEAD) / this.#width
      this.#array[LENGTH] = this.length
    }
    this.#show(undefined)
    this.#bucket = -1
  }

  #show(list: number[] | undefined): void {
    this.#array = list ?? NONE
    this.length = this.#array[LENGTH]!
    this.#rows = HEAD + this.#array[FIRST]! * this.#width
  }

  get #hasList(): boolean {
    return this.#array !== NONE
  }

  get(row: number, column: number): number {
    return this.#array[this.#rows + row * this.#width + column]!
  }

  set(row: number, column: number, value: number): void {
    this.#array[this.#rows + row * this.#width + column] = value
  }

  /** Number of rows that start at or before `time`. */
  upTo(time: number): number {
    const array = this.#array
    const rows = this.#rows
    const width = this.#width
    let high = this.length
    let low = high - 1
    // Begins at the end, where the row usually is.
    for (let step = 2; low >= 0 && array[rows + low * width]! > time; step *= 2) {
      high = low
      low = high - step
    }
    low = Math.max(low, 0)
    while (low < high) {
      const middle = (low + high) >> 1
      if (array[rows + middle * width]! <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  get #capacity(): number {
    return this.#hasList ? (this.#array.length - HEAD) / this.#width : 0
  }

  /** Whether a row can be inserted without exceeding MOST_BYTES. */
  get hasRoom(): boolean {
    const capacity = this.#capacity
    if (this.length < capacity) return true
    const more = this.#hasList ? capacity * this.#width * 8 : bytesOf(HEAD + this.#width)
    return this.#room.bytes + more <= MOST_ROW_BYTES
  }

  /** Inserts a row at index `row`; the caller sets its values. */
  insert(row: number): void {
    const width = this.#width
    if (this.#rows + this.length * width >= this.#array.length || !this.#hasList) {
      const capacity = this.#capacity
      this.#move(this.#rows - HEAD >= (capacity / 4) * width && this.#hasList ? capacity : capacity * 2 || 1)
    }
    const at = this.#rows + row * width
    for (let to = this.#rows + this.length * width + width - 1; to >= at + width; to--)
      this.#array[to] = this.#array[to - width]!
    this.#setLength(this.length + 1)
  }

  #setLength(length: number): void {
    this.#room.rows += length - this.length
    this.length = length
    if (length > 0) return
    this.#room.bytes -= bytesOf(this.#array.length)
    this.#lists[this.#bucket] = undefined
    this.#show(undefined)
  }

  /** Moves the rows to the front of a new list, which has room for `capacity` rows. */
  #move(capacity: number): void {
    const { length } = this
    const array = this.#array
    const rows = this.#rows
    // Because the array is filled with a fraction, V8 stores plain doubles without spare places.
    const list = new Array<number>(HEAD + capacity * this.#width).fill(0.5)
    if (this.#hasList) for (let at = 0; at < HEAD; at++) list[at] = array[at]!
    for (let at = 0; at < length * this.#width; at++) list[HEAD + at] = array[rows + at]!
    this.#room.bytes += bytesOf(list.length) - (this.#hasList ? bytesOf(array.length) : 0)
    this.#lists[this.#bucket] = list
    this.#array = list
    this.#rows = HEAD
  }

  remove(row: number): void {
    const width = this.#width
    const at = this.#rows + row * width
    for (let to = at; to < this.#rows + (this.length - 1) * width; to++) this.#array[to] = this.#array[to + width]!
    this.#setLength(this.length - 1)
  }

  removeFirst(count: number): void {
    this.#rows += count * this.#width
    this.#setLength(this.length - count)
    if (this.#hasList && this.length * 4 < this.#capacity) this.#move(this.length * 2)
  }

  clear(bucket: number): void {
    this.of(bucket)
    if (this.length > 0) this.#setLength(0)
  }

  /** Moves the rows of a bucket from `from` to this object. Both objects must have the same room and width. */
  adopt(bucket: number, from: EarlierRows, fromBucket: number): void {
    this.clear(bucket)
    this.#leave()
    from.#leave()
    this.#lists[bucket] = from.#lists[fromBucket]
    from.#lists[fromBucket] = undefined
  }

  write(to: StateWriter): void {
    to.whole(this.length)
    for (let row = 0; row < this.length; row++) {
      for (let column = 0; column < this.#width; column++) to.number(this.get(row, column))
    }
  }

  /** Reads what `write` has written, into a bucket that has no rows. */
  read(from: StateReader): void {
    const rows = from.whole()
    for (let row = 0; row < rows; row++) {
      this.insert(row)
      for (let column = 0; column < this.#width; column++) this.set(row, column, from.number())
    }
  }

  release(): void {
    for (let bucket = 0; bucket < this.#lists.length; bucket++) if (this.#lists[bucket]) this.clear(bucket)
  }
}
