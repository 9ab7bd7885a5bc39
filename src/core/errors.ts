/** Errors that carry a decision. Every one has a stable code. */

/** One thing wrong in the configuration, with its place. */
export interface Problem {
  readonly file: string
  /** 1-based. */
  readonly line: number
  readonly column: number
  /** The path of the option, as in `processors.limit.window`; empty for the document. */
  readonly path: string
  readonly message: string
}

export function formatProblem(problem: Problem): string {
  const place = `${problem.file}:${problem.line}:${problem.column}`
  return problem.path ? `${place}: ${problem.path}: ${problem.message}` : `${place}: ${problem.message}`
}

/** The configuration cannot be used; exit code 78. */
export class ConfigError extends Error {
  readonly code = 'SLUICE_CONFIG'
  readonly problems: readonly Problem[]
  /** What would have been warned of besides. */
  readonly warnings: readonly Problem[]
  constructor(problems: readonly Problem[], warnings: readonly Problem[] = []) {
    super(problems.map(formatProblem).join('\n'))
    this.problems = problems
    this.warnings = warnings
  }
}

/**
 * What a failed attempt means for its events. `retry`: waits on time. `hold`: waits on an operator (401, 403).
 * `too_large`: again in halves. `reject`: never acceptable.
 */
export type Failure = 'retry' | 'hold' | 'too_large' | 'reject'

export class DeliveryError extends Error {
  readonly code = 'SLUICE_DELIVERY'
  readonly failure: Failure
  /** The reason as a metric label: `status_422`, `timeout`, `refused`. */
  readonly reason: string
  readonly status: number | undefined
  readonly retryAfterMs: number | undefined
  readonly requestId: string | undefined
  /**
   * When the answer distinguished events: those, by their index in the request, that will never be accepted. Those in
   * `again` were not taken, and `failure` says what they wait for (`reject`: nothing); all others are delivered.
   */
  readonly rejected: readonly number[] | undefined
  readonly again: readonly number[]
  constructor(
    message: string,
    options: {
      failure: Failure
      reason: string
      status?: number | undefined
      retryAfterMs?: number | undefined
      requestId?: string | undefined
      rejected?: readonly number[] | undefined
      again?: readonly number[] | undefined
      cause?: unknown
    },
  ) {
    super(message, { cause: options.cause })
    this.failure = options.failure
    this.reason = options.reason
    this.status = options.status
    this.retryAfterMs = options.retryAfterMs
    this.requestId = options.requestId
    this.rejected = options.rejected
    this.again = options.again ?? []
  }
}

/** A source ends its run since events were given back undelivered: it is started again, and reads them once more. */
export class GivenBackError extends Error {}

/** The `code` of a system error, or undefined. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Never throws, whatever was thrown. */
export function errorText(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    return 'unknown error'
  }
}

/** Message and stack, for a log line about what nobody expected. Never throws: a stack is only made when it is read. */
export function errorFields(error: unknown): { error: string; stack: string | undefined } {
  let stack: string | undefined
  try {
    stack = error instanceof Error ? error.stack : undefined
  } catch {}
  return { error: errorText(error), stack }
}
