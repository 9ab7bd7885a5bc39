import { type FieldPath, PathError, readFieldPath } from '../core/event/field-path.js'
import { type Fix, meantOperator, meantWord, methodAt, oneOfAt, quoted, regexAt, termAt } from './foreign.js'
import { OPERATORS, ValueError, type ValueTest } from './operators.js'

/**
 * The grammar of conditions:
 *
 *   condition  = "if" "(" or ")"
 *   or         = and { "OR" and }
 *   and        = not { "AND" not }
 *   not        = { "NOT" } ( "(" or ")" | comparison )
 *   comparison = path operator [ value ]
 *   value      = 'text' | "text" | number | true | false
 *
 * Keywords are case-insensitive, operators are not. In a quoted value \', \" and \\ escape the character; any other
 * backslash is literal.
 */
export type Condition =
  | { readonly kind: 'and' | 'or'; readonly terms: readonly Condition[] }
  | { readonly kind: 'not'; readonly term: Condition }
  | Comparison

export interface Comparison {
  readonly kind: 'comparison'
  readonly path: FieldPath
  readonly operator: string
  /** The text of the value; undefined if the operator takes none. */
  readonly value: string | undefined
  readonly holds: ValueTest
}

/** A syntax error in a condition; `column` is 1-based, in characters of the whole text. */
export class ConditionError extends Error {
  readonly code = 'SLUICE_CONDITION'
  readonly column: number
  /** The suggested correction, if there is a single one. */
  readonly fix: Fix | undefined
  constructor(message: string, column: number, fix?: Fix) {
    super(message)
    this.column = column
    this.fix = fix
  }
}

const LONGEST_TEXT = 64 * 1024
const MOST_COMPARISONS = 1000
/** Maximum nesting of parentheses and NOTs. */
const DEEPEST = 100
/** Maximum number of corrections to try. */
const MOST_FIXES = 50
const LONGEST_SHOWN = 200

const SPACE = /\s*/y
const WORD = /[\p{L}_][\p{L}\p{N}_]*/uy
const SYMBOLS = /[=!<>~&|]+/y
const BARE = /[^\s()'"]+/y
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const NULL = /\s+(?:not\s+)?null\b/iy
const CURLY_QUOTES = /[‘’“”]/g

/** Parses a whole condition; throws ConditionError. */
export function parseCondition(text: string): Condition {
  return new Parser(text).whole()
}

/** Corrects a condition without if (…), or with operators of other languages; undefined if its meaning is uncertain. */
export function correctedCondition(text: string): string | undefined {
  const inner = /^\s*if\b(?!\s*\()/i.test(text) ? text.replace(/^\s*if/i, '') : text
  let corrected = /^\s*if\s*\(/i.test(inner) ? inner : `if (${inner.trim().replace(/^\(([^()]*)\)$/, '$1')})`
  for (let tries = 0; tries < MOST_FIXES; tries++) {
    try {
      parseCondition(corrected)
      return corrected
    } catch (error) {
      if (!(error instanceof ConditionError) || !error.fix) return undefined
      const { from, to, text } = error.fix
      const rest = corrected.slice(to)
      corrected = corrected.slice(0, from) + (/^\s/.test(rest) ? text.trimEnd() : text) + rest
    }
  }
  return undefined
}

/** The corrected condition, if it is certain and short enough for a message. */
export function adviceFor(text: string): string | undefined {
  return text.length > LONGEST_SHOWN ? undefined : correctedCondition(text)
}

class Parser {
  readonly #text: string
  #at = 0
  #depth = 0
  #comparisons = 0

  constructor(text: string) {
    this.#text = text
  }

  whole(): Condition {
    if (this.#text.length > LONGEST_TEXT) this.#fail(`the condition is longer than ${LONGEST_TEXT} characters`, 0)
    this.#take(SPACE)
    const start = this.#at
    if (!this.#takeWord('if')) {
      this.#fail(`a condition has the form if (.field operator 'value'); write: ${this.#example()}`, start)
    }
    if (!this.#takeChar('(')) this.#fail(`expected "(" after if; write: ${this.#example()}`)
    const condition = this.#or()
    this.#close(start)
    if (this.#at < this.#text.length) {
      this.#fail('nothing may follow the parenthesis that closes if (…); put the whole condition inside it')
    }
    return condition
  }

  /** The corrected condition, or else an example. */
  #example(): string {
    return adviceFor(this.#text) ?? `if (.host equal 'web-1')`
  }

  #or(): Condition {
    const terms = [this.#and()]
    while (this.#takeWord('or')) terms.push(this.#and())
    return terms.length === 1 ? terms[0]! : { kind: 'or', terms }
  }

  #and(): Condition {
    const terms = [this.#not()]
    while (this.#takeWord('and')) terms.push(this.#not())
    return terms.length === 1 ? terms[0]! : { kind: 'and', terms }
  }

  #not(): Condition {
    const start = this.#at
    if (this.#takeWord('not')) return this.#deeper(start, () => ({ kind: 'not', term: this.#not() }))
    if (!this.#takeChar('(')) return this.#comparison()
    return this.#deeper(start, () => {
      const condition = this.#or()
      this.#close(start)
      return condition
    })
  }

  #deeper(start: number, read: () => Condition): Condition {
    if (++this.#depth > DEEPEST) this.#fail(`nested deeper than ${DEEPEST} parentheses and NOTs`, start)
    const condition = read()
    this.#depth--
    return condition
  }

  /** Parses the closing parenthesis of the one at `opened`. */
  #close(opened: number): void {
    if (this.#takeChar(')')) return
    if (this.#at === this.#text.length) {
      const column = this.#text.indexOf('(', opened) + 1
      this.#fail(`the parenthesis at column ${column} is not closed: expected ")", AND or OR`)
    }
    const symbols = this.#peek(SYMBOLS)
    const word = meantWord(symbols)
    const start = this.#at
    if (word === undefined) this.#fail('expected AND, OR or ")"')
    const fix = { from: start, to: start + symbols!.length, text: `${word} ` }
    this.#fail(`expected AND, OR or ")"; did you mean ${word}?`, start, fix)
  }

  #comparison(): Comparison {
    if (++this.#comparisons > MOST_COMPARISONS) this.#fail(`more than ${MOST_COMPARISONS} comparisons`)
    const begin = this.#at
    const path = this.#path()
    const name = this.#operatorName(begin)
    const operator = OPERATORS.get(name)!
    const start = this.#at
    if (!operator.takesValue) {
      if (this.#peekValue()) this.#fail(`${name} takes no value`)
      return { kind: 'comparison', path, operator: name, value: undefined, holds: operator.compile('') }
    }
    const value = this.#value(name, begin)
    try {
      return { kind: 'comparison', path, operator: name, value, holds: operator.compile(value) }
    } catch (error) {
      if (!(error instanceof ValueError)) throw error
      this.#fail(error.message, start)
    }
  }

  #path(): FieldPath {
    if (this.#text[this.#at] !== '.') {
      const word = this.#peek(WORD)
      const at = this.#at
      const term = termAt(this.#text, at)
      if (term) this.#fail(`${this.#text.slice(at, term.to)} is not a comparison here; write ${term.text}`, at, term)
      if (this.#text[at] === '!')
        this.#fail('expected a field or NOT; did you mean NOT?', at, { from: at, to: at + 1, text: 'NOT ' })
      if (word && !OPERATORS.has(word) && !/^(and|or)$/i.test(word))
        this.#fail(`a field starts with a dot: .${word}`, at, { from: at, to: at, text: '.' })
      this.#fail(`expected a comparison such as .field equal 'value'`)
    }
    try {
      const { path, end } = readFieldPath(this.#text, this.#at)
      this.#at = end
      this.#take(SPACE)
      return path
    } catch (error) {
      if (!(error instanceof PathError)) throw error
      this.#fail(error.message, error.column - 1)
    }
  }

  /** `begin`: the start of the comparison. */
  #operatorName(begin: number): string {
    const start = this.#at
    const method = this.#text[start] === '(' ? methodAt(this.#text, begin, start) : undefined
    if (method) this.#fail(`the operator must be between the field and the value; write ${method.text}`, start, method)
    if (regexAt(this.#text, start))
      this.#fail('a regular expression needs regex_match', start, { from: start, to: start, text: 'regex_match ' })
    const name = this.#take(WORD) ?? this.#take(SYMBOLS)
    if (name === undefined) this.#fail('expected an operator such as equal or exists')
    if (OPERATORS.has(name)) {
      this.#take(SPACE)
      return name
    }
    const field = this.#text.slice(begin, start).trimEnd()
    if (name.toLowerCase() === 'not') this.#failAtNot(begin, start)
    if (name === '!~') {
      const message = `NOT must be before the field: NOT ${field} regex_match`
      this.#fail(message, start, { from: begin, to: this.#at, text: `NOT ${field} regex_match ` })
    }
    if (name.toLowerCase() === 'is') {
      const found = this.#peek(NULL)
      if (found) this.#failAtNull(/not/i.test(found) ? 'not_equal' : 'equal', begin, this.#at + found.length)
    }
    const oneOf = name.toLowerCase() === 'in' ? oneOfAt(this.#text, begin, this.#at, field) : undefined
    if (oneOf) this.#fail('there is no operator for a list of values; combine comparisons with OR', start, oneOf)
    const meant = meantOperator(name)
    const known = `the operators are ${[...OPERATORS.keys()].join(', ')}`
    this.#fail(
      `unknown operator ${JSON.stringify(name)}; ${meant ? `did you mean ${meant}?` : known}`,
      start,
      meant ? { from: start, to: this.#at, text: `${meant} ` } : undefined,
    )
  }

  /** Reports `not` after a field: `.a not equal 'x'`, `.a not contains 'x'`, `.a not 'x'`. */
  #failAtNot(begin: number, start: number): never {
    this.#take(SPACE)
    const operator = this.#peek(WORD)
    if (operator === undefined || operator === 'equal' || !OPERATORS.has(operator)) {
      const to = operator === 'equal' ? this.#at + operator.length : start + 3
      const message = 'unknown operator "not"; did you mean not_equal?'
      this.#fail(message, start, { from: start, to, text: 'not_equal ' })
    }
    const field = this.#text.slice(begin, start)
    const message = `NOT must be before the field: NOT ${field}${operator}`
    this.#fail(message, start, { from: begin, to: this.#at, text: `NOT ${field}` })
  }

  /** Whether a value follows, rather than AND, OR or a parenthesis. */
  #peekValue(): boolean {
    if (/['"]/.test(this.#text[this.#at] ?? '')) return true
    const bare = this.#peek(BARE)
    return bare !== undefined && (bare === 'true' || bare === 'false' || NUMBER.test(bare))
  }

  #value(operator: string, begin: number): string {
    const start = this.#at
    const regex = operator === 'regex_match' ? regexAt(this.#text, start) : undefined
    if (regex) this.#failAtValue(start, regex.end, regex.value)
    const quote = this.#text[start]
    if (quote === "'" || quote === '"') return this.#quoted(quote)
    const bare = this.#peek(BARE)
    if (bare === undefined || /^(and|or)$/i.test(bare))
      this.#fail(`${operator} needs a value, as in ${operator} 'value'`)
    if (bare === 'null') this.#failAtNull(operator, begin, start + bare.length)
    if (!this.#peekValue()) this.#failAtValue(start, start + bare.length, quoted(bare.replace(CURLY_QUOTES, '')))
    this.#take(BARE)
    this.#take(SPACE)
    return bare === 'true' || bare === 'false' ? bare : String(Number(bare))
  }

  /** Reports a value without quotes. */
  #failAtValue(from: number, to: number, text: string): never {
    this.#fail(`put the value in single quotes: ${text}`, from, { from, to, text })
  }

  #failAtNull(operator: string, from: number, to: number): never {
    const field = /^\S+/.exec(this.#text.slice(from))![0]
    const message = 'null cannot be compared; use is_null, or NOT with is_null'
    const isNot = operator === 'not_equal'
    if (!isNot && operator !== 'equal') this.#fail(message)
    this.#fail(message, this.#at, {
      from,
      to,
      text: isNot ? `(${field} exists AND NOT ${field} is_null)` : `${field} is_null`,
    })
  }

  #quoted(quote: string): string {
    const start = this.#at++
    let value = ''
    for (;;) {
      const char = this.#text[this.#at++]
      if (char === undefined) this.#fail(`the quote that opens here is not closed: expected ${quote}`, start)
      if (char === quote) break
      const next = this.#text[this.#at]
      if (char === '\\' && (next === "'" || next === '"' || next === '\\')) {
        value += next
        this.#at++
      } else value += char
    }
    if (!value.isWellFormed())
      this.#fail('the value contains half of a surrogate pair, which is not a character', start)
    this.#take(SPACE)
    return value
  }

  #peek(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    return pattern.exec(this.#text)?.[0]
  }

  #take(pattern: RegExp): string | undefined {
    const found = this.#peek(pattern)
    if (found !== undefined) this.#at += found.length
    return found
  }

  /** Parses a keyword in any case, with the white space after it. */
  #takeWord(word: string): boolean {
    const found = this.#peek(WORD)
    if (found?.toLowerCase() !== word) return false
    this.#at += found.length
    this.#take(SPACE)
    return true
  }

  #takeChar(char: string): boolean {
    if (this.#text[this.#at] !== char) return false
    this.#at++
    this.#take(SPACE)
    return true
  }

  #fail(message: string, at = this.#at, fix?: Fix): never {
    throw new ConditionError(message, at + 1, fix)
  }
}
