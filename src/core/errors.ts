export interface Fault {
  /** Path of the option, such as `processors.limit.window`; empty for the document. */
  readonly path: string
  readonly message: string
}

export interface Problem extends Fault {
  readonly file: string
  /** 1-based. */
  readonly line: number
  readonly column: number
  /** The file or folder that is missing, or that this user cannot use. Missing if its path is from the environment. */
  readonly unusable?: string
}

export function formatProblem(problem: Problem): string {
  const place = `${problem.file}:${problem.line}:${problem.column}`
  return problem.path ? `${place}: ${problem.path}: ${problem.message}` : `${place}: ${problem.message}`
}

/** A problem in a file that an option names. `line` is 1-based. */
export interface FileProblem {
  readonly option: string
  readonly file: string
  readonly line: number
  /** The place in the file, if the format has named places. */
  readonly path: readonly (string | number)[]
  readonly message: string
  /** The file could not be read, but may exist where the configuration will be used. */
  readonly isMissing?: boolean
  /** The problem is only a warning, because the file can be used. However, its content is rarely intended. */
  readonly isWarning?: boolean
}

/** The configuration is invalid; exit code 78. */
export class ConfigError extends Error {
  readonly code = 'SLUICE_CONFIG'
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** How many problems there are at least; `problems` may have only the first ones. */
  readonly count: number

  constructor(problems: readonly Problem[], warnings: readonly Problem[] = [], count = problems.length) {
    super(problems.map(formatProblem).join('\n'))
    this.problems = problems
    this.count = count
    this.warnings = warnings
  }
}

/**
 * A component's option names something unusable. The engine makes the error a ConfigError with the option's position.
 */
export class OptionError extends Error {
  readonly option: string
  constructor(option: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.option = option
  }
}

/**
 * How the engine handles a failed attempt. `retry`: tries again later. `hold`: pauses until a person intervenes (401,
 * 403). `too_large`: splits the request. `reject`: rejects the events, because the receiver never accepts them.
 */
export type Failure = 'retry' | 'hold' | 'too_large' | 'reject'

/** What is at fault. `overload`: the receiver refuses requests, or does not answer in time. */
export type CausedBy = 'overload' | 'address' | 'event' | 'credentials'

/** A text without spaces that a component chose, such as a metric label or the code of an error. */
const LABEL = /^[\w.-]{1,64}$/

/** The label as words, for readers who may not see texts of events. Other texts may quote a receiver or an event. */
export const labelWords = (label = ''): string => (LABEL.test(label) ? label.replaceAll('_', ' ') : 'unknown error')

export class DeliveryError extends Error {
  readonly code = 'SLUICE_DELIVERY'
  readonly failure: Failure
  /** The reason as a metric label: `status_422`, `timeout`, `refused`. */
  readonly reason: string
  readonly status: number | undefined
  /** Undefined: unknown. A rejection without a response is caused by the event. */
  readonly causedBy: CausedBy | undefined
  readonly retryAfterMs: number | undefined
  readonly requestId: string | undefined
  /**
   * For each event in `rejected`, in the same order: its message, reason and status. Undefined: the message, reason and
   * status of this error apply to all events.
   */
  readonly messages: readonly string[] | undefined
  readonly reasons: readonly string[] | undefined
  readonly statuses: readonly number[] | undefined
  /**
   * Set if the response says which events failed. Both lists contain indices in the request. `rejected`: the receiver
   * will never accept these events. `again`: `failure` applies to these events. All other events were delivered.
   */
  readonly rejected: readonly number[] | undefined
  readonly again: readonly number[]
  /**
   * Set if the response does not say which events it rejects. Contains a group number, from 0, for each event. If there
   * are several groups, each group is sent again as a separate request.
   */
  readonly groups: readonly number[] | undefined
  /** Number of rejected events, if the response accepted the other events but did not say which events it rejected. */
  readonly refused: number | undefined
  /** Whether the error concerns only the partition of these events, such as a stream that is over its limit. */
  readonly ofPartition: boolean
  constructor(
    message: string,
    options: {
      failure: Failure
      reason: string
      status?: number | undefined
      causedBy?: CausedBy | undefined
      retryAfterMs?: number | undefined
      requestId?: string | undefined
      messages?: readonly string[] | undefined
      reasons?: readonly string[] | undefined
      statuses?: readonly number[] | undefined
      rejected?: readonly number[] | undefined
      again?: readonly number[] | undefined
      groups?: readonly number[] | undefined
      refused?: number | undefined
      ofPartition?: boolean | undefined
      cause?: unknown
    },
  ) {
    super(message, { cause: options.cause })
    this.failure = options.failure
    // A receiver's text must not become a metric label.
    this.reason = LABEL.test(options.reason) ? options.reason : 'other'
    this.status = options.status
    const isOfEvent = options.failure === 'reject' && options.status === undefined
    this.causedBy = options.causedBy ?? (isOfEvent ? 'event' : undefined)
    this.retryAfterMs = options.retryAfterMs
    this.requestId = options.requestId
    this.messages = options.messages
    this.reasons = options.reasons
    this.statuses = options.statuses
    this.rejected = options.rejected
    this.again = options.again ?? []
    this.groups = options.groups
    this.refused = options.refused
    this.ofPartition = options.ofPartition ?? false
  }

  /**
   * Returns one error for each reason in `reasons`. Each error has the indices and messages of the events with its
   * reason.
   */
  byReason(): DeliveryError[] {
    const { rejected = [], reasons, messages, statuses } = this
    if (!reasons) return rejected.length > 0 ? [this] : []
    return [...new Set(reasons)].map(reason => {
      const positions = rejected.flatMap((_, n) => (reasons[n] === reason ? [n] : []))
      const said = messages && positions.map(n => messages[n]!)
      return new DeliveryError(said?.[0] ?? this.message, {
        failure: this.failure,
        status: statuses?.[positions[0]!] ?? this.status,
        requestId: this.requestId,
        reason,
        messages: said,
        rejected: positions.map(n => rejected[n]!),
      })
    })
  }
}

/**
 * An error that an event may cause each time. The engine sends the events of the request separately, and rejects an
 * event that fails alone several times.
 */
export class RepeatedError extends DeliveryError {}

/** The program failed before anything was sent, for example while it encoded events. Other events may be delivered. */
export class InternalError extends RepeatedError {
  constructor(cause: unknown) {
    super(errorText(cause), { failure: 'retry', reason: 'internal_error', cause })
  }
}

/** Whether an error is of a class that faults of a program have. Errors of the system and the network never are. */
export function isProgramFault(error: unknown): boolean {
  const classes = [RangeError, TypeError, ReferenceError, SyntaxError]
  return classes.some(of => error instanceof of) || errorCode(error) === 'ERR_ASSERTION'
}

/** A source throws this error to end its run when events were not delivered. Its next run reads these events again. */
export class GivenBackError extends Error {}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Whether the path does not exist. */
export function isMissing(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** Whether this process or the machine cannot open more files. */
export function lacksDescriptor(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'EMFILE' || code === 'ENFILE'
}

/** Returns the message of any thrown value. Never throws. */
export function errorText(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    return 'unknown error'
  }
}

/** Returns the message and stack of an unexpected error, for the log. Never throws, even if the stack's getter does. */
export function errorFields(error: unknown): { error: string; stack: string | undefined } {
  let stack: string | undefined
  try {
    stack = error instanceof Error ? error.stack : undefined
  } catch {}
  return { error: errorText(error), stack }
}
