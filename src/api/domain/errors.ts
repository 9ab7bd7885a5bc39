import type { Principal } from './keys/principal.js'

/** One thing wrong in what was sent: `config.processors.limit.window`, `title`. */
export interface Fault {
  readonly path: string
  readonly message: string
}

/** What the service refuses, as it answers: `{"code","message","errors"}`. No message shows a key. */
export class ApiError extends Error {
  readonly status: number
  /** Stable, in snake case; programs decide by it. */
  readonly code: string
  readonly errors: readonly Fault[]
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Who asked, where that was known already: the answer is an authenticated one then. */
  readonly principal: Principal | undefined

  constructor(
    status: number,
    code: string,
    message: string,
    more: {
      errors?: readonly Fault[]
      headers?: Readonly<Record<string, string>>
      principal?: Principal
      cause?: unknown
    } = {},
  ) {
    super(message, { cause: more.cause })
    this.status = status
    this.code = code
    this.errors = more.errors ?? []
    this.headers = more.headers ?? {}
    this.principal = more.principal
  }
}

/** For what is not there, and for what is another account's: nobody can tell the two apart. */
export function notFound(what: string): ApiError {
  return new ApiError(404, 'not_found', `there is no such ${what}`)
}

/** Authentication failed. `problem` stands in the code: `token_expired`. */
export function unauthorized(problem: string, message: string): ApiError {
  return new ApiError(401, `token_${problem}`, message, { headers: { 'www-authenticate': 'Token realm="sluice"' } })
}

export function forbidden(code: string, message: string, principal?: Principal): ApiError {
  return new ApiError(403, code, message, principal ? { principal } : {})
}
