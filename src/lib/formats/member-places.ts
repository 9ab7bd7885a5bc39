import { resized } from '../columns.js'
import { CLOSE_OBJECT, COLON, COMMA, OPEN_OBJECT, QUOTE } from './ascii.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from './json-scan.js'

/** Initial room for members. Room for more than MOST_KEPT is released before the next object. */
const USUAL = 64
const MOST_KEPT = 4096

export class MemberPlaces {
  count = 0
  /** The range of each name, between its quotes. */
  nameStarts = new Int32Array(USUAL)
  nameEnds = new Int32Array(USUAL)
  valueStarts = new Int32Array(USUAL)
  valueEnds = new Int32Array(USUAL)
  /** NAME if the name has escapes, VALUE if the value is a string with escapes. */
  escapes = new Uint8Array(USUAL)

  /**
   * Finds the members of [start, end). Returns whether this is a JSON object, perhaps with white space around it. The
   * byte at `end` must be a control character.
   */
  read(b: Uint8Array, start: number, end: number): boolean {
    this.count = 0
    if (this.escapes.length > MOST_KEPT) this.#resize(USUAL)
    let p = skipSpace(b, start, end)
    if (b[p] !== OPEN_OBJECT) return false
    p = skipSpace(b, p + 1, end)
    if (b[p] === CLOSE_OBJECT) return skipSpace(b, p + 1, end) === end
    for (;;) {
      if (b[p] !== QUOTE) return false
      const at = this.count++
      if (at === this.escapes.length) this.#resize(2 * at)
      this.nameStarts[at] = p + 1
      p = stringEnd(b, p + 1)
      if (p < 0) return false
      this.nameEnds[at] = p
      let escapes = sawEscape ? NAME : 0
      p = skipSpace(b, p + 1, end)
      if (b[p] !== COLON) return false
      p = skipSpace(b, p + 1, end)
      this.valueStarts[at] = p
      const isString = b[p] === QUOTE
      p = valueEnd(b, p, end)
      if (p < 0) return false
      this.valueEnds[at] = p
      if (isString && sawEscape) escapes |= VALUE
      this.escapes[at] = escapes
      p = skipSpace(b, p, end)
      if (b[p] === CLOSE_OBJECT) return skipSpace(b, p + 1, end) === end
      if (b[p] !== COMMA) return false
      p = skipSpace(b, p + 1, end)
    }
  }

  #resize(size: number): void {
    this.nameStarts = resized(this.nameStarts, size)
    this.nameEnds = resized(this.nameEnds, size)
    this.valueStarts = resized(this.valueStarts, size)
    this.valueEnds = resized(this.valueEnds, size)
    this.escapes = resized(this.escapes, size)
  }
}

export const NAME = 1
export const VALUE = 2
