import type { EventBatch } from '../event/batch.js'
import type { FieldPath } from '../event/field-path.js'
import type { FieldReader } from '../event/field-reader.js'
import { type Finding, shownValue } from '../explain.js'
import { conditionText } from './condition-text.js'
import { operandReader, operandText } from './functions.js'
import type { Condition } from './parse.js'

const WORDS = { and: 'all of', or: 'any of', not: 'not' } as const

/** Evaluates each part of a condition for event `i` of a batch, without short-circuiting. */
export function explainCondition(
  condition: Condition,
  field: (path: FieldPath) => FieldReader,
): (batch: EventBatch, i: number) => Finding & { readonly holds: boolean } {
  if (condition.kind === 'comparison') {
    const reader = operandReader(condition.operand, field)
    const name = operandText(condition.operand)
    const text = conditionText(condition)
    return (batch, i) => {
      reader.load(batch, i)
      return { text, holds: condition.holds(reader), value: `${name} is ${shownValue(reader)}` }
    }
  }
  if (condition.kind === 'fields') {
    const names = [condition.operand, condition.other].map(operandText)
    const left = operandReader(condition.operand, field)
    const right = operandReader(condition.other, field)
    const text = conditionText(condition)
    return (batch, i) => {
      left.load(batch, i)
      right.load(batch, i)
      const value = `${names[0]} is ${shownValue(left)}, ${names[1]} is ${shownValue(right)}`
      return { text, holds: condition.holds(left, right), value }
    }
  }
  const { kind } = condition
  const terms = (kind === 'not' ? [condition.term] : condition.terms).map(term => explainCondition(term, field))
  return (batch, i) => {
    const parts = terms.map(term => term(batch, i))
    const all = parts.every(({ holds }) => holds)
    const holds = kind === 'and' ? all : kind === 'or' ? parts.some(({ holds }) => holds) : !all
    return { text: WORDS[kind], holds, parts }
  }
}
