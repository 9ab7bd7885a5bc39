import { ConfigError, formatProblem, type Problem } from '../../src/core/errors.js'

interface How {
  readonly format?: (problem: Problem) => string
  /** What a good configuration is warned of counts, too. */
  readonly warns?: boolean
}

/** What is wrong with a configuration. */
export function problemsOf(read: () => object, { format = formatProblem, warns = false }: How = {}): string[] {
  try {
    const { warnings = [] } = read() as { readonly warnings?: readonly Problem[] }
    return warns ? warnings.map(format) : []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(format)
  }
}
