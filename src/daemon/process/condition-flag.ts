import { ConditionError } from '../../core/condition/cursor.js'
import { type Condition, parseCondition } from '../../core/condition/parse.js'
import { UsageError } from './command-line.js'

/** Parses a condition that a command line option gives. Throws UsageError. */
export function conditionOf(text: string, flag: string, command: string): Condition {
  try {
    return parseCondition(text)
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    throw new UsageError(`--${flag}: ${error.message} (column ${error.column} of the condition)`, command)
  }
}
