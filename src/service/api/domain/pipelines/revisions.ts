import type { AnyDefinition } from '../../../../core/component.js'
import type { PageDocument, RevisionDocument } from '../../../../daemon/client/documents.js'
import type { PageQuery } from '../../../../daemon/client/inputs.js'
import { hideLiterals } from '../../../../engine/config/published/secret-places.js'
import { Recent } from '../../store/recent.js'
import type { Sql } from '../../store/store.js'
import { featuresIn } from '../accounts/features.js'
import type { Context } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import type { PipelineRow } from './pipeline-row.js'

type Config = Readonly<Record<string, unknown>>

export interface Revision {
  readonly config: Config
  /**
   * `config` without literal keys. It is not stored, since a plugin may declare an option as a key after the revision
   * was saved.
   */
  readonly shown: Config
  /** Beta features that the configuration requires. */
  readonly features: readonly string[]
}

interface Row {
  readonly revision: number
  readonly config: string
  readonly created_at: string
  readonly created_by: string
}

const ROW = 'SELECT revision, config, created_at, created_by FROM revision WHERE pipeline_id = $3'
/** Maximum length of the texts in each generation of the cache. */
const REMEMBERED_BYTES = 32 * 1024 * 1024
const LARGEST = 2_147_483_647

/** The saved revisions of pipelines. A revision never changes; old revisions are removed. */
export class Revisions {
  readonly sizes = new RevisionSizes()
  readonly #context: Context
  readonly #components: readonly AnyDefinition[]
  readonly #known = new Recent<Revision>(REMEMBERED_BYTES)

  constructor(context: Context, components: readonly AnyDefinition[]) {
    this.#context = context
    this.#components = components
    // If PostgreSQL has lost a revision, as after a failover, its number is used again.
    context.store.watch([], () => this.#known.clear())
  }

  async find(sql: Sql, pipeline: string, revision: number): Promise<Revision | undefined> {
    const found = this.#known.get(nameOf(pipeline, revision))
    if (found) return found.value
    if (!Number.isInteger(revision) || revision < 1 || revision > LARGEST) return undefined
    const text = await this.textOf(sql, { id: pipeline, revision })
    if (text === undefined) return undefined
    // A revision that is read inside a change is not cached, because it may not be committed yet.
    return sql === this.#context.store ? this.parsed(pipeline, revision, text) : this.#parse(text)
  }

  async read(sql: Sql, pipeline: string, revision: number): Promise<Revision> {
    const found = await this.find(sql, pipeline, revision)
    if (!found) throw notFound('revision')
    return found
  }

  /** Returns the cached revision. If the revision is not cached, parses `text` and caches the result. */
  parsed(pipeline: string, revision: number, text: string): Revision {
    const name = nameOf(pipeline, revision)
    const found = this.#known.get(name)
    if (found) return found.value
    const parsed = this.#parse(text)
    this.#known.set(name, parsed, text.length)
    return parsed
  }

  #parse(text: string): Revision {
    const config: Config = JSON.parse(text)
    return { config, shown: hideLiterals(config, this.#components), features: featuresIn(config) }
  }

  async textOf(sql: Sql, { id, revision }: Pick<PipelineRow, 'id' | 'revision'>): Promise<string | undefined> {
    const text = 'SELECT config FROM revision WHERE pipeline_id = $1 AND revision = $2'
    return (await sql.get<{ config: string }>(text, id, revision))?.config
  }

  /** Lists the revisions of a pipeline, newest first. */
  async list(pipeline: PipelineRow, page: PageQuery): Promise<PageDocument<RevisionDocument>> {
    const rows = {
      text: `${ROW} AND revision < CAST($1 AS integer) ORDER BY revision DESC`,
      values: [pipeline.id],
      first: String(LARGEST),
      cursorOf: ({ revision }: Row) => String(revision),
    }
    const after = page.after && String(Math.max(0, Math.min(LARGEST, Number.parseInt(page.after, 10) || LARGEST)))
    return this.#context.page({ ...page, after }, rows, row => this.#show(row, pipeline))
  }

  async document(pipeline: PipelineRow, revision: number): Promise<RevisionDocument> {
    if (!Number.isInteger(revision) || revision < 1 || revision > LARGEST) throw notFound('revision')
    const { store } = this.#context
    const row = await store.get<Row>(`${ROW.replace('$3', '$1')} AND revision = $2`, pipeline.id, revision)
    if (!row) throw notFound('revision')
    return this.#show(row, pipeline)
  }

  #show(row: Row, { id, published_revision }: PipelineRow): RevisionDocument {
    const { revision, created_at } = row
    const { shown } = this.parsed(id, revision, row.config)
    const created_by = JSON.parse(row.created_by)
    return {
      pipeline_id: id,
      revision,
      config: shown,
      created_at,
      created_by,
      published: revision === published_revision,
    }
  }

  /** Throws 404 if the revision was removed. */
  async requireKept(sql: Sql, pipeline: string, revision: number): Promise<void> {
    if ((await this.textOf(sql, { id: pipeline, revision })) === undefined) throw notFound('revision')
  }

  /**
   * Adds the latest revision of a pipeline, and removes the oldest revisions beyond the limit. Resolves with the size
   * of all revisions of the account in bytes. Throws ApiError 409 if the account does not have room.
   */
  async add(sql: Sql, pipeline: PipelineRow, config: string, { subject }: Principal): Promise<number> {
    const { id, account_id, revision, updated_at } = pipeline
    const by = JSON.stringify({ id: subject.id, email: subject.email })
    const record = `{"pipeline_id":"${id}","revision":${revision},"config":${config},"created_at":"${updated_at}","created_by":${by}}`
    const bytes = Buffer.byteLength(record)
    // Other nodes add revisions as well.
    const used = await bytesOf(sql, account_id)
    this.sizes.set(account_id, used)
    const removed = await this.#removeOld(sql, pipeline)
    this.sizes.requireRoom(account_id, bytes - removed)
    await sql.run(
      `INSERT INTO revision (pipeline_id, revision, account_id, bytes, created_at, created_by, config)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      ...[id, revision, account_id, bytes, updated_at, by, config],
    )
    return used - removed + bytes
  }

  /**
   * Removes the previously published revision if it is beyond the limit. Resolves with the bytes of the account's
   * revisions.
   */
  async forgetOld(sql: Sql, pipeline: PipelineRow): Promise<number> {
    await this.#removeOld(sql, pipeline)
    return bytesOf(sql, pipeline.account_id)
  }

  /** Removes all revisions of a pipeline. Resolves with the bytes of the account's other revisions. */
  async removeAll(sql: Sql, { id, account_id }: PipelineRow): Promise<number> {
    await sql.run('DELETE FROM revision WHERE pipeline_id = $1', id)
    return bytesOf(sql, account_id)
  }

  /** Removes revisions beyond the limit, except the published one. Resolves with the removed bytes. */
  async #removeOld(sql: Sql, { id, revision, published_revision }: PipelineRow): Promise<number> {
    const rows = await sql.all<{ bytes: number }>(
      'DELETE FROM revision WHERE pipeline_id = $1 AND revision <= $2 AND revision <> $3 RETURNING bytes',
      ...[id, revision - this.#context.limits.revisions, published_revision ?? 0],
    )
    return rows.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}

const nameOf = (pipeline: string, revision: number): string => `${pipeline} ${revision}`

async function bytesOf(sql: Sql, account: string): Promise<number> {
  const text = 'SELECT coalesce(sum(bytes), 0) AS bytes FROM revision WHERE account_id = $1'
  return Number((await sql.get<{ bytes: number }>(text, account))!.bytes)
}

/** Whether an account may store this many more bytes. */
export type HasRoom = (account: string, bytes: number) => boolean

/** Total bytes of the saved revisions of each account, as of the last change of the account. */
export class RevisionSizes {
  readonly #accounts = new Map<string, number>()
  /** By default only the number of revisions is limited. */
  hasRoom: HasRoom = () => true

  async load(sql: Sql): Promise<void> {
    const text = 'SELECT account_id, sum(bytes) AS bytes FROM revision GROUP BY account_id'
    for (const row of await sql.all<{ account_id: string; bytes: number }>(text))
      this.set(row.account_id, Number(row.bytes))
  }

  get all(): number {
    let bytes = 0
    for (const own of this.#accounts.values()) bytes += own
    return bytes
  }

  of(account: string): number {
    return this.#accounts.get(account) ?? 0
  }

  /** Does nothing if `bytes` is undefined. */
  set(account: string, bytes: number | undefined): void {
    if (bytes === 0) this.#accounts.delete(account)
    else if (bytes !== undefined) this.#accounts.set(account, bytes)
  }

  /** Throws ApiError 409 if `more` bytes would exceed the limit of the account. */
  requireRoom(account: string, more: number): void {
    if (more <= 0 || this.hasRoom(account, more)) return
    const message = `this account uses all of its disk space: ${this.of(account)} bytes for saved revisions, the rest for buffers, dead-letter queues and idempotency keys. Delete pipelines that are not needed`
    throw new ApiError(409, 'account_disk_full', message)
  }
}
