import { integerOf } from '../../lib/formats/json-token.js'
import { PathError, readFieldPath } from '../event/field-path.js'
import { Cursor, WORD_AT } from './cursor.js'
import { FUNCTIONS, type Operand } from './functions.js'
import { meantOperator, quoted, SIGNS } from './names.js'
import { OPERATORS, ValueError, type ValueTest } from './operators.js'
import { PAIR_TESTS, type PairTest } from './pairs.js'

/**
 * The grammar of conditions:
 *
 *   condition  = "if" "(" or ")" | or
 *   or         = and { ( "OR" | "||" ) and }
 *   and        = not { ( "AND" | "&&" ) not }
 *   not        = { "NOT" | "!" } ( "(" or ")" | comparison )
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

/** A comparison with a value, with a list of values, or without values. */
export interface Comparison {
  readonly kind: 'comparison'
  readonly operand: Operand
  readonly operator: string
  readonly values: readonly string[]
  readonly holds: ValueTest
}

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

const BARE = /[^\s()'"]+/y
const LISTED = /[^\s()'",]+/y
const CALL = /[\p{L}_][\p{L}\p{N}_]*\s*\(/uy
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const FRACTION = /\.\d+(?=[\s),]|$)/y
const SYMBOLS = /[=!<>~&|]+/y
const AND = /&&/y
const OR = /\|\|/y
const NOT_MATCHING = /!~/y

export function parseCondition(text: string): Condition {
  return new Parser(text).whole()
}

class Parser extends Cursor {
  #depth = 0
  #comparisons = 0

  whole(): Condition {
    if (this.text.length > LONGEST_TEXT) this.fail(`the condition is longer than ${LONGEST_TEXT} characters`, 0)
    const start = this.at
    const hasIf = this.takeWord('if')
    if (hasIf && !this.takeChar('(')) this.fail('expected "(" after if')
    const condition = this.#or()
    if (hasIf) this.#close(start)
    if (this.isAtEnd) return condition
    this.fail(
      hasIf
        ? 'text follows the closing parenthesis of if (…); put the whole condition inside the parentheses'
        : 'expected AND or OR',
    )
  }

  #or(): Condition {
    const terms = [this.#and()]
    while (this.takeWord('or') || this.take(OR)) terms.push(this.#and())
    return terms.length === 1 ? terms[0]! : { kind: 'or', terms }
  }

  #and(): Condition {
    const terms = [this.#not()]
    while (this.takeWord('and') || this.take(AND)) terms.push(this.#not())
    return terms.length === 1 ? terms[0]! : { kind: 'and', terms }
  }

  #not(): Condition {
    const start = this.at
    if (this.takeWord('not') || this.takeChar('!'))
      return this.#deeper(start, () => ({ kind: 'not', term: this.#not() }))
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

  #close(opened: number): void {
    if (this.takeChar(')')) return
    if (this.isAtEnd) {
      const column = this.text.indexOf('(', opened) + 1
      this.fail(`the parenthesis at column ${column} is not closed: expected ")", AND or OR`)
    }
    this.fail('expected AND, OR or ")"')
  }

  #comparison(): Condition {
    if (++this.#comparisons > MOST_COMPARISONS) this.fail(`more than ${MOST_COMPARISONS} comparisons`)
    const operand = this.#operand()
    const isNegated = this.take(NOT_MATCHING) !== undefined
    const term = this.#comparisonOf(operand, isNegated ? 'regex_match' : this.#operatorName())
    return isNegated ? { kind: 'not', term } : term
  }

  #comparisonOf(operand: Operand, operator: string): Condition {
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
      takes === 'list' ? this.#list(operator) : takes === 'value' ? [this.#value(operator, true, BARE)] : []
    try {
      return { kind: 'comparison', operand, operator, values, holds: compile(values) }
    } catch (error) {
      if (!(error instanceof ValueError)) throw error
      this.fail(error.message, start)
    }
  }

  #operand(): Operand {
    const start = this.at
    const name = this.peek(WORD_AT)
    if (name === undefined || !FUNCTIONS.has(name)) return this.#field()
    this.take(WORD_AT)
    if (!this.takeChar('(')) this.fail(`${name} takes a field in parentheses, as in ${name}(.field)`)
    const { path, functions } = this.#deeper(start, () => this.#operand())
    if (!this.takeChar(')')) this.fail(`expected ")" after the field of ${name}`)
    return { path, functions: [name, ...functions] }
  }

  #field(): Operand {
    const at = this.at
    if (this.char !== '.') {
      const word = this.peek(WORD_AT)
      if (word && this.peek(CALL))
        this.fail(`unknown function ${word}; the functions are ${[...FUNCTIONS.keys()].join(', ')}`)
      if (word && !OPERATORS.has(word) && !/^(and|or)$/i.test(word)) this.fail(`a field starts with a dot: .${word}`)
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

  #operatorName(): string {
    const start = this.at
    const name = this.take(WORD_AT) ?? this.take(SYMBOLS)
    if (name === undefined) this.fail('expected an operator such as equal or exists')
    if (OPERATORS.has(name)) return name
    const lower = name.toLowerCase()
    if (lower === 'in') return lower
    const operator = SIGNS.get(name)
    if (operator !== undefined) return operator
    if (lower === 'not') this.fail('NOT must be before the field, or part of the operator: not_equal, not_in', start)
    const meant = meantOperator(name)
    const known = `the operators are ${[...OPERATORS.keys()].join(', ')}`
    this.fail(`unknown operator ${JSON.stringify(name)}; ${meant ? `did you mean ${meant}?` : known}`, start)
  }

  #list(operator: string): string[] {
    if (!this.takeChar('(')) this.fail(`${operator} takes a list of values in parentheses: ${operator} ('a', 'b')`)
    if (this.char === ')') this.fail(`the list is empty; write the values: ${operator} ('a', 'b')`)
    const values: string[] = []
    do {
      if (values.length === MOST_VALUES) this.fail(`more than ${MOST_VALUES} values in a list`)
      if (this.char === '.' || this.peek(CALL))
        this.fail(
          'a list can only have values, not fields; compare with each field, and combine the comparisons with OR',
        )
      values.push(this.#value(operator, false, LISTED))
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

  /** `isAlone`: the value is not in a list. `bareValue` matches a value without quotes. */
  #value(operator: string, isAlone: boolean, bareValue: RegExp): string {
    const quote = this.char
    if (quote === "'" || quote === '"') return this.takeQuoted(quote)
    const bare = this.peek(bareValue)
    if (bare === undefined || (isAlone && /^(and|or)$/i.test(bare)))
      this.fail(isAlone ? `${operator} needs a value, as in ${operator} 'value'` : 'expected a value')
    if (bare === 'null') this.fail('null cannot be compared; use is_null, or NOT with is_null')
    if (!this.#peekValue(bareValue)) this.fail(`put the value in single quotes: ${quoted(bare.replace(/[‘’“”]/g, ''))}`)
    this.take(bareValue)
    return bare === 'true' || bare === 'false' ? bare : String(integerOf(bare) ?? Number(bare))
  }
}
