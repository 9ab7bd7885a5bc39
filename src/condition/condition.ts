import { z } from 'zod'
import type { EventBatch } from '../core/event/batch.js'
import type { FieldPath } from '../core/event/field-path.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { once } from '../core/options/options.js'
import type { ValueTest } from './operators.js'
import { adviceFor, type Condition, ConditionError, parseCondition } from './parse.js'

const GENERAL = "must be a condition of the form if (.field operator 'value')"

/** Whether event `i` of a batch satisfies a condition. */
export type EventTest = (batch: EventBatch, i: number) => boolean

/** Option schema: parses text such as `if (.host equal 'web-1')` to a Condition. */
export const condition = once(() => {
  return z
    .string()
    .meta({ title: 'condition' })
    .transform((text, context): Condition => {
      try {
        return parseCondition(text)
      } catch (error) {
        if (!(error instanceof ConditionError)) throw error
        const meant = adviceFor(text)
        const advice = meant === undefined || error.message.includes(meant) ? '' : `; write: ${meant}`
        const message = `${error.message}${advice} (column ${error.column} of the condition)`
        // The message quotes the condition, which may come from the environment.
        context.addIssue({ code: 'custom', message, params: { general: GENERAL } })
        return z.NEVER
      }
    })
})

/** The fields used by a condition, without duplicates. */
export function pathsOf(condition: Condition | undefined): FieldPath[] {
  const found = new Map<string, FieldPath>()
  const collect = (part: Condition): void => {
    if (part.kind === 'comparison') found.set(part.path.text, part.path)
    else if (part.kind === 'not') collect(part.term)
    else part.terms.forEach(collect)
  }
  if (condition) collect(condition)
  return [...found.values()]
}

/** Compiles a condition to a predicate. `field` creates the readers, one per path. */
export function compileCondition(condition: Condition, field: (path: FieldPath) => FieldReader): EventTest {
  const readers = new Map<string, FieldReader>()
  return eventTest(condition, path => {
    const name = JSON.stringify(path.segments)
    const reader = readers.get(name) ?? field(path)
    readers.set(name, reader)
    return reader
  })
}

function eventTest(condition: Condition, field: (path: FieldPath) => FieldReader): EventTest {
  // A condition on a single field loads its reader once.
  const path = solePath(condition)
  if (path) {
    const reader = field(path)
    const holds = valueTest(condition)
    return (batch, i) => {
      reader.load(batch, i)
      return holds(reader)
    }
  }
  switch (condition.kind) {
    case 'not': {
      const term = eventTest(condition.term, field)
      return (batch, i) => !term(batch, i)
    }
    case 'and': {
      const terms = condition.terms.map(term => eventTest(term, field))
      return (batch, i) => {
        for (let k = 0; k < terms.length; k++) if (!terms[k]!(batch, i)) return false
        return true
      }
    }
    case 'or': {
      const terms = condition.terms.map(term => eventTest(term, field))
      return (batch, i) => {
        for (let k = 0; k < terms.length; k++) if (terms[k]!(batch, i)) return true
        return false
      }
    }
    case 'comparison':
      throw new Error('a comparison has one path')
  }
}

function valueTest(condition: Condition): ValueTest {
  switch (condition.kind) {
    case 'comparison':
      return condition.holds
    case 'not': {
      const term = valueTest(condition.term)
      return reader => !term(reader)
    }
    case 'and': {
      const terms = condition.terms.map(valueTest)
      return reader => {
        for (let k = 0; k < terms.length; k++) if (!terms[k]!(reader)) return false
        return true
      }
    }
    case 'or': {
      const terms = condition.terms.map(valueTest)
      return reader => {
        for (let k = 0; k < terms.length; k++) if (terms[k]!(reader)) return true
        return false
      }
    }
  }
}

/** The path shared by all comparisons of `condition`, if there is only one. */
function solePath(condition: Condition): FieldPath | undefined {
  if (condition.kind === 'comparison') return condition.path
  const [first, ...rest] = condition.kind === 'not' ? [condition.term] : condition.terms
  const path = solePath(first!)
  return path && rest.every(term => samePath(path, solePath(term))) ? path : undefined
}

function samePath(a: FieldPath, b: FieldPath | undefined): boolean {
  return b !== undefined && JSON.stringify(a.segments) === JSON.stringify(b.segments)
}
