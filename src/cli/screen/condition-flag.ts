import { ConditionError } from '../../core/condition/cursor.js'
import { correctedCondition, parseCondition } from '../../core/condition/parse.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'

/**
 * Reads a condition that was given as an option. If its meaning is clear although its form is wrong, it is accepted,
 * and its interpretation is written to standard error. Throws UsageError.
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
