import { NearestName } from '../../lib/nearest.js'
import { OPERATORS } from './operators.js'

export const SIGNS: ReadonlyMap<string, string> = new Map([
  ['=', 'equal'],
  ['==', 'equal'],
  ['===', 'equal'],
  ['!=', 'not_equal'],
  ['!==', 'not_equal'],
  ['<>', 'not_equal'],
  ['>', 'greater'],
  ['>=', 'greater_or_equal'],
  ['<', 'less'],
  ['<=', 'less_or_equal'],
  ['=~', 'regex_match'],
])

/** Operators, by the names that they have in other languages. */
const OPERATOR_NAMES: Readonly<Record<string, string>> = {
  eq: 'equal',
  equals: 'equal',
  is: 'equal',
  ne: 'not_equal',
  neq: 'not_equal',
  gt: 'greater',
  gte: 'greater_or_equal',
  greater_than_or_equal: 'greater_or_equal',
  lt: 'less',
  lte: 'less_or_equal',
  less_than_or_equal: 'less_or_equal',
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

export function meantOperator(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (OPERATORS.has(lower)) return lower
  if (Object.hasOwn(OPERATOR_NAMES, lower)) return OPERATOR_NAMES[lower]
  const longer = [...OPERATORS.keys()].find(
    known => name.length > 3 && (known.startsWith(name) || name.startsWith(known)),
  )
  return new NearestName().find(name, OPERATORS.keys()) ?? longer
}

/** Quotes a text as a value in a condition. */
export function quoted(text: string): string {
  return `'${text.replace(/\\(?=['"\\]|$)/g, '\\\\').replace(/'/g, "\\'")}'`
}
