import { SECRET_NAME, secretNamesIn } from '../../../../engine/config/published/account-secrets.js'
import { requirePipelineRead, requirePipelineWrite } from '../accounts/access.js'
import { type Context, mapPage } from '../context.js'
import { Derived } from '../derived.js'
import type { Page, SecretDocument } from '../documents.js'
import { ApiError, notFound } from '../errors.js'
import type { PageQuery, SecretInput } from '../inputs.js'
import type { Principal } from '../keys/principal.js'
import { at, type SecretRecord } from '../records.js'
import type { Sealer } from './sealer.js'

/** The secrets that a configuration refers to, for the runner of the pipeline. */
export interface ConfigSecrets {
  /** Changes with the values. */
  readonly version: string
  readonly names: readonly string[]
  /** Values by name. Throws if one is missing or cannot be decrypted. */
  values(): Readonly<Record<string, string>>
}

/** Called when a secret was saved or removed. */
export type SecretListener = (accountId: string, enterpriseId: string, name: string) => void

const NONE: ConfigSecrets = { version: '', names: [], values: () => ({}) }

/**
 * Secrets of accounts, which pipelines refer to by name. They can be written, replaced and removed, but never read
 * through the API. In the store they are encrypted.
 */
export class Secrets {
  readonly #context: Context
  readonly #sealer: Sealer
  readonly #listeners = new Set<SecretListener>()
  readonly #names = new Derived((config: object) => secretNamesIn(config))

  constructor(context: Context, sealer: Sealer) {
    this.#context = context
    this.#sealer = sealer
  }

  async list(principal: Principal, page: PageQuery): Promise<Page<SecretDocument>> {
    const account = requirePipelineRead(principal)
    return mapPage(await this.#context.page<SecretRecord>(at.secrets(account.id), page), show)
  }

  /** Creates a secret or replaces its value. */
  async set(principal: Principal, name: string, { value }: SecretInput): Promise<SecretDocument> {
    const account = requirePipelineWrite(principal)
    if (!SECRET_NAME.test(name)) {
      const message =
        'the name of a secret must have 1 to 64 characters of A-Z, a-z, 0-9, "_", "." and "-", and begin with a letter'
      throw new ApiError(404, 'not_found', message)
    }
    const context = this.#context
    return context.turns.take(account.id, async () => {
      const key = at.secret(account.id, name)
      const before = await context.read<SecretRecord>(key)
      if (!before) await context.room(at.secrets(account.id), context.limits.secrets, 'secrets in an account')
      const now = context.time()
      const record: SecretRecord = {
        id: context.ids.next(),
        name,
        sealed: this.#sealer.seal(value, key),
        created_at: before?.created_at ?? now,
        updated_at: now,
        updated_by: { id: principal.subject.id, email: principal.subject.email },
      }
      const entry = context.audit(principal, before ? 'secret.replace' : 'secret.create', target(name))
      await context.write([{ key, value: record }, entry], [{ key, value: before }])
      this.#notify(principal, name)
      return show(record)
    })
  }

  /** Pipelines that refer to it stop running. */
  async remove(principal: Principal, name: string): Promise<void> {
    const account = requirePipelineWrite(principal)
    if (!SECRET_NAME.test(name)) throw notFound('secret')
    const context = this.#context
    await context.turns.take(account.id, async () => {
      const key = at.secret(account.id, name)
      const before = await context.read<SecretRecord>(key)
      if (!before) throw notFound('secret')
      const entry = context.audit(principal, 'secret.remove', target(name))
      await context.write([{ key, value: undefined }, entry], [{ key, value: before }])
      this.#notify(principal, name)
    })
  }

  namesIn(config: object): readonly string[] {
    return this.#names.of(config)
  }

  async exists(accountId: string, name: string): Promise<boolean> {
    return (await this.#read(accountId, name)) !== undefined
  }

  /** The names that a configuration refers to but the account does not have. */
  async missing(accountId: string, config: object): Promise<string[]> {
    const names = this.#names.of(config)
    const records = await Promise.all(names.map(name => this.#read(accountId, name)))
    return names.filter((_, i) => !records[i])
  }

  async for(accountId: string, config: object): Promise<ConfigSecrets> {
    const names = this.#names.of(config)
    if (names.length === 0) return NONE
    const records = await Promise.all(names.map(name => this.#read(accountId, name)))
    return {
      version: records.map(record => record?.id ?? 'none').join(),
      names,
      values: () => Object.fromEntries(names.map((name, i) => [name, this.#open(accountId, name, records[i])])),
    }
  }

  /** The returned function removes the listener. */
  onChange(listener: SecretListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #notify({ account, enterpriseId }: Principal, name: string): void {
    for (const listener of this.#listeners) listener(account!.id, enterpriseId, name)
  }

  #read(accountId: string, name: string): Promise<SecretRecord | undefined> {
    return SECRET_NAME.test(name)
      ? this.#context.read<SecretRecord>(at.secret(accountId, name))
      : Promise.resolve(undefined)
  }

  #open(accountId: string, name: string, record: SecretRecord | undefined): string {
    if (!record)
      throw new Error(`the secret ${name} does not exist in the account; save it with PUT /v3/secret/${name}`)
    const value = this.#sealer.open(record.sealed, at.secret(accountId, name))
    if (value !== undefined) return value
    throw new Error(`the secret ${name} cannot be decrypted; save it again with PUT /v3/secret/${name}`)
  }
}

const target = (name: string) => ({ type: 'secret', id: name })

function show({ name, created_at, updated_at, updated_by }: SecretRecord): SecretDocument {
  return { name, created_at, updated_at, updated_by }
}
