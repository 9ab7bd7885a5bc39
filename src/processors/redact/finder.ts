import type { PatternMatch } from '../../lib/pattern.js'
import { type Pattern, PatternError } from '../../lib/pattern.js'
import { Matches } from './matches.js'
import type { Preset } from './presets/presets.js'
import { PresetScanner } from './presets/scanner.js'

/** A pattern of the user. */
export interface NamedPattern {
  readonly name: string
  readonly pattern: Pattern
}

/**
 * Finds what all rules describe in one value, which is UTF-8. Rules are numbered: the presets, then the patterns. All of
 * them see the value as it is, so none depends on what another one would have replaced.
 */
export class Finder {
  readonly matches = new Matches()
  /** What `mayHold` found, in order. */
  readonly seen = new Matches()
  readonly rules: readonly string[]
  readonly hasPatterns: boolean
  /** Whether what was `seen` within a value is what is found in the value alone. */
  readonly seesValues: boolean
  readonly #presets: number
  readonly #scanner: PresetScanner
  readonly #patterns: readonly Pattern[]

  constructor(presets: readonly Preset[], patterns: readonly NamedPattern[]) {
    this.rules = [...presets, ...patterns.map(({ name }) => name)]
    this.hasPatterns = patterns.length > 0
    // A word before a token can be the name of a field.
    this.seesValues = !this.hasPatterns && !presets.includes('bearer') && !presets.includes('api_key')
    this.#presets = presets.length
    this.#scanner = new PresetScanner(presets)
    this.#patterns = patterns.map(({ pattern }) => pattern)
  }

  /**
   * Whether values in [start, end) of a line of JSON may hold something. Without patterns, those that are written without
   * escapes and exponents do so only where something was `seen`.
   */
  mayHold(b: Buffer, start: number, end: number): boolean {
    if (this.hasPatterns) return true
    this.seen.clear()
    this.#scanner.scan(b, start, end, this.seen)
    this.seen.order()
    return this.seen.count > 0 || this.#scanner.hasBackslash || this.#scanner.hasExponent
  }

  /** Whether the value that was searched last has a backslash. */
  get hasBackslash(): boolean {
    return this.#scanner.hasBackslash
  }

  /** Puts what is in [start, end) into `matches`. What was there before is dropped. */
  find(b: Buffer, start: number, end: number): void {
    this.matches.clear()
    this.#scanner.scan(b, start, end, this.matches)
    if (!this.hasPatterns || start === end) return
    const text = b.toString('utf8', start, end)
    const isAscii = text.length === end - start
    for (let n = 0; n < this.#patterns.length; n++) {
      try {
        this.#findPattern(text, start, isAscii, n)
      } catch (error) {
        if (!(error instanceof PatternError)) throw error
        // It is too long to be searched, so nobody knows what is in it.
        this.matches.add(start, end, this.#presets + n)
      }
    }
  }

  #findPattern(text: string, start: number, isAscii: boolean, n: number): void {
    const pattern = this.#patterns[n]!
    let seen = 0
    let at = start
    const placeOf = (index: number): number => {
      at += isAscii ? index - seen : Buffer.byteLength(text.slice(seen, index))
      seen = index
      return at
    }
    let found: PatternMatch | undefined
    for (let from = 0; from <= text.length; ) {
      found = pattern.exec(text, from)
      if (!found) return
      if (found.end > found.start) {
        const place = placeOf(found.start)
        this.matches.add(place, placeOf(found.end), this.#presets + n)
        from = found.end
      } else from = found.end + (text.codePointAt(found.end)! > 0xffff ? 2 : 1)
    }
  }
}
