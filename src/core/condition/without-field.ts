import type { OptionProblem } from '../component.js'
import type { Comparison, Condition, FieldComparison } from './parse.js'

/**
 * Finds a field whose absence makes a condition false unintentionally. Example: `.path not_equal '/healthz'` is false
 * for events without `.path`. Undefined if something else also makes the condition false for an event without fields.
 */
export function lostWithout(condition: Condition): string | undefined {
  if (holds(condition, false) || !holds(condition, true)) return undefined
  return negative(condition)?.operand.path.text
}

/** Warns of such a field. `where`: what happens to events without it. */
export function lostWarnings(path: readonly string[], condition: Condition, where: string): OptionProblem[] {
  const field = lostWithout(condition)
  const message = `an event without ${field} ${where}, because not_equal and not_in hold only for events that have the field; write NOT ${field} equal 'value' to include events without it, or ${field} exists AND … to leave them out`
  return field === undefined ? [] : [{ path, message }]
}

/** Whether the condition holds for an event without fields. `meant`: treats each `not_equal` and `not_in` as true. */
function holds(condition: Condition, meant: boolean): boolean {
  switch (condition.kind) {
    case 'and':
      return condition.terms.every(term => holds(term, meant))
    case 'or':
      return condition.terms.some(term => holds(term, meant))
    case 'not':
      return !holds(condition.term, meant)
    default:
      return meant && isNegative(condition)
  }
}

type Compared = Comparison | FieldComparison

const isNegative = ({ operator }: Compared) => operator.startsWith('not_')

function negative(condition: Condition): Compared | undefined {
  if ('term' in condition) return negative(condition.term)
  if (!('terms' in condition)) return isNegative(condition) ? condition : undefined
  for (const term of condition.terms) {
    const found = negative(term)
    if (found) return found
  }
  return undefined
}
