import type { StateReader, StateWriter } from '../persist/state-bytes.js'

/** Maximum memory of all rows of a throttle, in bytes. */
export const MOST_BYTES = 64_000_000
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
 * Keeps, for each bucket, all windows or runs except the newest, in order of time. Each window or run is a row of
 * numbers, and the first number is its time. A bucket has a list of rows only while it has rows. One object serves all
 * buckets, and shows the rows of the bucket that was last passed to `of`.
 */
export class EarlierRows {
  length = 0
  /**
   * `array`: the list with the rows. `rows`: where the first row begins in it. Both are valid until the rows change.
   */
  array: number[] = NONE
  rows = 0
  /** Whether the bucket has a list. The list also holds the state of the bucket. */
  protected hasState = false
  readonly #room: EarlierMemory
  readonly #width: number
  readonly #head: number
  readonly #lists: (number[] | undefined)[] = []
  #bucket = -1

  /** `state`: how many numbers a subclass keeps in each list, in addition to the rows. */
  constructor(room: EarlierMemory, width: number, state = 0) {
    this.#room = room
    this.#width = width
    this.#head = HEAD + state
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
    this.loaded()
    return this
  }

  /** Saves the state of the shown bucket. After that, no bucket is shown. */
  #leave(): void {
    if (this.hasState) this.save()
    this.#show(undefined)
    this.#bucket = -1
  }

  #show(list: number[] | undefined): void {
    this.hasState = list !== undefined
    this.array = list ?? NONE
    this.length = this.array[LENGTH]!
    this.rows = this.#head + this.array[FIRST]! * this.#width
  }

  /** Called each time that the rows of another bucket are shown. */
  protected loaded(): void {}

  protected state(index: number): number {
    return this.array[HEAD + index]!
  }

  protected setState(index: number, value: number): void {
    this.array[HEAD + index] = value
  }

  /** Writes the head of the list. Called only before another list is shown. */
  protected save(): void {
    this.array[FIRST] = (this.rows - this.#head) / this.#width
    this.array[LENGTH] = this.length
  }

  get(row: number, column: number): number {
    return this.array[this.rows + row * this.#width + column]!
  }

  set(row: number, column: number, value: number): void {
    this.array[this.rows + row * this.#width + column] = value
  }

  /** Number of rows whose time is at or before `time`. */
  upTo(time: number): number {
    const { array, rows } = this
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
    return this.hasState ? (this.array.length - this.#head) / this.#width : 0
  }

  /** Whether a row can be inserted without exceeding MOST_BYTES. */
  get hasRoom(): boolean {
    const capacity = this.#capacity
    if (this.length < capacity) return true
    const more = this.hasState ? capacity * this.#width * 8 : bytesOf(this.#head + this.#width)
    return this.#room.bytes + more <= MOST_BYTES
  }

  /** Inserts a row at index `row`; the caller sets its values. */
  insert(row: number): void {
    const width = this.#width
    if (this.rows + this.length * width >= this.array.length || !this.hasState) {
      const capacity = this.#capacity
      this.#move(this.rows - this.#head >= (capacity / 4) * width && this.hasState ? capacity : capacity * 2 || 1)
    }
    const at = this.rows + row * width
    for (let to = this.rows + this.length * width + width - 1; to >= at + width; to--)
      this.array[to] = this.array[to - width]!
    this.#setLength(this.length + 1)
  }

  #setLength(length: number): void {
    this.#room.rows += length - this.length
    this.length = length
    if (length > 0) return
    this.#room.bytes -= bytesOf(this.array.length)
    this.#lists[this.#bucket] = undefined
    this.#show(undefined)
  }

  /** Moves the rows to the front of a new list, which has room for `capacity` rows. */
  #move(capacity: number): void {
    const { array, rows, length } = this
    // Because the array is filled with a fraction, V8 stores plain doubles without spare places.
    const list = new Array<number>(this.#head + capacity * this.#width).fill(0.5)
    if (this.hasState) for (let at = 0; at < this.#head; at++) list[at] = array[at]!
    for (let at = 0; at < length * this.#width; at++) list[this.#head + at] = array[rows + at]!
    this.#room.bytes += bytesOf(list.length) - (this.hasState ? bytesOf(array.length) : 0)
    this.#lists[this.#bucket] = list
    this.hasState = true
    this.array = list
    this.rows = this.#head
  }

  remove(row: number): void {
    const width = this.#width
    const at = this.rows + row * width
    for (let to = at; to < this.rows + (this.length - 1) * width; to++) this.array[to] = this.array[to + width]!
    this.#setLength(this.length - 1)
  }

  removeFirst(count: number): void {
    this.rows += count * this.#width
    this.#setLength(this.length - count)
    if (this.hasState && this.length * 4 < this.#capacity) this.#move(this.length * 2)
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
