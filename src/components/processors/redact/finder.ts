import { ESCAPE_BYTES, MOST_ESCAPES, Unescaped } from '../../../lib/formats/escapes.js'
import type { PatternMatch } from '../../../lib/pattern.js'
import { type Pattern, PatternError } from '../../../lib/pattern.js'
import { Matches } from './matches.js'
import type { Preset } from './presets/presets.js'
import { PresetScanner } from './presets/scanner.js'
import { credentialsStart, endsWithName, HEADER_NAMES, KEY_NAMES } from './presets/tokens.js'

const QUOTE = 0x22
/** Bytes to search before and after the quotes around an escape. A name or the start of its value may be there. */
const BESIDE_QUOTE = 64

/** Presets that find letters and digits without a marker. They only see the unescaped form of a text with escapes. */
const UNESCAPED: ReadonlySet<string> = new Set<Preset>(['card', 'email', 'ipv4', 'ipv6', 'mac', 'iban', 'phone'])

export interface NamedPattern {
  readonly name: string
  readonly pattern: Pattern
}

/**
 * Finds the matches of all rules in one UTF-8 value. The rules are numbered, presets before patterns. All rules see the
 * original value, so no rule depends on the replacements of another rule.
 */
export class SecretFinder {
  readonly matches = new Matches()
  /** The matches that `mayHold` found, in order. */
  readonly seen = new Matches()
  readonly rules: readonly string[]
  readonly hasPatterns: boolean
  /** Whether a search in a single value finds the same matches as `mayHold`, which searches all values together. */
  readonly seesValues: boolean
  readonly #presets: number
  /** By rule: 1 if its matches in text with escapes are kept; 0 if not, because they may include parts of escapes. */
  readonly #readsEscapes: Uint8Array
  readonly #levels = Array.from({ length: MOST_ESCAPES }, () => new Unescaped())
  /** Numbers of the rules for values of members that have the name of a secret or of a header, or -1. */
  readonly #named: number
  readonly #bearer: number
  /** Positions of the first and the last escape that `mayHold` saw. */
  #firstEscape = 0
  #lastEscape = -1
  readonly #scanner: PresetScanner
  readonly #patterns: readonly Pattern[]

  constructor(presets: readonly Preset[], patterns: readonly NamedPattern[]) {
    this.rules = [...presets, ...patterns.map(({ name }) => name)]
    this.hasPatterns = patterns.length > 0
    // These presets also read what is before a token, and this can be the name of the field.
    this.seesValues = !this.hasPatterns && !presets.includes('bearer') && !presets.includes('api_key')
    this.#presets = presets.length
    this.#readsEscapes = Uint8Array.from(this.rules, rule => (UNESCAPED.has(rule) ? 0 : 1))
    this.#named = presets.indexOf('api_key')
    this.#bearer = presets.indexOf('bearer')
    this.#scanner = new PresetScanner(presets)
    this.#patterns = patterns.map(({ pattern }) => pattern)
  }

  /**
   * Whether values in [start, end) of a JSON line may have matches. If there are no patterns, stores in `seen` all
   * matches in values without escapes or exponents.
   */
  mayHold(b: Buffer, start: number, end: number): boolean {
    if (this.hasPatterns) return true
    this.seen.clear()
    this.#scanner.scan(b, start, end, this.seen)
    this.seen.order()
    this.#firstEscape = this.#scanner.firstEscape
    this.#lastEscape = this.#scanner.lastEscape
    if (this.seen.count > 0 || this.#scanner.hasBackslash || this.#scanner.hasExponent) return true
    if (this.#lastEscape < 0) return false
    this.matches.clear()
    // `seen` already has the matches outside of escapes. Only the text around escapes must still be searched.
    let from = this.#firstEscape
    while (from > start && b[from] !== QUOTE) from--
    let to = this.#lastEscape
    while (to < end && b[to] !== QUOTE) to++
    this.#findUnescaped(b, Math.max(start, from - BESIDE_QUOTE), Math.min(end, to + BESIDE_QUOTE))
    return this.matches.count > 0
  }

  /**
   * Whether [start, end) may have escapes, because it overlaps the range between the first and the last escape that
   * `mayHold` saw.
   */
  sawEscapes(start: number, end: number): boolean {
    return this.#firstEscape < end && this.#lastEscape >= start
  }

  /** Clears `matches`, and adds the matches in the text [start, end) and in its unescaped form. */
  find(b: Buffer, start: number, end: number): void {
    this.matches.clear()
    if (this.#find(b, start, end)) this.#findUnescaped(b, start, end)
  }

  /** Adds matches in unescaped [start, end). Terminal colors may be between or within words, so both are tried. */
  #findUnescaped(b: Buffer, start: number, end: number): void {
    if (this.#findWithout(b, start, end, false)) this.#findWithout(b, start, end, true)
  }

  /** Searches without escapes and colors. If `joins` is false, colors separate words. Returns whether colors exist. */
  #findWithout(b: Buffer, start: number, end: number, joins: boolean): boolean {
    const { matches } = this
    const known = matches.count
    let hasColors = false
    for (let n = 0; n < MOST_ESCAPES; n++) {
      const level = this.#levels[n]!
      level.joins = joins
      const last = n > 0 ? this.#levels[n - 1]! : undefined
      const hasChanged = last
        ? level.read(last.text, 0, last.length, this.hasPatterns)
        : level.read(b, start, end, this.hasPatterns)
      hasColors ||= level.hasColors
      if (!hasChanged) break
      matches.filter(b, this.#readsEscapes, joins ? known : 0)
      const first = matches.count
      const hasEscapes = this.#find(level.text, 0, level.length)
      for (let i = first; i < matches.count; i++) {
        matches.starts[i] = this.#placeOf(matches.starts[i]!, n)
        // A color that follows a match is not part of the match.
        const at = joins ? this.#placeOf(matches.ends[i]! - 1, n) : -1
        const isWritten = at >= 0 && !ESCAPE_BYTES.includes(b[at]!)
        matches.ends[i] = isWritten ? at + 1 : this.#placeOf(matches.ends[i]!, n)
      }
      if (!hasEscapes) break
    }
    return hasColors
  }

  /** `p`: a position in the text that was unescaped `n` + 1 times. Returns the same position in the original text. */
  #placeOf(p: number, n: number): number {
    for (; n >= 0; n--) p = this.#levels[n]!.placeOf(p)
    return p
  }

  /**
   * Adds the value [start, end) of `b` as a match if, in the JSON, it belongs to a name of a secret, whose quote ends at
   * `nameEnd`. The words Bearer and Basic stay.
   */
  findNamed(json: Buffer, nameEnd: number, b: Buffer, start: number, end: number): void {
    if (start === end) return
    if (this.#named >= 0 && endsWithName(json, nameEnd, KEY_NAMES)) this.matches.add(start, end, this.#named)
    if (this.#bearer >= 0 && endsWithName(json, nameEnd, HEADER_NAMES))
      this.matches.add(credentialsStart(b, start, end), end, this.#bearer)
  }

  /** Adds the matches in [start, end). Returns whether there are escapes. */
  #find(b: Buffer, start: number, end: number): boolean {
    this.#scanner.scan(b, start, end, this.matches)
    const hasEscapes = this.#scanner.lastEscape >= 0
    if (!this.hasPatterns || start === end) return hasEscapes
    const text = b.toString('utf8', start, end)
    const isAscii = text.length === end - start
    for (let n = 0; n < this.#patterns.length; n++) {
      try {
        this.#findPattern(text, start, isAscii, n)
      } catch (error) {
        if (!(error instanceof PatternError)) throw error
        // The value is too long to be searched, so all of it is replaced.
        this.matches.add(start, end, this.#presets + n)
      }
    }
    return hasEscapes
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
