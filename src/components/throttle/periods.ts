/** Consecutive time spans that cover all time. */
export interface Periods {
  /** The longest that one may last, in milliseconds. */
  readonly longestMs: number

  /** The start of the period that contains `wall`, in milliseconds since the epoch. */
  startOf(wall: number): number

  /** The end of that period, which is the start of the next one. */
  endOf(wall: number): number
}

/** Periods of one length, which start at its multiples since the epoch. */
export class AlignedPeriods implements Periods {
  readonly longestMs: number

  constructor(windowMs: number) {
    this.longestMs = windowMs
  }

  startOf(wall: number): number {
    return Math.floor(wall / this.longestMs) * this.longestMs
  }

  endOf(wall: number): number {
    return this.startOf(wall) + this.longestMs
  }
}
