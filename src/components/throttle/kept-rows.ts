import type { Lists, Room } from './row-room.js'
import type { StateReader, StateWriter } from './state-bytes.js'

/** What a list of more than one row begins with: index of the first row, and number of rows. */
const FIRST = 0
const LENGTH = 1
const HEAD = 2
/** Bits of a place for the size of its list; the others say which list. */
const SIZE_BITS = 5
const SIZE = (1 << SIZE_BITS) - 1

/**
 * The windows or runs of buckets before the newest one, by time: rows of numbers, the first of which is the time. One
 * object serves all buckets; it shows the rows of the one that `of` was called with last.
 */
export class Kept {
  /** Number of rows. */
  length = 0
  readonly #room: Room
  readonly #width: number
  readonly #head: number
  /** By size. */
  readonly #sizes: readonly Lists[]
  /** The list of each bucket; -1: it has none. */
  #places = new Int32Array(8).fill(-1)
  #bucket = -1
  /** The list of this bucket: its size (undefined: it has none), array, and first number there. */
  #lists: Lists | undefined
  /** Whether it may have several rows, and so has a state. */
  protected hasState = false
  #array: Float64Array = new Float64Array(0)
  #start = 0
  /** Index of the first row in the list, and of its first number in the array. */
  #first = 0
  #rows = 0

  /** `state`: how many numbers of its own a list of several rows has. */
  constructor(room: Room, width: number, state = 0) {
    this.#room = room
    this.#width = width
    this.#head = HEAD + state
    this.#sizes = room.lists(width, this.#head)
  }

  /** Makes room for buckets below `capacity`. */
  reserve(capacity: number): void {
    const { length } = this.#places
    if (capacity <= length) return
    const places = new Int32Array(capacity).fill(-1, length)
    places.set(this.#places)
    this.#places = places
  }

  /** Shows the rows of a bucket. */
  of(bucket: number): this {
    if (bucket !== this.#bucket) this.#load(bucket)
    return this
  }

  #load(bucket: number): void {
    this.#leave()
    this.#bucket = bucket
    const place = this.#places[bucket]!
    if (place < 0) this.#showNone()
    else {
      this.#show(place)
      const [array, start] = [this.#array, this.#start]
      this.length = this.hasState ? array[start + LENGTH]! : 1
      this.#begin(this.hasState ? array[start + FIRST]! : 0)
    }
    this.loaded()
  }

  /** Shows no bucket. */
  #leave(): void {
    if (this.hasState) this.save()
    this.#showNone()
    this.#bucket = -1
  }

  /** Called when the rows of another bucket are shown. */
  protected loaded(): void {}

  #showNone(): void {
    this.#lists = undefined
    this.hasState = false
    this.length = 0
  }

  #show(place: number): void {
    const lists = this.#sizes[place & SIZE]!
    this.#lists = lists
    this.hasState = lists.bits > 0
    this.#array = lists.array(place >> SIZE_BITS)
    this.#start = lists.start(place >> SIZE_BITS)
  }

  /** Lets the rows begin with this one of the list. */
  #begin(first: number): void {
    this.#first = first
    this.#rows = this.#start + (this.hasState ? this.#head : 0) + first * this.#width
  }

  protected state(index: number): number {
    return this.#array[this.#start + HEAD + index]!
  }

  protected setState(index: number, value: number): void {
    this.#array[this.#start + HEAD + index] = value
  }

  /** Writes what a list of several rows begins with: not before another one is shown. */
  protected save(): void {
    this.#array[this.#start + FIRST] = this.#first
    this.#array[this.#start + LENGTH] = this.length
  }

  /** The array with the rows, and where the first of them begins there; until anything is changed. */
  get array(): Float64Array {
    return this.#array
  }

  get rows(): number {
    return this.#rows
  }

  get(row: number, column: number): number {
    return this.#array[this.#rows + row * this.#width + column]!
  }

  set(row: number, column: number, value: number): void {
    this.#array[this.#rows + row * this.#width + column] = value
  }

  /** Number of rows at or before `time`. */
  upTo(time: number): number {
    const array = this.#array
    const rows = this.#rows
    const width = this.#width
    let high = this.length
    let low = high - 1
    // Mostly it is one of the last.
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

  /** Whether a row can be inserted within the bound of memory. */
  get hasRoom(): boolean {
    const lists = this.#lists
    if (lists === undefined) return this.#sizes[0]!.hasRoom
    return this.length < lists.capacity || this.#sizes[lists.bits + 1]!.hasRoom
  }

  /** Inserts a row at index `row`; the caller sets its values. */
  insert(row: number): void {
    const lists = this.#lists
    if (lists === undefined) this.#take(0)
    else if (this.#first + this.length === lists.capacity) {
      if (this.#first >= lists.capacity / 4) this.#moveFrom(this.#array, this.#rows)
      else this.#resize(lists.bits + 1)
    }
    const width = this.#width
    const at = this.#rows + row * width
    if (row < this.length) this.#array.copyWithin(at + width, at, this.#rows + this.length * width)
    this.#setLength(this.length + 1)
  }

  #setLength(length: number): void {
    this.#room.rows += length - this.length
    this.length = length
    if (length === 0) this.#give()
  }

  /** Takes a list of this size for the bucket. */
  #take(bits: number): void {
    const place = (this.#sizes[bits]!.take() << SIZE_BITS) | bits
    this.#places[this.#bucket] = place
    this.#show(place)
    this.#begin(0)
  }

  /** Gives the list back. */
  #give(): void {
    const place = this.#places[this.#bucket]!
    this.#lists!.give(place >> SIZE_BITS)
    this.#places[this.#bucket] = -1
    this.#showNone()
  }

  /** Moves the rows into a list of another size. */
  #resize(bits: number): void {
    const [array, rows] = [this.#array, this.#rows]
    const [lists, place] = [this.#lists!, this.#places[this.#bucket]!]
    this.#take(bits)
    this.#moveFrom(array, rows)
    lists.give(place >> SIZE_BITS)
  }

  /** Copies the rows from an array to the front of the list. */
  #moveFrom(array: Float64Array, rows: number): void {
    this.#begin(0)
    this.#array.set(array.subarray(rows, rows + this.length * this.#width), this.#rows)
  }

  /** Removes a row. */
  remove(row: number): void {
    const width = this.#width
    const at = this.#rows + row * width
    this.#array.copyWithin(at, at + width, this.#rows + this.length * width)
    this.#setLength(this.length - 1)
  }

  removeFirst(count: number): void {
    this.#begin(this.#first + count)
    this.#setLength(this.length - count)
    const lists = this.#lists
    if (lists === undefined || this.length * 4 > lists.capacity) return
    this.#resize(Math.ceil(Math.log2(this.length * 2)))
  }

  /** Removes all rows of a bucket. */
  clear(bucket: number): void {
    this.of(bucket)
    if (this.length > 0) this.#setLength(0)
  }

  /** Moves the rows of a bucket here from `from`, which has the same room and width. */
  adopt(bucket: number, from: Kept, fromBucket: number): void {
    this.clear(bucket)
    this.#leave()
    from.#leave()
    this.#places[bucket] = from.#places[fromBucket]!
    from.#places[fromBucket] = -1
  }

  /** Writes all rows. */
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

  /** Removes the rows of all buckets. */
  release(): void {
    for (let bucket = 0; bucket < this.#places.length; bucket++) this.clear(bucket)
  }
}
