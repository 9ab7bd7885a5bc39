import type { Logger } from 'pino'
import { errorCode, errorFields } from '../../../core/errors.js'
import { Gone, Refusal } from '../../../net/http/server/refusal.js'
import { ApiError } from '../domain/errors.js'
import { StoreError } from '../store/store.js'

/** Converts errors to error responses. */

/** Errors of the framework by code. */
const BY_FRAMEWORK: Readonly<Record<string, readonly [status: number, code: string, message: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'unsupported_content', 'send the body as content-type: application/json'],
  FST_ERR_BAD_URL: [404, 'not_found', 'there is no such path'],
  FST_ERR_MAX_PARAM_LENGTH: [404, 'not_found', 'there is no such path'],
}

/** The response for an error. Unexpected errors are logged and answered with 500. */
export function refusalFor(error: unknown, log: Logger, requestId: string): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof Gone) return new ApiError(400, 'incomplete', 'the body did not come whole')
  if (error instanceof Refusal) {
    const { status, code, message, headers } = error
    return new ApiError(status, code, message, { headers })
  }
  if (error instanceof StoreError) {
    log.error({ request_id: requestId, code: error.code, error: error.message }, 'store failed')
    const message =
      'the service cannot use its store at the moment; a change may have been saved or not, so look before you try again'
    return new ApiError(503, 'store_unusable', message, { headers: { 'retry-after': '5' } })
  }
  const code = errorCode(error)
  const [status, own, message] = BY_FRAMEWORK[code ?? ''] ?? []
  if (status !== undefined) return new ApiError(status, own!, message!)
  const given = (error as { statusCode?: unknown } | undefined)?.statusCode
  if (typeof given === 'number' && given >= 400 && given < 500)
    return new ApiError(given, 'invalid_request', 'this request cannot be understood')
  log.error({ request_id: requestId, code, ...errorFields(error) }, 'request failed')
  return new ApiError(500, 'failed', `internal error; see the log of the service for request ${requestId}`)
}
