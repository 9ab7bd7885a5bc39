import { NearestName } from '../../lib/nearest.js'
import { fieldPathText, PathError, readFieldPath } from '../event/field-path.js'
import { FUNCTIONS } from './functions.js'
import { OPERATORS } from './operators.js'

/** Recognizes conditions written in other languages, and suggests the equivalent. */

/** A replacement for part of a text. */
export interface Fix {
  readonly from: number
  readonly to: number
  readonly text: string
}

const OPERATOR_NAMES: Readonly<Record<string, string>> = {
  '=': 'equal',
  '==': 'equal',
  '===': 'equal',
  eq: 'equal',
  equals: 'equal',
  is: 'equal',
  '!=': 'not_equal',
  '!==': 'not_equal',
  '<>': 'not_equal',
  ne: 'not_equal',
  neq: 'not_equal',
  not: 'not_equal',
  '>': 'greater',
  gt: 'greater',
  '>=': 'greater_or_equal',
  gte: 'greater_or_equal',
  greater_than_or_equal: 'greater_or_equal',
  '<': 'less',
  lt: 'less',
  '<=': 'less_or_equal',
  lte: 'less_or_equal',
  less_than_or_equal: 'less_or_equal',
  '~': 'regex_match',
  '=~': 'regex_match',
  '~=': 'regex_match',
  match: 'regex_match',
  matches: 'regex_match',
  regex: 'regex_match',
  regexp: 'regex_match',
  test: 'regex_match',
  like: 'contains',
  includes: 'contains',
  has: 'exists',
  defined: 'exists',
  present: 'exists',
  isset: 'exists',
  startswith: 'starts_with',
  prefix: 'starts_with',
  endswith: 'ends_with',
  suffix: 'ends_with',
  isnull: 'is_null',
  isempty: 'is_empty',
  ip_cidr_contains: 'is_ip_in_cidr_range',
  cidr_match: 'is_ip_in_cidr_range',
  one_of: 'in',
  any_of: 'in',
  is_in: 'in',
  none_of: 'not_in',
}

const FUNCTION_NAMES: Readonly<Record<string, string>> = {
  len: 'length',
  size: 'length',
  count: 'length',
  strlen: 'length',
  char_length: 'length',
  downcase: 'lower',
  lcase: 'lower',
  lowercase: 'lower',
  tolower: 'lower',
  to_lower: 'lower',
  to_lower_case: 'lower',
  upcase: 'upper',
  ucase: 'upper',
  uppercase: 'upper',
  toupper: 'upper',
  to_upper: 'upper',
  to_upper_case: 'upper',
}

export const SYMBOLS = /[=!<>~&|]+/y

const WORDS: Readonly<Record<string, string>> = { '&&': 'AND', '&': 'AND', '||': 'OR', '|': 'OR', '!': 'NOT' }

/** The word (AND, OR, NOT) for a sign such as `&&`. */
export function meantWord(signs: string | undefined): string | undefined {
  return signs !== undefined && Object.hasOwn(WORDS, signs) ? WORDS[signs] : undefined
}

/** The operator probably meant by an unknown name. */
export function meantOperator(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (OPERATORS.has(lower)) return lower
  if (Object.hasOwn(OPERATOR_NAMES, lower)) return OPERATOR_NAMES[lower]
  const longer = [...OPERATORS.keys()].find(
    known => name.length > 3 && (known.startsWith(name) || name.startsWith(known)),
  )
  return new NearestName().find(name, OPERATORS.keys()) ?? longer
}

/** The function probably meant by a name such as `LOWER`, `len` or `toLowerCase`. */
function meantFunction(name: string): string | undefined {
  for (const meant of [name.toLowerCase(), inSnakeCase(name)]) {
    if (FUNCTIONS.has(meant)) return meant
    if (Object.hasOwn(FUNCTION_NAMES, meant)) return FUNCTION_NAMES[meant]
  }
  return undefined
}

function inSnakeCase(name: string): string {
  return name.replace(/(?<=\p{Ll})(?=\p{Lu})/gu, '_').toLowerCase()
}

/** The value as it is written in a condition. */
export function quoted(text: string): string {
  return `'${text.replace(/\\(?=['"\\]|$)/g, '\\\\').replace(/'/g, "\\'")}'`
}

const REGEX = /\/((?:[^/\\\n]|\\.)+)\/([a-z]*)(?=[\s)]|$)/y

/** Parses `/x/i` at `at` to a value for regex_match; undefined if there is none. */
export function regexAt(text: string, at: number): { readonly end: number; readonly value: string } | undefined {
  REGEX.lastIndex = at
  const found = REGEX.exec(text)
  if (!found) return undefined
  return { end: REGEX.lastIndex, value: patternText(found[1]!.replace(/\\\//g, '/'), found[2]!) }
}

function patternText(pattern: string, flags: string): string {
  const kept = flags.replace(/[^ims]/g, '')
  return quoted(kept ? `(?${kept})${pattern}` : pattern)
}

const OPEN = /\(\s*/y
const CLOSE = /\s*\)/y
const COMMA = /\s*,\s*/y
const CALL = /([\p{L}_][\p{L}\p{N}_]*)!?\(\s*/uy
const NAME = /[\p{L}\p{N}_$@-]+(?:\.[\p{L}\p{N}_$@-]+)*/uy
const RAW = /r'((?:[^'\\]|\\.)*)'/y
const TEXT = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/y
const BARE = /[^\s()'",]+/y
const BARE_ITEM = /[^\s()'",.[\]]+/y
const BRACKETS = /(?:\[[\p{L}\p{N}_$@-]+\])+/uy

/** Parses foreign syntax. */
class Reader {
  readonly text: string
  at: number

  constructor(text: string, at: number) {
    this.text = text
    this.at = at
  }

  take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text) ?? undefined
    if (found) this.at += found[0].length
    return found
  }

  path(): string | undefined {
    if (this.text[this.at] !== '.') {
      const name = this.take(NAME)?.[0]
      return name && `.${name}`
    }
    try {
      const { path, end } = readFieldPath(this.text, this.at)
      this.at = end
      return path.text
    } catch (error) {
      if (!(error instanceof PathError)) throw error
      return undefined
    }
  }

  value(): string | undefined {
    const raw = this.take(RAW)
    if (raw) return quoted(raw[1]!)
    const regex = regexAt(this.text, this.at)
    if (regex) {
      this.at = regex.end
      return regex.value
    }
    return this.take(TEXT)?.[0] ?? this.take(BARE)?.[0]
  }

  /** Parses a call after its path, up to the closing parenthesis. */
  rest(path: string, operator: string): string | undefined {
    if (OPERATORS.get(operator)!.takes === 'nothing') return this.take(CLOSE) && `${path} ${operator}`
    const value = this.take(COMMA) && this.value()
    return value !== undefined && this.take(CLOSE) ? `${path} ${operator} ${value}` : undefined
  }
}

/** Parses `exists(.a)`, `contains(.a, 'x')` or `[a][b]` at `at`; undefined if there is none. */
export function termAt(text: string, at: number): Fix | undefined {
  const reader = new Reader(text, at)
  const brackets = reader.take(BRACKETS)?.[0]
  if (brackets) {
    const names = brackets.slice(1, -1).split('][')
    return { from: at, to: reader.at, text: names.map(fieldPathText).join('') }
  }
  const call = reader.take(CALL)
  const operator = call && meantOperator(inSnakeCase(call[1]!))
  const path = operator && reader.path()
  const meant = path && reader.rest(path, operator)
  return meant ? { from: at, to: reader.at, text: meant } : undefined
}

/** Parses `.a.contains('x')`; the path is from `begin` to `at`. */
export function methodAt(text: string, begin: number, at: number): Fix | undefined {
  const path = text.slice(begin, at).trimEnd()
  const dot = path.lastIndexOf('.')
  const name = path.slice(dot + 1)
  const reader = new Reader(text, begin + path.length)
  if (dot <= 0 || !/^\w+$/.test(name) || !reader.take(OPEN)) return undefined
  const applied = meantFunction(name)
  if (applied !== undefined && reader.take(CLOSE)) {
    return { from: begin, to: reader.at, text: `${applied}(${path.slice(0, dot)})` }
  }
  const operator = meantOperator(inSnakeCase(name))
  if (operator === undefined) return undefined
  const takesValue = OPERATORS.get(operator)!.takes !== 'nothing'
  const value = takesValue ? reader.value() : ''
  if (value === undefined || !reader.take(CLOSE)) return undefined
  return { from: begin, to: reader.at, text: `${path.slice(0, dot)} ${operator}${value && ` ${value}`}` }
}

/** Finds `LOWER(` or `len(`: a function by another name. */
export function callAt(text: string, at: number): { readonly name: string; readonly fix: Fix } | undefined {
  const name = new Reader(text, at).take(CALL)?.[1]
  const meant = name && meantFunction(name)
  return meant ? { name, fix: { from: at, to: at + name.length, text: meant } } : undefined
}

const BRACKETED = /\[([^[\]()]*)\]/y

/** Parses `['a', 'b']` or `'a'` at `at`, to a list in parentheses. */
export function listAt(text: string, at: number): Fix | undefined {
  const reader = new Reader(text, at)
  const items = reader.take(BRACKETED)?.[1]?.trim() ?? reader.take(TEXT)?.[0] ?? reader.take(BARE_ITEM)?.[0]
  return items ? { from: at, to: reader.at, text: `(${items})` } : undefined
}

const BETWEEN = /\s*((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s()'",]+))\s+and\s+/iy

/** Parses `between 1 and 5` after `field`; `at` is the position after `between`. */
export function betweenAt(text: string, begin: number, at: number, field: string): Fix | undefined {
  const reader = new Reader(text, at)
  const least = reader.take(BETWEEN)?.[1]
  const most = least && reader.value()
  if (!most) return undefined
  const comparisons = `(${field} greater_or_equal ${least} AND ${field} less_or_equal ${most})`
  return { from: begin, to: reader.at, text: comparisons }
}
