/** The segment files of one buffer, as far as they count: what is behind `end` in a file is not there. */

export interface Segment {
  readonly number: number
  readonly name: string
  /** Bytes that are safe on the disk. */
  end: number
}

export const FORMAT = 1
/** How every segment begins. */
export const TITLE = Buffer.from(`sluice buffer ${FORMAT}\n`)
const ANY_TITLE = /^sluice buffer .\n$/

/** The number of the format of a segment that begins so; undefined where it is no segment. */
export function formatOf(title: Buffer): number | undefined {
  const digit = /^sluice buffer (\d)\n$/.exec(title.toString('latin1'))?.[1]
  return digit === undefined ? undefined : Number(digit)
}

/** Whether a segment that begins so was written by a version with another format. */
export function isForeign(title: Buffer): boolean {
  return ANY_TITLE.test(title.toString('latin1')) && !title.equals(TITLE)
}

export function segmentName(number: number): string {
  return `${String(number).padStart(16, '0')}.segment`
}

/** The number in a segment's name; undefined for another file. */
export function segmentNumber(name: string): number | undefined {
  const digits = /^(\d{16})\.segment$/.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** In the order of writing. */
export class Segments {
  #list: Segment[]
  #highest: number

  /** `highest`: the number of the last segment there ever was. */
  constructor(list: readonly Segment[], highest: number) {
    this.#list = [...list]
    this.#highest = Math.max(highest, list.at(-1)?.number ?? 0)
  }

  /** Bytes on the disk. */
  get bytes(): number {
    let bytes = 0
    for (const { end } of this.#list) bytes += end
    return bytes
  }

  /** The number of the last segment there ever was. */
  get highest(): number {
    return this.#highest
  }

  get first(): Segment | undefined {
    return this.#list[0]
  }

  get last(): Segment | undefined {
    return this.#list.at(-1)
  }

  /** A new one behind all others. */
  next(): Segment {
    const number = ++this.#highest
    return { number, name: segmentName(number), end: 0 }
  }

  add(segment: Segment): void {
    this.#list.push(segment)
  }

  /** The one of this number, or the first behind it. */
  from(number: number): Segment | undefined {
    return this.#list.find(segment => segment.number >= number)
  }

  remove(segment: Segment): void {
    this.#list = this.#list.filter(other => other !== segment)
  }

  before(number: number): Segment[] {
    return this.#list.filter(segment => segment.number < number)
  }
}
