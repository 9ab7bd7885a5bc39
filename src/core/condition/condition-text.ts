import { operandText } from './functions.js'
import { quoted } from './names.js'
import { OPERATORS } from './operators.js'
import type { Condition } from './parse.js'

/** Returns the text of a condition, without `if` and outer parentheses. */
export function conditionText(condition: Condition): string {
  const inner = (term: Condition) =>
    term.kind === 'and' || term.kind === 'or' ? `(${conditionText(term)})` : conditionText(term)
  switch (condition.kind) {
    case 'not':
      return `NOT ${inner(condition.term)}`
    case 'and':
    case 'or':
      return condition.terms.map(inner).join(condition.kind === 'and' ? ' AND ' : ' OR ')
    case 'fields':
      return `${operandText(condition.operand)} ${condition.operator} ${operandText(condition.other)}`
    case 'comparison': {
      const { operator, values } = condition
      const list = values.map(quoted).join(', ')
      const value = OPERATORS.get(operator)!.takes === 'list' ? `(${list})` : list
      return `${operandText(condition.operand)} ${operator} ${value}`.trimEnd()
    }
  }
}
