import type { PageDocument, SecretDocument } from '../../../../daemon/client/documents.js'
import type { PageQuery, SecretInput } from '../../../../daemon/client/inputs.js'
import { SECRET_NAME, secretNamesIn } from '../../../../engine/config/published/account-secrets.js'
import { Cached } from '../../store/cached.js'
import type { Sql } from '../../store/store.js'
import { requirePipelineRead, requirePipelineWrite } from '../accounts/access.js'
import type { Context } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import type { Sealed, Sealer } from './sealer.js'

/** The secrets that a configuration refers to, for the runner of the pipeline. */
export interface ConfigSecrets {
  /** Changes when a value changes. */
  readonly version: string
  readonly names: readonly string[]
  /** Values by name. Throws if a secret is missing or cannot be decrypted. */
  values(): Readonly<Record<string, string>>
}

interface Row extends Pick<SecretDocument, 'name' | 'created_at' | 'updated_at'> {
  /** Changes each time a value is saved. */
  readonly id: string
  /** JSON of the encrypted value. */
  readonly sealed: string
  /** JSON. */
  readonly updated_by: string
}

const ROW = 'SELECT name, id, sealed, created_at, updated_at, updated_by FROM secret'
/** Maximum secrets in each generation of the cache. */
const MOST_REMEMBERED = 5000

const NONE: ConfigSecrets = { version: '', names: [], values: () => ({}) }

/**
 * Secrets of accounts. Pipelines refer to them by name. They can be written, replaced and removed, but never read
 * through the API. In the store they are encrypted.
 */
export class Secrets {
  readonly #context: Context
  readonly #sealer: Sealer
  readonly #rows: Cached<Row>
  /** Called after each change of a secret. Must not throw. */
  onChange: (accountId: string, name: string) => void = () => {}
  /** Names of secrets, by configuration. They are cached because a search costs more than all else in a request. */
  readonly #names = new WeakMap<object, readonly string[]>()

  constructor(context: Context, sealer: Sealer) {
    this.#context = context
    this.#sealer = sealer
    this.#rows = new Cached(context.store, ['secret'], MOST_REMEMBERED)
  }

  async list(principal: Principal, page: PageQuery): Promise<PageDocument<SecretDocument>> {
    const account = requirePipelineRead(principal)
    const rows = {
      text: `${ROW} WHERE name > $1 AND account_id = $3 ORDER BY name`,
      values: [account.id],
      cursorOf: ({ name }: Row) => name,
    }
    return this.#context.page(page, rows, show)
  }

  async set(principal: Principal, name: string, { value }: SecretInput): Promise<SecretDocument> {
    const account = requirePipelineWrite(principal)
    if (!SECRET_NAME.test(name)) {
      const message =
        'the name of a secret must have 1 to 64 characters of A-Z, a-z, 0-9, "_", "." and "-", and begin with a letter'
      throw new ApiError(404, 'not_found', message)
    }
    const context = this.#context
    const shown = await context.change(principal, async (sql, audit) => {
      const before = await readRow(sql, account.id, name)
      if (!before) {
        const theirs = 'secret WHERE account_id = $1'
        await context.room(sql, context.limits.secrets, 'secrets in an account', theirs, account.id)
      }
      const now = context.time()
      const row: Row = {
        id: context.ids.next(),
        name,
        sealed: JSON.stringify(this.#sealer.seal(value, placeOf(account.id, name))),
        created_at: before?.created_at ?? now,
        updated_at: now,
        updated_by: JSON.stringify({ id: principal.subject.id, email: principal.subject.email }),
      }
      await sql.run(
        `INSERT INTO secret (account_id, name, id, sealed, created_at, updated_at, updated_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (account_id, name) DO UPDATE SET id = excluded.id, sealed = excluded.sealed,
           updated_at = excluded.updated_at, updated_by = excluded.updated_by`,
        ...[account.id, name, row.id, row.sealed, row.created_at, row.updated_at, row.updated_by],
      )
      await audit(before ? 'secret.replace' : 'secret.create', target(name))
      return show(row)
    })
    this.onChange(account.id, name)
    return shown
  }

  /** Removes a secret. Pipelines that refer to the secret stop running. */
  async remove(principal: Principal, name: string): Promise<void> {
    const account = requirePipelineWrite(principal)
    if (!SECRET_NAME.test(name)) throw notFound('secret')
    await this.#context.change(principal, async (sql, audit) => {
      const removed = await sql.run('DELETE FROM secret WHERE account_id = $1 AND name = $2', account.id, name)
      if (removed === 0) throw notFound('secret')
      await audit('secret.remove', target(name))
    })
    this.onChange(account.id, name)
  }

  namesIn(config: object): readonly string[] {
    let names = this.#names.get(config)
    if (!names) this.#names.set(config, (names = secretNamesIn(config)))
    return names
  }

  async exists(accountId: string, name: string): Promise<boolean> {
    return (await this.#read(accountId, name)) !== undefined
  }

  async missing(accountId: string, names: readonly string[]): Promise<string[]> {
    const rows = await Promise.all(names.map(name => this.#read(accountId, name)))
    return names.filter((_, i) => !rows[i])
  }

  async for(accountId: string, config: object): Promise<ConfigSecrets> {
    const names = this.namesIn(config)
    if (names.length === 0) return NONE
    const rows = await Promise.all(names.map(name => this.#read(accountId, name)))
    return {
      version: rows.map(row => row?.id ?? 'none').join(),
      names,
      values: () => Object.fromEntries(names.map((name, i) => [name, this.#open(accountId, name, rows[i])])),
    }
  }

  async #read(accountId: string, name: string): Promise<Row | undefined> {
    if (!SECRET_NAME.test(name)) return undefined
    const { store } = this.#context
    return await this.#rows.read(`${accountId} ${name}`, () => readRow(store, accountId, name))
  }

  #open(accountId: string, name: string, row: Row | undefined): string {
    if (!row) throw new Error(`the secret ${name} does not exist in the account; save it with PUT /v3/secret/${name}`)
    const value = this.#sealer.open(JSON.parse(row.sealed) as Sealed, placeOf(accountId, name))
    if (value !== undefined) return value
    throw new Error(`the secret ${name} cannot be decrypted; save it again with PUT /v3/secret/${name}`)
  }
}

const target = (name: string) => ({ type: 'secret', id: name })
/** The place to which a value is bound. The value cannot be decrypted at another place. */
const placeOf = (accountId: string, name: string) => `secret/${accountId}/${name}`

async function readRow(sql: Sql, accountId: string, name: string): Promise<Row | undefined> {
  return await sql.get<Row>(`${ROW} WHERE account_id = $1 AND name = $2`, accountId, name)
}

function show({ name, created_at, updated_at, updated_by }: Row): SecretDocument {
  return { name, created_at, updated_at, updated_by: JSON.parse(updated_by) }
}
