/** Memory for the windows that buckets keep: lists of rows, which are so many numbers each. */

/** Rows per segment, as a power of two. A longer list has a segment of its own. */
const SEGMENT_BITS = 9
/** Maximum number of rows of a list, as a power of two. */
const MOST_BITS = 27
/** Maximum memory of all rows of a throttle, in bytes. */
export const MOST_BYTES = 64_000_000

const NONE = new Float64Array(0)

/** Some lists of one size. */
interface Segment {
  /** Number of lists in use. */
  used: number
  /** Lists from this one on were never used. */
  fresh: number
  /** The list that was given back last, whose first number is the one before it; -1: there is none. */
  free: number
}

/**
 * Lists with room for the same number of rows, a power of two. Segments have one size, so nothing is copied when there
 * are more, and what one bucket gives back is of use for any other.
 */
export class Lists {
  /** The power of two, and rows of a list. */
  readonly bits: number
  readonly capacity: number
  readonly #room: Room
  /** Numbers of a list. */
  readonly #numbers: number
  /** Lists per segment, as a power of two. */
  readonly #bits: number
  readonly #segments: (Segment | undefined)[] = []
  /** By segment, as long as that is used. */
  readonly #arrays: Float64Array[] = []
  /** Segments with free lists. */
  readonly #open: number[] = []
  readonly #dropped: number[] = []

  constructor(room: Room, bits: number, numbers: number) {
    this.#room = room
    this.bits = bits
    this.capacity = 2 ** bits
    this.#numbers = numbers
    this.#bits = Math.max(0, SEGMENT_BITS - bits)
  }

  get #segmentBytes(): number {
    return this.#numbers * 2 ** this.#bits * Float64Array.BYTES_PER_ELEMENT
  }

  /** Whether a list can be taken within the bound of memory. */
  get hasRoom(): boolean {
    return this.#open.length > 0 || this.#room.bytes + this.#segmentBytes <= MOST_BYTES
  }

  /** The array with a list. */
  array(list: number): Float64Array {
    return this.#arrays[list >> this.#bits]!
  }

  /** Index of the first number of a list in its array. */
  start(list: number): number {
    return (list & ((1 << this.#bits) - 1)) * this.#numbers
  }

  /** Takes a list with any numbers. */
  take(): number {
    const index = this.#open.at(-1) ?? this.#add()
    const segment = this.#segments[index]!
    let place = segment.free
    if (place < 0) place = segment.fresh++
    else segment.free = this.#arrays[index]![place * this.#numbers]!
    if (++segment.used === 1 << this.#bits) this.#open.pop()
    return (index << this.#bits) | place
  }

  #add(): number {
    const index = this.#dropped.pop() ?? this.#segments.length
    this.#arrays[index] = new Float64Array(this.#numbers << this.#bits)
    this.#segments[index] = { used: 0, fresh: 0, free: -1 }
    this.#open.push(index)
    this.#room.bytes += this.#segmentBytes
    return index
  }

  /** Gives a list back. */
  give(list: number): void {
    const index = list >> this.#bits
    const segment = this.#segments[index]!
    const start = this.start(list)
    this.#arrays[index]![start] = segment.free
    segment.free = start / this.#numbers
    if (segment.used-- === 1 << this.#bits) this.#open.push(index)
    // One empty segment of short lists stays, so that a list that comes and goes allocates nothing.
    if (segment.used === 0 && (this.#open.length > 1 || this.#bits === 0)) this.#drop(index)
  }

  #drop(index: number): void {
    this.#open.splice(this.#open.indexOf(index), 1)
    this.#segments[index] = undefined
    this.#arrays[index] = NONE
    this.#dropped.push(index)
    this.#room.bytes -= this.#segmentBytes
  }
}

/** What all buckets of a throttle keep together. */
export class Room {
  /** Number of rows. */
  rows = 0
  /** Memory for them. */
  bytes = 0
  /** Rows dropped early because there was no room. */
  forgotten = 0
  readonly #lists = new Map<string, readonly Lists[]>()

  /** Lists of rows of `width` numbers, by size. A list of more than one row has `head` numbers more. */
  lists(width: number, head: number): readonly Lists[] {
    const name = `${width} ${head}`
    const known = this.#lists.get(name)
    if (known) return known
    const lists = Array.from(
      { length: MOST_BITS + 1 },
      (_, bits) => new Lists(this, bits, width * 2 ** bits + (bits > 0 ? head : 0)),
    )
    this.#lists.set(name, lists)
    return lists
  }
}
