import { Pattern, PatternError } from '../../../lib/pattern.js'

/**
 * Patterns for the text of a bucket. `*` stands for any characters, `?` for one character, `[a-z]` and `[!a-z]` for one
 * character of a set, `{a,b}` for alternatives. The character after a backslash is literal. Patterns are matched in
 * linear time.
 */

const LONGEST = 1024
/** A pattern without these special characters matches only its own text. */
const SPECIAL = /[*?[{}\\]/
/** Characters with a meaning in regular expressions. */
const SYNTAX = /[\\^$.*+?()[\]{}|/]/

/** Thrown if a pattern cannot be used. The message says why. */
export class KeyPatternError extends Error {}

export class KeyPattern {
  /** The only text that matches; undefined if other texts may match. */
  readonly text: string | undefined
  /** The characters that all matching texts begin with. */
  readonly prefix: string
  readonly #suffix: string
  /** Undefined if the prefix is sufficient: every text with the prefix matches, or only the prefix itself matches. */
  readonly #pattern: Pattern | undefined

  /** `isList`: texts are JSON arrays, so a bracket at the beginning is literal. Throws KeyPatternError. */
  constructor(source: string, isList = false) {
    if (source === '') throw new KeyPatternError('must not be empty')
    if (source.length > LONGEST) throw new KeyPatternError(`is longer than ${LONGEST} characters`)
    if (!SPECIAL.test(source)) {
      this.text = source
      this.prefix = source
      this.#suffix = source
      return
    }
    const reader = new PatternReader(isList && source.startsWith('[') ? `\\${source}` : source)
    const expression = reader.read()
    this.prefix = reader.prefix
    this.#suffix = reader.suffix
    this.text = reader.isLiteral ? reader.prefix : undefined
    const isSimple = reader.isLiteral || expression === `${escaped(reader.prefix)}.*`
    this.#pattern = isSimple ? undefined : compiled(expression)
  }

  test(text: string): boolean {
    if (this.text !== undefined) return text === this.text
    if (!text.startsWith(this.prefix) || !text.endsWith(this.#suffix)) return false
    return this.#pattern?.test(text) ?? true
  }
}

function compiled(expression: string): Pattern {
  try {
    return new Pattern(`^(?:${expression})$`, 'su')
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    throw new KeyPatternError(`cannot be used: ${error.message}`)
  }
}

class PatternReader {
  /** The literal characters before the first special character. */
  prefix = ''
  /** The literal characters after the last special character. */
  suffix = ''
  isLiteral = true
  readonly #source: readonly string[]
  #at = 0
  #open = 0

  constructor(source: string) {
    this.#source = [...source]
  }

  read(): string {
    let expression = ''
    while (this.#at < this.#source.length) expression += this.#next()
    if (this.#open > 0) throw new KeyPatternError('has a { without a }; write \\{ for the character')
    return expression
  }

  #next(): string {
    const character = this.#source[this.#at++]!
    switch (character) {
      case '*':
        return this.#special('.*')
      case '?':
        return this.#special('.')
      case '[':
        return this.#special(this.#set())
      case '{':
        this.#open++
        return this.#special('(?:')
      case '}':
        if (this.#open === 0) break
        this.#open--
        this.suffix = ''
        return ')'
      case ',':
        if (this.#open === 0) break
        return '|'
      case '\\':
        if (this.#at === this.#source.length) throw new KeyPatternError('ends with a \\; write \\\\ instead')
        return this.#literal(this.#source[this.#at++]!)
    }
    return this.#literal(character)
  }

  #special(expression: string): string {
    this.isLiteral = false
    this.suffix = ''
    return expression
  }

  #literal(character: string): string {
    if (this.isLiteral) this.prefix += character
    this.suffix += character
    return escaped(character)
  }

  /** Translates a set, up to its closing bracket. */
  #set(): string {
    const negated = this.#source[this.#at] === '!' || this.#source[this.#at] === '^'
    if (negated) this.#at++
    let set = ''
    for (let first = true; ; first = false) {
      let character = this.#source[this.#at++]
      if (character === undefined) throw new KeyPatternError('has a [ without a ]; write \\[ for the character')
      if (character === ']' && !first) return `[${negated ? '^' : ''}${set}]`
      if (character === '-' && !first && this.#source[this.#at] !== ']') {
        set += '-'
        continue
      }
      if (character === '\\') character = this.#source[this.#at++] ?? ''
      set += character === '-' ? '\\-' : escaped(character)
    }
  }
}

function escaped(text: string): string {
  return [...text].map(character => (SYNTAX.test(character) ? `\\${character}` : character)).join('')
}
