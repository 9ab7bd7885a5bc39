import type { Place } from './frame.js'

/** The segment files of a buffer. Bytes after `end` in a file are ignored. */

export interface Segment {
  readonly number: number
  readonly name: string
  /** Number of bytes that are safe on disk. */
  end: number
  /** Place of its first record, if the record was there at the start of this run. */
  first?: Place | undefined
}

export const FORMAT = 1
/** The first bytes of every segment. */
export const TITLE = Buffer.from(`sluice buffer ${FORMAT}\n`)
const ANY_TITLE = /^sluice buffer .\n$/

/** The format version in a segment's title; undefined if it is not a segment. */
export function formatOf(title: Buffer): number | undefined {
  const digit = /^sluice buffer (\d)\n$/.exec(title.toString('latin1'))?.[1]
  return digit === undefined ? undefined : Number(digit)
}

/** Whether the title belongs to a segment of another format version. */
export function isForeign(title: Buffer): boolean {
  return ANY_TITLE.test(title.toString('latin1')) && !title.equals(TITLE)
}

export function segmentName(number: number): string {
  return `${String(number).padStart(16, '0')}.segment`
}

/** The number in a segment's file name; undefined for other files. */
export function segmentNumber(name: string): number | undefined {
  const digits = /^(\d{16})\.segment$/.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** The segments in the order in which they were written. */
export class Segments {
  #list: Segment[]
  #highest: number

  /** `highest`: the highest segment number ever used. */
  constructor(list: readonly Segment[], highest: number) {
    this.#list = [...list]
    this.#highest = Math.max(highest, list.at(-1)?.number ?? 0)
  }

  /** Total size on disk. */
  get bytes(): number {
    let bytes = 0
    for (const { end } of this.#list) bytes += end
    return bytes
  }

  /** The highest segment number ever used. */
  get highest(): number {
    return this.#highest
  }

  get first(): Segment | undefined {
    return this.#list[0]
  }

  get last(): Segment | undefined {
    return this.#list.at(-1)
  }

  /** Creates a segment after all others. */
  next(): Segment {
    const number = ++this.#highest
    return { number, name: segmentName(number), end: 0 }
  }

  add(segment: Segment): void {
    this.#list.push(segment)
  }

  /** The segment with this number, or the first one after it. */
  from(number: number): Segment | undefined {
    return this.#list.find(segment => segment.number >= number)
  }

  /**
   * The event at which the segments after this one begin; infinite if unknown. A record of this segment from there on
   * was cut off after a failed write, and a power failure undid that: its place was used again.
   */
  limitOf({ number }: Segment): number {
    const next = this.#list.find(segment => segment.number > number && segment.first)
    return next?.first?.event ?? Number.POSITIVE_INFINITY
  }

  remove(segment: Segment): void {
    this.#list = this.#list.filter(other => other !== segment)
  }

  before(number: number): Segment[] {
    return this.#list.filter(segment => segment.number < number)
  }
}
