import type { InitResult, TokenDocument } from '../../../daemon/client/documents.js'
import type { InitOptions } from '../../../daemon/client/inputs.js'
import { SCOPES } from '../../../daemon/client/scopes.js'
import { every } from '../../../lib/time.js'
import { SINGLE_NODE } from '../nodes.js'
import { Accounts } from './accounts/accounts.js'
import { initializeStore, isInitialized } from './accounts/first-steps.js'
import { ServiceAccounts } from './accounts/service-accounts.js'
import { Users } from './accounts/users.js'
import { Audit } from './audit.js'
import { Context, type ContextOptions } from './context.js'
import { type AuthenticateRequest, Authentication } from './keys/authentication.js'
import { AccessKeys } from './keys/keys.js'
import type { Principal } from './keys/principal.js'
import { UserKeys } from './keys/user-keys.js'
import { Fleet } from './pipelines/fleet.js'
import { Pipelines } from './pipelines/pipelines.js'
import { Sealer } from './secrets/sealer.js'
import { Secrets } from './secrets/secrets.js'

/**
 * Interval of saving reports. The last uses of keys are saved every USES_EVERY intervals, and a sweep runs every
 * SWEEP_EVERY intervals.
 */
const TICK_MS = 10_000
const USES_EVERY = 6
const SWEEP_EVERY = 360
/** Minimum time between two sweeps, whichever nodes run them. Less than the sweep interval of one node. */
const SWEEP_MS = 0.9 * SWEEP_EVERY * TICK_MS

export interface ServiceCounts {
  /** Refused keys by problem: missing, malformed, unknown, expired, revoked. */
  readonly refusedKeys: Readonly<Record<string, number>>
  readonly authenticated: number
  readonly rateLimited: number
  /** How many daemons were removed to make room for new ones, and how many new ones were refused. */
  readonly daemonsEvicted: number
  readonly daemonsRefused: number
  /** Numbers of keys as of the last hourly check. */
  readonly keysExpiringSoon: number
  readonly keysExpired: number
}

/**
 * All functions of the service, independent of HTTP. The first argument of each method is the principal. Each method
 * itself checks scope, role and visibility, and writes its audit entry together with the change. Inputs must be parsed
 * by the schemas of inputs.ts.
 */
export class Service {
  readonly accounts: Accounts
  readonly users: Users
  readonly serviceAccounts: ServiceAccounts
  readonly userKeys: UserKeys
  readonly pipelines: Pipelines
  readonly secrets: Secrets
  readonly fleet: Fleet
  readonly audit: Audit
  readonly #context: Context
  readonly #keys: AccessKeys
  readonly #authentication: Authentication
  #stopTicking: () => void = () => {}
  #ticks = 0
  #busy: Promise<void> | undefined

  private constructor(options: ContextOptions) {
    const context = new Context(options)
    this.#context = context
    this.#keys = new AccessKeys(context, options.secret)
    this.#authentication = new Authentication(context, this.#keys)
    this.users = new Users(context, this.#keys)
    this.serviceAccounts = new ServiceAccounts(context, this.#keys)
    this.userKeys = new UserKeys(context, this.#keys)
    this.secrets = new Secrets(context, new Sealer(options.secret, context.random))
    this.pipelines = new Pipelines(context, options.components, this.secrets)
    this.accounts = new Accounts(context, this.users, this.pipelines)
    this.fleet = new Fleet(context, this.pipelines)
    this.pipelines.onRemove = (account, id) => this.fleet.forgetPipeline(account, id)
    this.audit = new Audit(context)
  }

  static async open(options: ContextOptions): Promise<Service> {
    const service = new Service(options)
    await service.pipelines.sizes.load(options.store)
    await service.#keys.checkEnds()
    if (options.background !== false) service.#stopTicking = every(TICK_MS, () => service.#tick())
    return service
  }

  /**
   * Identifies the caller, synchronously if possible. Throws or rejects with ApiError 401 (token_PROBLEM), 403 or 429.
   */
  authenticate(request: AuthenticateRequest): Principal | Promise<Principal> {
    return this.#authentication.authenticate(request)
  }

  /** Checks the caller again after the body was read. Returns `principal` itself if no grant has changed. */
  confirm(principal: Principal, again: () => AuthenticateRequest): Principal | Promise<Principal> {
    return this.#authentication.confirm(principal, again)
  }

  init(options: InitOptions = {}): Promise<InitResult> {
    return initializeStore(this.#context, this, options)
  }

  initialized(): Promise<boolean> {
    return isInitialized(this.#context.store)
  }

  token(principal: Principal): TokenDocument {
    const { type, subject, account, enterpriseId, role, scopes, expiresAt, keyId, delegated } = principal
    return {
      type,
      subject,
      account_id: account?.id ?? null,
      account_short_id: account?.shortId ?? null,
      enterprise_id: enterpriseId,
      role: role ?? null,
      scopes: SCOPES.filter(scope => scopes.has(scope)),
      expires_at: expiresAt,
      key_id: keyId,
      delegated,
    }
  }

  counts(): ServiceCounts {
    const { refused, authenticated, rateLimited } = this.#authentication
    const { expiringSoon, expired } = this.#keys
    const { evicted: daemonsEvicted, refused: daemonsRefused } = this.fleet
    const counted = { refusedKeys: { ...refused }, authenticated, rateLimited, daemonsEvicted, daemonsRefused }
    return { ...counted, keysExpiringSoon: expiringSoon, keysExpired: expired }
  }

  /** Writes data that is only in memory so far: reports, and times when keys were last used. */
  async flush(): Promise<void> {
    await this.fleet.flush()
    await this.#keys.flush()
  }

  /** Warns of keys that expire soon, and removes old data. One node does both for all. */
  async sweep(): Promise<void> {
    const { nodes, store } = this.#context
    const isTurn = await nodes.takes('sweep', SWEEP_MS)
    await this.#keys.checkEnds(isTurn)
    // The sizes are read again, because this node does not notice when other nodes change them.
    if (nodes !== SINGLE_NODE) await this.pipelines.sizes.load(store)
    if (isTurn) {
      await this.fleet.forgetOld()
      await this.audit.forgetOld()
      await this.pipelines.forgetOld()
      await nodes.forgetOld()
    }
    await this.fleet.refresh()
  }

  /** Stops periodic tasks, and flushes if possible. The store stays open. */
  async close(): Promise<void> {
    this.#stopTicking()
    await this.#busy
    await this.flush().catch(error => this.#cannotFlush(error))
  }

  #tick(): void {
    this.#ticks++
    this.#busy ??= this.#lookAfter(this.#ticks).finally(() => {
      this.#busy = undefined
    })
  }

  async #lookAfter(ticks: number): Promise<void> {
    try {
      await this.fleet.flush()
      if (ticks % USES_EVERY === 0) await this.#keys.flush()
      if (ticks % SWEEP_EVERY === 0) await this.sweep()
    } catch (error) {
      this.#cannotFlush(error)
    }
  }

  #cannotFlush(error: unknown): void {
    this.#context.log.error({ err: error }, 'cannot save the data that the service has in memory')
  }
}
