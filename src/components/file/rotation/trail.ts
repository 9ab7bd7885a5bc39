import { FINGERPRINT_BYTES, type Fingerprint, fingerprint } from '../identity.js'

/** A place in a file, and the fingerprint of the bytes before it. */
export interface Mark {
  readonly offset: number
  readonly tail: Fingerprint
  /** A copy of the file ends here. */
  readonly isCopied?: true | undefined
}

const LF = 0x0a

/**
 * A copy that is shorter than this is recognized only if it ends where a line or a read of the original ended. Each
 * later mark is at twice the offset of the previous mark.
 */
export const FIRST_MARK = 2 * FINGERPRINT_BYTES

/** From this size on, a file is long: it has more marks than a checkpoint should hold for many files. */
export const LONG_BYTES = 4 * FIRST_MARK

/** Maximum marks at the ends of copies. The last ones are kept. */
const MOST_COPIED = 32

/**
 * Marks in the part of a file that was read. If another file is shorter than this part, the marks show whether it is a
 * copy of the beginning of this file.
 */
export class Trail {
  readonly #marks: Mark[]
  /** Sizes of copies that are longer than the part that was read. */
  readonly #copies = new Set<number>()

  readonly #onMark: (mark: Mark) => void

  /** `onMark` is called for each new mark. */
  constructor(marks: readonly Mark[] = [], onMark: (mark: Mark) => void = () => {}) {
    this.#marks = [...marks]
    this.#onMark = onMark
  }

  get marks(): readonly Mark[] {
    return this.#marks
  }

  /** Registers the first bytes of a file that was not read yet. */
  begin(first: Buffer): void {
    const tailAt = (offset: number) => fingerprint(first, Math.max(0, offset - FINGERPRINT_BYTES), offset)
    this.add(0, first.length, first, tailAt)
  }

  /**
   * Registers the bytes read from `at` to `end`. `tailAt` returns the fingerprint of the bytes before an offset in this
   * range.
   */
  add(at: number, end: number, bytes: Buffer, tailAt: (offset: number) => Fingerprint): void {
    let from = this.#marks.at(-1)?.offset ?? 0
    const mark = (offset: number, isCopied = false) => {
      const tail = tailAt(offset)
      // If a position within a batch was restored, fewer bytes before this offset are known.
      if (tail.bytes !== Math.min(offset, FINGERPRINT_BYTES)) return
      if (isCopied) return this.insert({ offset, tail })
      this.#marks.push({ offset, tail })
      this.#onMark({ offset, tail })
    }
    while (from < end && at < FIRST_MARK) {
      const lf = bytes.indexOf(LF, Math.max(0, from - at))
      const next = lf === -1 ? end : at + lf + 1
      if (next >= FIRST_MARK) break
      from = next
      mark(from)
    }
    for (let offset = FIRST_MARK; offset <= end; offset *= 2) if (offset > from && offset > at) mark(offset)
    for (const offset of this.#copies) {
      if (offset > end) continue
      this.#copies.delete(offset)
      if (offset > at) mark(offset, true)
    }
  }

  /** Registers that a copy ends at an offset that was not read yet. */
  expect(size: number): void {
    this.#copies.add(size)
    if (this.#copies.size > MOST_COPIED) this.#copies.delete(this.#copies.values().next().value!)
  }

  /** Registers that a copy ends at this mark. */
  insert({ offset, tail }: Mark): void {
    const at = 1 + this.#marks.findLastIndex(mark => mark.offset < offset)
    this.#marks.splice(at, this.#marks[at]?.offset === offset ? 1 : 0, { offset, tail, isCopied: true })
    this.#onMark({ offset, tail })
    // A copy that grows with the file ends at another place in each search.
    const copied = this.#marks.filter(({ isCopied }) => isCopied)
    if (copied.length > MOST_COPIED) this.#marks.splice(this.#marks.indexOf(copied[0]!), 1)
  }

  /** The last mark in the first `size` bytes; undefined if a different file of this size may have the same mark. */
  within(size: number): Mark | undefined {
    const mark = this.#marks.findLast(({ offset }) => offset <= size)
    return mark && (mark.offset === size || mark.offset >= FIRST_MARK) ? mark : undefined
  }

  /** The last mark in the first `size` bytes. A line, a read or a copy ends at each mark before FIRST_MARK. */
  lineIn(size: number): Mark | undefined {
    return this.#marks.findLast(({ offset }) => offset <= size)
  }

  /**
   * The marks to save for a file that was delivered up to `end`, and whose first `head` bytes are known. If the file is
   * long, the ends of its first lines are left out, unless a copy ends there. `wasLong`: it was long so early that any
   * copy that may still be unknown is long, too.
   */
  saved(end: number, head: number, wasLong: boolean): readonly Mark[] {
    const isLong = wasLong && end >= LONG_BYTES
    return this.#marks.filter(
      ({ offset, isCopied }) =>
        (offset < end || offset <= head) && offset !== end && (offset >= FIRST_MARK || !isLong || isCopied === true),
    )
  }
}
