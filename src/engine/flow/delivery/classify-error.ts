import { DeliveryError, errorText } from '../../../core/errors.js'

/** Treats any error that is not a DeliveryError as temporary, so the request is retried. */
export function classifyWrite(error: unknown): DeliveryError {
  if (error instanceof DeliveryError) return error
  return new DeliveryError(errorText(error), { failure: 'retry', reason: 'unknown', cause: error })
}

/** At the start, a rejection can only be caused by the destination's configuration, which needs an operator. */
export function classifyStart(error: unknown): DeliveryError {
  if (!(error instanceof DeliveryError)) throw error
  if (error.failure === 'retry' || error.failure === 'hold') return error
  const { reason, status, requestId } = error
  return new DeliveryError(error.message, { failure: 'hold', reason, status, requestId, cause: error })
}

/** Writing dead letters is retried until it succeeds. */
export function classifyDeadLetter(cause: unknown): DeliveryError {
  const message = `cannot write the dead letter: ${errorText(cause)}`
  const reason = cause instanceof DeliveryError ? cause.reason : 'dead_letter'
  return new DeliveryError(message, { failure: 'retry', reason, cause })
}
