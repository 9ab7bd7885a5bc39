import { ConditionError, correctedCondition, parseCondition } from '../condition/parse.js'
import { type Io, UsageError } from './command-line.js'

/**
 * The condition that an option of the command line gives. One that is clear but for its form is taken, and how it was
 * understood is written to standard error. Throws UsageError.
 */
export function conditionOf(text: string, flag: string, command: string, { stderr }: Pick<Io, 'stderr'>): string {
  try {
    parseCondition(text)
    return text
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    const meant = correctedCondition(text)
    if (meant === undefined)
      throw new UsageError(`--${flag}: ${error.message} (column ${error.column} of the condition)`, command)
    stderr.write(`sluice ${command}: --${flag} is read as: ${meant}\n`)
    return meant
  }
}
