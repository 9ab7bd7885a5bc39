import type { EventBatch } from '../core/event/batch.js'
import type { FieldPath } from '../core/event/field-path.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { type Finding, shownValue } from '../core/explain.js'
import type { Condition } from './parse.js'

const WORDS = { and: 'all of', or: 'any of', not: 'not' } as const

/** Evaluates each part of a condition for event `i` of a batch, without short-circuiting. */
export function explainCondition(
  condition: Condition,
  field: (path: FieldPath) => FieldReader,
): (batch: EventBatch, i: number) => Finding & { readonly holds: boolean } {
  if (condition.kind === 'comparison') {
    const { path, operator, value, holds } = condition
    const reader = field(path)
    const text = `${path.text} ${operator}${value === undefined ? '' : ` '${value}'`}`
    return (batch, i) => {
      reader.load(batch, i)
      return { text, holds: holds(reader), value: `${path.text} is ${shownValue(reader)}` }
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
