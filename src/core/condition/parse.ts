import { PathError, readFieldPath } from '../event/field-path.js'
import { ConditionError, Cursor, WORD } from './cursor.js'
import {
  betweenAt,
  callAt,
  listAt,
  meantOperator,
  meantWord,
  methodAt,
  quoted,
  regexAt,
  SYMBOLS,
  termAt,
} from './foreign.js'
import { FUNCTIONS, type Operand } from './functions.js'
import { OPERATORS, ValueError, type ValueTest } from './operators.js'
import { PAIR_TESTS, type PairTest } from './pairs.js'

/**
 * The grammar of conditions:
 *
 *   condition  = "if" "(" or ")"
 *   or         = and { "OR" and }
 *   and        = not { "AND" not }
 *   not        = { "NOT" } ( "(" or ")" | comparison )
 *   comparison = operand operator [ value | operand | "(" value { "," value } ")" ]
 *   operand    = path | function "(" operand ")"
 *   value      = 'text' | "text" | number | true | false
 *
 * Keywords and `in` are case-insensitive, other operators and functions are not. In a quoted value \', \" and \\ escape
 * the character; any other backslash is literal.
 */
export type Condition =
  | { readonly kind: 'and' | 'or'; readonly terms: readonly Condition[] }
  | { readonly kind: 'not'; readonly term: Condition }
  | Comparison
  | FieldComparison

/** With a value, a list of values, or nothing. */
export interface Comparison {
  readonly kind: 'comparison'
  readonly operand: Operand
  readonly operator: string
  /** The texts of the values. */
  readonly values: readonly string[]
  readonly holds: ValueTest
}

/** With another field. */
export interface FieldComparison {
  readonly kind: 'fields'
  readonly operand: Operand
  readonly operator: string
  readonly other: Operand
  readonly holds: PairTest
}

const LONGEST_TEXT = 64 * 1024
const MOST_COMPARISONS = 1000
const MOST_VALUES = 1000
/** Maximum nesting of parentheses, NOTs and functions. */
const DEEPEST = 100
/** Maximum number of corrections to try. */
const MOST_FIXES = 50
const LONGEST_SHOWN = 200

const BARE = /[^\s()'"]+/y
const LISTED = /[^\s()'",]+/y
const CALL = /[\p{L}_][\p{L}\p{N}_]*\s*\(/uy
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const FRACTION = /\.\d+(?=[\s),]|$)/y
const NULL = /\s*(?:not\s+)?null\b/iy
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

class Parser extends Cursor {
  #depth = 0
  #comparisons = 0

  whole(): Condition {
    if (this.text.length > LONGEST_TEXT) this.fail(`the condition is longer than ${LONGEST_TEXT} characters`, 0)
    const start = this.at
    if (!this.takeWord('if')) {
      this.fail(`a condition has the form if (.field operator 'value'); write: ${this.#example()}`, start)
    }
    if (!this.takeChar('(')) this.fail(`expected "(" after if; write: ${this.#example()}`)
    const condition = this.#or()
    this.#close(start)
    if (!this.isAtEnd) {
      this.fail('nothing may follow the parenthesis that closes if (…); put the whole condition inside it')
    }
    return condition
  }

  /** The corrected condition, or else an example. */
  #example(): string {
    return adviceFor(this.text) ?? `if (.host equal 'web-1')`
  }

  #or(): Condition {
    const terms = [this.#and()]
    while (this.takeWord('or')) terms.push(this.#and())
    return terms.length === 1 ? terms[0]! : { kind: 'or', terms }
  }

  #and(): Condition {
    const terms = [this.#not()]
    while (this.takeWord('and')) terms.push(this.#not())
    return terms.length === 1 ? terms[0]! : { kind: 'and', terms }
  }

  #not(): Condition {
    const start = this.at
    if (this.takeWord('not')) return this.#deeper(start, () => ({ kind: 'not', term: this.#not() }))
    if (!this.takeChar('(')) return this.#comparison()
    return this.#deeper(start, () => {
      const condition = this.#or()
      this.#close(start)
      return condition
    })
  }

  #deeper<T>(start: number, read: () => T): T {
    if (++this.#depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} parentheses and NOTs`, start)
    const part = read()
    this.#depth--
    return part
  }

  /** Parses the closing parenthesis of the one at `opened`. */
  #close(opened: number): void {
    if (this.takeChar(')')) return
    if (this.isAtEnd) {
      const column = this.text.indexOf('(', opened) + 1
      this.fail(`the parenthesis at column ${column} is not closed: expected ")", AND or OR`)
    }
    const symbols = this.peek(SYMBOLS)
    const word = meantWord(symbols)
    const start = this.at
    if (word === undefined) this.fail('expected AND, OR or ")"')
    const fix = { from: start, to: start + symbols!.length, text: `${word} ` }
    this.fail(`expected AND, OR or ")"; did you mean ${word}?`, start, fix)
  }

  #comparison(): Condition {
    if (++this.#comparisons > MOST_COMPARISONS) this.fail(`more than ${MOST_COMPARISONS} comparisons`)
    const begin = this.at
    const operand = this.#operand()
    const operator = this.#operatorName(begin)
    const { takes, compile } = OPERATORS.get(operator)!
    const start = this.at
    if (takes === 'value' && (this.char === '.' || this.peek(CALL))) {
      const holds = PAIR_TESTS.get(operator)
      if (!holds) this.fail(`${operator} takes a value in quotes, and cannot compare fields`)
      if (this.peek(FRACTION)) this.fail(`a number has a digit before its point: 0${this.peek(FRACTION)}`)
      return { kind: 'fields', operand, operator, other: this.#operand(), holds }
    }
    if (takes === 'nothing' && this.#peekValue(BARE)) this.fail(`${operator} takes no value`)
    const values =
      takes === 'list' ? this.#list(operator) : takes === 'value' ? [this.#value(operator, begin, BARE)] : []
    try {
      return { kind: 'comparison', operand, operator, values, holds: compile(values) }
    } catch (error) {
      if (!(error instanceof ValueError)) throw error
      this.fail(error.message, start)
    }
  }

  #operand(): Operand {
    const start = this.at
    const name = this.peek(WORD)
    if (name === undefined || !FUNCTIONS.has(name)) return this.#field()
    this.take(WORD)
    if (!this.takeChar('(')) this.fail(`${name} takes a field in parentheses, as in ${name}(.field)`)
    const { path, functions } = this.#deeper(start, () => this.#operand())
    if (!this.takeChar(')')) this.fail(`expected ")" after the field of ${name}`)
    return { path, functions: [name, ...functions] }
  }

  #field(): Operand {
    const at = this.at
    if (this.char !== '.') {
      const call = callAt(this.text, at)
      if (call) this.fail(`unknown function ${call.name}; did you mean ${call.fix.text}?`, at, call.fix)
      const word = this.peek(WORD)
      const term = termAt(this.text, at)
      if (term) this.fail(`${this.text.slice(at, term.to)} is not a comparison here; write ${term.text}`, at, term)
      if (this.char === '!')
        this.fail('expected a field or NOT; did you mean NOT?', at, { from: at, to: at + 1, text: 'NOT ' })
      if (word && this.peek(CALL))
        this.fail(`unknown function ${word}; the functions are ${[...FUNCTIONS.keys()].join(', ')}`)
      if (word && !OPERATORS.has(word) && !/^(and|or)$/i.test(word))
        this.fail(`a field starts with a dot: .${word}`, at, { from: at, to: at, text: '.' })
      this.fail(`expected a comparison such as .field equal 'value'`)
    }
    try {
      const { path, end } = readFieldPath(this.text, at)
      this.moveTo(end)
      return { path, functions: [] }
    } catch (error) {
      if (!(error instanceof PathError)) throw error
      this.fail(error.message, error.column - 1)
    }
  }

  /** `begin`: the start of the comparison. */
  #operatorName(begin: number): string {
    const start = this.at
    const method = this.char === '(' ? methodAt(this.text, begin, start) : undefined
    if (method) this.fail(`a field has no methods; write ${method.text}`, start, method)
    if (regexAt(this.text, start))
      this.fail('a regular expression needs regex_match', start, { from: start, to: start, text: 'regex_match ' })
    const name = this.take(WORD) ?? this.take(SYMBOLS)
    if (name === undefined) this.fail('expected an operator such as equal or exists')
    const lower = name.toLowerCase()
    if (OPERATORS.has(name)) return name
    if (lower === 'in') return lower
    const field = this.text.slice(begin, start).trimEnd()
    if (lower === 'not') this.#failAtNot(begin, start)
    if (name === '!~') {
      const message = `NOT must be before the field: NOT ${field} regex_match`
      this.fail(message, start, { from: begin, to: this.at, text: `NOT ${field} regex_match ` })
    }
    if (lower === 'is') {
      const found = this.peek(NULL)
      if (found) this.#failAtNull(/not/i.test(found) ? 'not_equal' : 'equal', begin, this.at + found.length)
    }
    const between = lower === 'between' ? betweenAt(this.text, begin, this.at, field) : undefined
    if (between) this.fail(`there is no operator between; write ${between.text}`, start, between)
    const meant = meantOperator(name)
    const known = `the operators are ${[...OPERATORS.keys()].join(', ')}`
    this.fail(
      `unknown operator ${JSON.stringify(name)}; ${meant ? `did you mean ${meant}?` : known}`,
      start,
      meant ? { from: start, to: this.at, text: `${meant} ` } : undefined,
    )
  }

  /** Reports `not` after a field: `.a not equal 'x'`, `.a not in ('x')`, `.a not contains 'x'`, `.a not 'x'`. */
  #failAtNot(begin: number, start: number): never {
    const operator = this.peek(WORD)
    const negated = operator?.toLowerCase() === 'in' ? 'not_in' : 'not_equal'
    if (operator === undefined || operator === 'equal' || negated === 'not_in' || !OPERATORS.has(operator)) {
      const to = operator === 'equal' || negated === 'not_in' ? this.at + operator!.length : start + 3
      const message = `unknown operator "not"; did you mean ${negated}?`
      this.fail(message, start, { from: start, to, text: `${negated} ` })
    }
    const field = this.text.slice(begin, start)
    const message = `NOT must be before the field: NOT ${field}${operator}`
    this.fail(message, start, { from: begin, to: this.at, text: `NOT ${field}` })
  }

  #list(operator: string): string[] {
    const start = this.at
    if (!this.takeChar('(')) {
      const fix = listAt(this.text, start)
      const example = fix ? fix.text : `('a', 'b')`
      this.fail(`${operator} takes a list of values in parentheses: ${operator} ${example}`, start, fix)
    }
    if (this.char === ')') this.fail(`the list is empty; write the values: ${operator} ('a', 'b')`)
    const values: string[] = []
    do {
      if (values.length === MOST_VALUES) this.fail(`more than ${MOST_VALUES} values in a list`)
      if (this.char === '.' || this.peek(CALL))
        this.fail('a list has no fields, only values; compare with each field, and combine with OR')
      values.push(this.#value(operator, undefined, LISTED))
    } while (this.takeChar(','))
    if (!this.takeChar(')')) this.fail('expected "," or ")" in a list of values')
    return values
  }

  /** Whether a value follows, rather than AND, OR or a parenthesis. */
  #peekValue(bareValue: RegExp): boolean {
    if (this.char === "'" || this.char === '"') return true
    const bare = this.peek(bareValue)
    return bare !== undefined && (bare === 'true' || bare === 'false' || NUMBER.test(bare))
  }

  /** `begin`: the start of the comparison, unless the value is in a list. `bareValue`: one without quotes. */
  #value(operator: string, begin: number | undefined, bareValue: RegExp): string {
    const start = this.at
    const regex = operator === 'regex_match' ? regexAt(this.text, start) : undefined
    if (regex) this.#failAtValue(start, regex.end, regex.value)
    const quote = this.char
    if (quote === "'" || quote === '"') return this.takeQuoted(quote)
    const bare = this.peek(bareValue)
    if (bare === undefined || (begin !== undefined && /^(and|or)$/i.test(bare)))
      this.fail(begin === undefined ? 'expected a value' : `${operator} needs a value, as in ${operator} 'value'`)
    if (bare === 'null' && begin !== undefined) this.#failAtNull(operator, begin, start + bare.length)
    if (!this.#peekValue(bareValue))
      this.#failAtValue(start, start + bare.length, quoted(bare.replace(CURLY_QUOTES, '')))
    this.take(bareValue)
    return bare === 'true' || bare === 'false' ? bare : String(Number(bare))
  }

  /** Reports a value without quotes. */
  #failAtValue(from: number, to: number, text: string): never {
    this.fail(`put the value in single quotes: ${text}`, from, { from, to, text })
  }

  #failAtNull(operator: string, from: number, to: number): never {
    const field = /^\S+/.exec(this.text.slice(from))![0]
    const message = 'null cannot be compared; use is_null, or NOT with is_null'
    const isNot = operator === 'not_equal'
    if (!isNot && operator !== 'equal') this.fail(message)
    this.fail(message, this.at, {
      from,
      to,
      text: isNot ? `(${field} exists AND NOT ${field} is_null)` : `${field} is_null`,
    })
  }
}
