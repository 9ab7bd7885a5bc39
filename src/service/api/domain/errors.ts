import type { Fault } from '../../../core/errors.js'
import type { Principal } from './keys/principal.js'

/** Maximum number of `errors` in a response, and maximum length of each text in it. */
export const MOST_ERRORS = 50
const LONGEST_TEXT = 500

const cut = (text: string): string => text.slice(0, LONGEST_TEXT)

/** An error response of the service: `{"code","message","errors"}`. Messages do not contain keys. */
export class ApiError extends Error {
  readonly status: number
  /** A stable code in snake case; programs may depend on it. */
  readonly code: string
  readonly errors: readonly Fault[]
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The caller, if known. The response then has the x-auth headers. */
  readonly principal: Principal | undefined

  constructor(
    status: number,
    code: string,
    message: string,
    more: {
      errors?: readonly Fault[]
      /** How many errors there are at least, if `errors` has only the first ones. */
      count?: number
      headers?: Readonly<Record<string, string>>
      principal?: Principal
      cause?: unknown
    } = {},
  ) {
    const { errors = [], count = errors.length } = more
    const further =
      count > MOST_ERRORS ? `. There are at least ${count} errors; the first ${MOST_ERRORS} are listed` : ''
    super(cut(message) + further, { cause: more.cause })
    this.status = status
    this.code = code
    this.errors = errors.slice(0, MOST_ERRORS).map(({ path, message }) => ({ path: cut(path), message: cut(message) }))
    this.headers = more.headers ?? {}
    this.principal = more.principal
  }
}

/** For entities that do not exist or belong to another account. Callers cannot find out which of the two is true. */
export function notFound(what: string): ApiError {
  return new ApiError(404, 'not_found', `the ${what} does not exist`)
}

/** Authentication failed. `problem` is part of the code: `token_expired`. */
export function unauthorized(problem: string, message: string): ApiError {
  return new ApiError(401, `token_${problem}`, message, { headers: { 'www-authenticate': 'Token realm="sluice"' } })
}

export function forbidden(code: string, message: string, principal?: Principal): ApiError {
  return new ApiError(403, code, message, principal ? { principal } : {})
}
