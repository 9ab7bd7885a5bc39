import { isUtf8 } from 'node:buffer'
import { QUOTE } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addEscaped } from '../../../lib/formats/json-string.js'
import type { Action } from './action.js'
import type { SecretFinder } from './finder.js'
import type { Matches } from './matches.js'
import { type Selection, type ValueVisitor, visitSelected } from './selection.js'

/**
 * A long line is divided at cuts. On each side of a cut, the text between the cut and the nearest white space is
 * replaced: at least LEAST_CUT and at most MOST_CUT bytes.
 */
const LEAST_CUT = 64
const MOST_CUT = 4096
const E = 0x45

/** Whether a long line was divided before a text, or behind it. */
export interface Cuts {
  readonly before: boolean
  readonly behind: boolean
}

export type Count = (rule: number) => void

/** Redacts texts and JSON objects, and writes them into `out` if something was found. */
export class ValueRedactor implements ValueVisitor {
  readonly out = new GrowingBytes()
  coversNames = false
  nameEnd = 0
  readonly #finder: SecretFinder
  readonly #action: Action
  readonly #count: Count
  /** The number of the rule for text at a cut. */
  readonly #cutRule: number
  /** For each rule: where its last match ends, or -1 before the first match. */
  readonly #counted: Float64Array
  #isChanged = false
  #copied = 0
  #cuts: Cuts | undefined
  /** Index of the first match in the finder's `seen` that ends after the start of the current value. */
  #next = 0
  /** Whether each selected value is replaced as a whole. */
  #isForced = false

  constructor(finder: SecretFinder, action: Action, count: Count) {
    this.#finder = finder
    this.#action = action
    this.#count = count
    this.#cutRule = finder.rules.length
    this.#counted = new Float64Array(this.#cutRule + 1)
  }

  /** Redacts the text [start, end), which may be invalid UTF-8. Returns whether the redacted text is in `out`. */
  text(b: Buffer, start: number, end: number, cuts?: Cuts): boolean {
    if (this.#finder.hasPatterns && !isUtf8(b.subarray(start, end))) {
      b = Buffer.from(b.toString('utf8', start, end))
      start = 0
      end = b.length
    }
    if (!this.#search(b, start, end, cuts)) return false
    this.out.clear()
    this.#write(b, start, end, false)
    return true
  }

  /**
   * Redacts the selected parts of the valid JSON object at `start`. Call this directly after the finder's `mayHold` has
   * returned true for the object. `cuts`: where long texts in the object were divided.
   */
  object(b: Buffer, start: number, end: number, selection: Selection, cuts?: Cuts): boolean {
    this.#cuts = cuts
    this.#next = 0
    return this.#visit(b, start, end, selection, false)
  }

  whole(b: Buffer, start: number, end: number, selection: Selection): boolean {
    return this.#visit(b, start, end, selection, true)
  }

  /** Whether a text has matches. Does not count the matches. */
  finds(text: Buffer): boolean {
    this.#finder.find(text, 0, text.length)
    return this.#finder.matches.count > 0
  }

  /** Returns whether the redacted object is in `out`. */
  #visit(b: Buffer, start: number, end: number, selection: Selection, isForced: boolean): boolean {
    this.#isChanged = false
    this.#copied = start
    this.#isForced = isForced
    this.nameEnd = 0
    visitSelected(b, start, end, selection, this)
    this.#isForced = false
    if (this.#isChanged) this.out.add(b, this.#copied, end)
    return this.#isChanged
  }

  string(b: Buffer, start: number, end: number, hasEscapes: boolean): void {
    if (!hasEscapes && !this.#mayHold(start, end)) return
    const decoded = hasEscapes ? Buffer.from(JSON.parse(b.toString('utf8', start - 1, end + 1)) as string) : b
    const from = hasEscapes ? 0 : start
    const to = hasEscapes ? decoded.length : end
    const isFound =
      (!hasEscapes && this.#takeSeen(start, end)) ||
      this.#search(decoded, from, to, to - from > LEAST_CUT ? this.#cuts : undefined, b)
    if (!isFound) return
    this.#begin(b, start)
    this.#write(decoded, from, to, true)
    this.#copied = end
  }

  #mayHold(start: number, end: number): boolean {
    if (this.#isForced || this.#cuts || this.#finder.hasPatterns) return true
    if (this.#finder.sawEscapes(start, end)) return true
    const { starts, ends, count } = this.#finder.seen
    while (this.#next < count && ends[this.#next]! <= start) this.#next++
    return this.#next < count && starts[this.#next]! < end
  }

  /** Takes a value's matches from `seen`. Returns false if a search may find other matches. */
  #takeSeen(start: number, end: number): boolean {
    const { seen, matches, seesValues } = this.#finder
    if (!seesValues || this.#isForced || this.#cuts || this.#finder.sawEscapes(start, end)) return false
    matches.clear()
    for (let n = this.#next; n < seen.count && seen.starts[n]! < end; n++) {
      if (seen.starts[n]! < start || seen.ends[n]! > end) return false
      matches.add(seen.starts[n]!, seen.ends[n]!, seen.rules[n]!)
    }
    this.#accept()
    return true
  }

  /** A number with a match becomes a string. */
  number(b: Buffer, start: number, end: number): void {
    const isFound = this.#mayHold(start, end) && this.#search(b, start, end, undefined, b)
    if (!isFound && !this.#searchWritten(b, start, end)) return
    this.#begin(b, start)
    this.out.addByte(QUOTE)
    this.#write(b, start, end, true)
    this.out.addByte(QUOTE)
    this.#copied = end
  }

  /** If a number has an exponent, searches its form without the exponent. */
  #searchWritten(b: Buffer, start: number, end: number): boolean {
    let p = start
    while (p < end && (b[p]! & 0xdf) !== E) p++
    if (p === end) return false
    const text = Buffer.from(String(Number(b.toString('latin1', start, end))))
    const { matches } = this.#finder
    if (!this.#search(text, 0, text.length)) return false
    matches.starts[0] = start
    matches.ends[0] = end
    matches.count = 1
    return true
  }

  /** Searches a text for matches. `json`: JSON with the text in the member at `nameEnd`. */
  #search(b: Buffer, start: number, end: number, cuts?: Cuts, json?: Buffer): boolean {
    const { matches } = this.#finder
    if (this.#isForced) {
      matches.clear()
      matches.add(start, end, this.#cutRule)
      return true
    }
    this.#finder.find(b, start, end)
    if (json) this.#finder.findNamed(json, this.nameEnd, b, start, end)
    if (cuts && end > start) addCuts(b, start, end, cuts, matches, this.#cutRule)
    if (matches.count > 0) this.#accept()
    return matches.count > 0
  }

  /**
   * Counts the matches. Joins overlapping ones, because a secret may be found both with its escapes and without them.
   */
  #accept(): void {
    const { matches } = this.#finder
    matches.order()
    this.#counted.fill(-1)
    for (let i = 0; i < matches.count; i++) {
      const rule = matches.rules[i]!
      if (matches.starts[i]! >= this.#counted[rule]!) this.#count(rule)
      this.#counted[rule] = Math.max(this.#counted[rule]!, matches.ends[i]!)
    }
    matches.merge()
  }

  #begin(b: Buffer, start: number): void {
    if (!this.#isChanged) this.out.clear()
    this.#isChanged = true
    this.out.add(b, this.#copied, start)
  }

  #write(b: Buffer, start: number, end: number, isJson: boolean): void {
    const { count, starts, ends } = this.#finder.matches
    let at = start
    for (let i = 0; i < count; i++) {
      this.#add(b, at, starts[i]!, isJson)
      this.#action(this.out, b, starts[i]!, ends[i]!, isJson)
      at = ends[i]!
    }
    this.#add(b, at, end, isJson)
  }

  #add(b: Buffer, start: number, end: number, isJson: boolean): void {
    if (isJson) addEscaped(this.out, b, start, end)
    else this.out.add(b, start, end)
  }
}

/** A cut may divide a secret, so the text next to a cut counts as a match. */
function addCuts(b: Buffer, start: number, end: number, cuts: Cuts, matches: Matches, rule: number): void {
  if (cuts.behind) {
    let from = Math.max(start, end - LEAST_CUT)
    const first = Math.max(start, end - MOST_CUT)
    while (from > first && b[from - 1]! > 0x20) from--
    while (from > start && (b[from]! & 0xc0) === 0x80) from--
    matches.add(from, end, rule)
  }
  if (cuts.before) {
    let to = Math.min(end, start + LEAST_CUT)
    const last = Math.min(end, start + MOST_CUT)
    while (to < last && b[to]! > 0x20) to++
    while (to < end && (b[to]! & 0xc0) === 0x80) to++
    matches.add(start, to, rule)
  }
}
