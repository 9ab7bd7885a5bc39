import type { Accounts } from './accounts.js'
import type { Audit } from './audit.js'
import type { AuthenticateRequest } from './authentication.js'
import type { ServiceOptions } from './context.js'
import type { InitResult, TokenDocument } from './documents.js'
import type { Fleet } from './fleet.js'
import type { Pipelines } from './pipelines.js'
import type { Principal } from './principal.js'
import type { ServiceAccounts } from './service-accounts.js'
import type { UserKeys } from './user-keys.js'
import type { Users } from './users.js'

export interface InitOptions {
  readonly enterpriseTitle?: string | undefined
  readonly accountTitle?: string | undefined
  readonly managerEmail?: string | undefined
}

/** Numbers for metrics. */
export interface ServiceCounts {
  /** Refused keys by problem: malformed, unknown, expired, revoked. */
  readonly refusedKeys: Readonly<Record<string, number>>
  readonly authenticated: number
  readonly rateLimited: number
  /** As of the last look, which is taken every hour. */
  readonly keysExpiringSoon: number
  readonly keysExpired: number
}

/**
 * Everything the service knows how to do, without HTTP. Each method takes the principal first, checks scope, role and
 * visibility itself, and writes its audit entry with the change. Inputs are what the schemas of inputs.ts give.
 */
export class Service {
  declare readonly accounts: Accounts
  declare readonly users: Users
  declare readonly serviceAccounts: ServiceAccounts
  declare readonly userKeys: UserKeys
  declare readonly pipelines: Pipelines
  declare readonly fleet: Fleet
  declare readonly audit: Audit

  static async open(_options: ServiceOptions): Promise<Service> {
    throw new Error('not there yet')
  }

  /** ApiError 401 with token_missing, token_malformed, token_unknown, token_expired or token_revoked; 403; 429. */
  async authenticate(_request: AuthenticateRequest): Promise<Principal> {
    throw new Error('not there yet')
  }

  /** Makes the first enterprise, account, manager and keys; ApiError 409 already_initialized. */
  async init(_options: InitOptions = {}): Promise<InitResult> {
    throw new Error('not there yet')
  }

  /** Whether `init` was done. */
  async initialized(): Promise<boolean> {
    throw new Error('not there yet')
  }

  /** What this token is. */
  token(_principal: Principal): TokenDocument {
    throw new Error('not there yet')
  }

  counts(): ServiceCounts {
    throw new Error('not there yet')
  }

  /** Writes down what is only in memory (last uses, reports). The store stays open. */
  async close(): Promise<void> {}
}
