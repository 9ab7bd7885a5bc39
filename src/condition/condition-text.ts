import type { Condition } from './parse.js'

/** The text of a condition, without `if` and the parentheses around it. */
export function conditionText(condition: Condition): string {
  const inner = (term: Condition) =>
    term.kind === 'and' || term.kind === 'or' ? `(${conditionText(term)})` : conditionText(term)
  switch (condition.kind) {
    case 'not':
      return `NOT ${inner(condition.term)}`
    case 'and':
    case 'or':
      return condition.terms.map(inner).join(condition.kind === 'and' ? ' AND ' : ' OR ')
    case 'comparison': {
      const { path, operator, value } = condition
      const quoted = value === undefined ? '' : ` '${value.replace(/[\\']/g, '\\$&')}'`
      return `${path.text} ${operator}${quoted}`
    }
  }
}
