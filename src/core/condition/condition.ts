import { z } from 'zod'
import type { EventBatch } from '../event/batch.js'
import type { FieldPath } from '../event/field-path.js'
import type { FieldReader } from '../event/field-reader.js'
import { once } from '../options/options.js'
import {
  type Narrow,
  narrowByAll,
  narrowByAny,
  narrowByNot,
  narrowEach,
  narrowTexts,
  narrowValues,
} from './batch-test.js'
import { ConditionError } from './cursor.js'
import { type Operand, operandKey, operandReader } from './functions.js'
import type { ValueTest } from './operators.js'
import { type Condition, parseCondition } from './parse.js'

const GENERAL = "must be a condition of the form if (.field operator 'value')"

export type EventTest = (batch: EventBatch, i: number) => boolean

/** Sets `to[i]` for each event `i` of a batch: 1 if the event satisfies a condition, 0 if not. */
export type BatchTest = (batch: EventBatch, to: Uint8Array) => void

/** If a batch has fewer events than this, each event is tested separately. */
const FEW = 8

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
        const message = `${error.message} (column ${error.column} of the condition)`
        // For a condition from the environment, `general` is shown, because the message could reveal the condition.
        context.addIssue({ code: 'custom', message, params: { general: GENERAL } })
        return z.NEVER
      }
    })
})

export function pathsOf(condition: Condition | undefined): FieldPath[] {
  const found = new Map<string, FieldPath>()
  const collect = (part: Condition): void => {
    if ('term' in part) collect(part.term)
    else if ('terms' in part) part.terms.forEach(collect)
    else found.set(part.operand.path.text, part.operand.path)
    if (part.kind === 'fields') found.set(part.other.path.text, part.other.path)
  }
  if (condition) collect(condition)
  return [...found.values()]
}

/** Compiles a condition to a predicate. `field` creates one reader for each path. */
export function compileCondition(condition: Condition, field: (path: FieldPath) => FieldReader): EventTest {
  return eventTest(condition, readers(field))
}

/** Like `compileCondition`, but tests all events of a batch in one call. */
export function compileBatchTest(condition: Condition, field: (path: FieldPath) => FieldReader): BatchTest {
  const readerOf = readers(field)
  const holds = eventTest(condition, readerOf)
  const narrow = narrowing(condition, readerOf)
  return (batch, to) => {
    if (batch.length < FEW) for (let i = 0; i < batch.length; i++) to[i] = holds(batch, i) ? 1 : 0
    else narrow(batch, to.fill(1, 0, batch.length))
  }
}

type ReaderOf = (operand: Operand) => FieldReader

function readers(field: (path: FieldPath) => FieldReader): ReaderOf {
  const readers = new Map<string, FieldReader>()
  const kept = (key: string, make: () => FieldReader): FieldReader => {
    const reader = readers.get(key) ?? make()
    readers.set(key, reader)
    return reader
  }
  const fieldReader = (path: FieldPath) => kept(JSON.stringify(path.segments), () => field(path))
  return operand => kept(operandKey(operand), () => operandReader(operand, fieldReader))
}

function eventTest(condition: Condition, readerOf: ReaderOf): EventTest {
  // If all comparisons have the same operand, its value is loaded only once for each event.
  const operand = soleOperand(condition)
  if (operand) {
    const reader = readerOf(operand)
    const holds = valueTest(condition)
    return (batch, i) => {
      reader.load(batch, i)
      return holds(reader)
    }
  }
  switch (condition.kind) {
    case 'not': {
      const term = eventTest(condition.term, readerOf)
      return (batch, i) => !term(batch, i)
    }
    case 'and':
      return inPairs<EventTest>(
        condition.terms.map(term => eventTest(term, readerOf)),
        (a, b) => (batch, i) => a(batch, i) && b(batch, i),
      )
    case 'or':
      return inPairs<EventTest>(
        condition.terms.map(term => eventTest(term, readerOf)),
        (a, b) => (batch, i) => a(batch, i) || b(batch, i),
      )
    case 'fields': {
      const left = readerOf(condition.operand)
      const right = readerOf(condition.other)
      const { holds } = condition
      return (batch, i) => {
        left.load(batch, i)
        right.load(batch, i)
        return holds(left, right)
      }
    }
    case 'comparison':
      throw new Error('a comparison has one operand')
  }
}

function narrowing(condition: Condition, readerOf: ReaderOf): Narrow {
  if (condition.kind === 'comparison') {
    const { operator, values, holds } = condition
    const reader = readerOf(condition.operand)
    if (operator !== 'equal' && operator !== 'not_equal') return narrowValues(reader, holds)
    return narrowTexts(reader, values[0]!, operator === 'equal', holds)
  }
  const operand = soleOperand(condition)
  if (operand) return narrowValues(readerOf(operand), valueTest(condition))
  switch (condition.kind) {
    case 'not':
      return narrowByNot(narrowing(condition.term, readerOf))
    case 'and':
      return narrowByAll(condition.terms.map(term => narrowing(term, readerOf)))
    case 'or':
      return narrowByAny(condition.terms.map(term => narrowing(term, readerOf)))
    case 'fields':
      return narrowEach(eventTest(condition, readerOf))
  }
}

/** Joins tests in pairs, in order, because V8 inlines calls of two named tests, but not calls in a loop. */
function inPairs<T>(tests: readonly T[], join: (a: T, b: T) => T): T {
  if (tests.length === 1) return tests[0]!
  const half = tests.length >> 1
  return join(inPairs(tests.slice(0, half), join), inPairs(tests.slice(half), join))
}

function valueTest(condition: Condition): ValueTest {
  switch (condition.kind) {
    case 'comparison':
      return condition.holds
    case 'not': {
      const term = valueTest(condition.term)
      return reader => !term(reader)
    }
    case 'and':
      return inPairs<ValueTest>(condition.terms.map(valueTest), (a, b) => reader => a(reader) && b(reader))
    case 'or':
      return inPairs<ValueTest>(condition.terms.map(valueTest), (a, b) => reader => a(reader) || b(reader))
    case 'fields':
      throw new Error('to compare two fields, read each of them with a function')
  }
}

/** Returns the operand that all comparisons in `condition` share; undefined if their operands differ. */
function soleOperand(condition: Condition): Operand | undefined {
  if (condition.kind === 'comparison') return condition.operand
  if (condition.kind === 'fields') return undefined
  const [first, ...rest] = condition.kind === 'not' ? [condition.term] : condition.terms
  const operand = soleOperand(first!)
  return operand && rest.every(term => isSame(operand, soleOperand(term))) ? operand : undefined
}

function isSame(a: Operand, b: Operand | undefined): boolean {
  return b !== undefined && operandKey(a) === operandKey(b)
}
