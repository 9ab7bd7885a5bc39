import { createHash } from 'node:crypto'
import type { AnyDefinition } from '../../../../core/component.js'
import type { Fault } from '../../../../core/errors.js'
import type {
  PageDocument,
  PipelineDocument,
  PipelineName,
  PublishedDocument,
  PublishedPipelineDocument,
  RevisionDocument,
} from '../../../../daemon/client/documents.js'
import type { PageQuery, PipelineInput, PipelineUpdate, PublishInput } from '../../../../daemon/client/inputs.js'
import { Cached } from '../../store/cached.js'
import type { Sql } from '../../store/store.js'
import { requireAccount, requireEnterprise, requireId, requirePipelineWrite, requireScope } from '../accounts/access.js'
import { type Enabled, featuresIn, requireFeatures } from '../accounts/features.js'
import type { Context } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import type { Secrets } from '../secrets/secrets.js'
import { PacedWork } from './paced-work.js'
import { checkPipelineConfig, checkSizeAndSecrets } from './pipeline-config.js'
import type { PipelineRow } from './pipeline-row.js'
import { type Revision, Revisions } from './revisions.js'

/** A document with its strong ETag, including the quotes. */
export interface Tagged<T> {
  readonly document: T
  readonly etag: string
}

type Config = Readonly<Record<string, unknown>>

type StateRow = Pick<PipelineRow, 'id' | 'published_revision' | 'published_at'> & { readonly removed: number }
type PublishedState = Pick<PublishedDocument, 'revision' | 'published_at'>

const COLUMNS =
  'p.id, p.account_id, p.title, p.revision, p.published_revision, p.published_at, p.version, p.created_at, p.updated_at'
const ROW = `SELECT ${COLUMNS} FROM pipeline p WHERE p.id = $1 AND p.removed_at IS NULL`

/** Pipelines per statement when all pipelines are read. */
const PORTION = 20
/** Pipelines per statement when their states are read. */
const STATES = 500
const LATER_SECONDS = '10'
const THEN_PUBLISH = '; then publish again'
/** How long the row of a removed pipeline is kept. A node that is down may still have files of the pipeline. */
const FORGOTTEN_MS = 30 * 86_400_000
/** Maximum pipelines in each generation of the cache. */
const MOST_REMEMBERED = 10_000
/** Maximum pages of lists in each generation of the cache. A page has at most 1 MiB. */
const MOST_PAGES = 32

/**
 * A pipeline has saved, immutable revisions. The latest revision is the draft. One of the revisions may be published.
 * Saving an unchanged draft does not create a revision. Publishing an earlier revision is a rollback.
 */
export class Pipelines {
  readonly #context: Context
  readonly #components: readonly AnyDefinition[]
  readonly #secrets: Secrets
  readonly #rows: Cached<PipelineRow>
  readonly #pages: Cached<PageDocument<PipelineDocument>>
  readonly #revisions: Revisions
  /** The enabled features of accounts. */
  readonly #enabled: Cached<Enabled>
  /** Reports which options of a pipeline this service limits when it runs the pipeline. */
  boundsOf: (pipeline: string, config: Config) => Promise<readonly (Fault & { readonly obstacle?: true })[]> =
    async () => []
  /** Called on every publish, and with undefined when a pipeline is deleted. Must not throw. */
  onPublish: (pipelineId: string, published: PublishedDocument | undefined) => void = () => {}
  /** Called when a pipeline was deleted. Must not reject. */
  onRemove: (accountId: string, pipelineId: string) => Promise<void> = async () => {}
  readonly #checks = new PacedWork()

  constructor(context: Context, components: readonly AnyDefinition[], secrets: Secrets) {
    this.#context = context
    this.#components = components
    this.#secrets = secrets
    this.#rows = new Cached(context.store, ['pipeline'], MOST_REMEMBERED)
    this.#pages = new Cached(context.store, ['pipeline', 'secret'], MOST_PAGES)
    this.#revisions = new Revisions(context, components)
    this.#enabled = new Cached(context.store, ['account'], MOST_REMEMBERED)
  }

  get sizes() {
    return this.#revisions.sizes
  }

  /** Lists the account's pipelines, or all at enterprise scope. Returns the same object while nothing changes. */
  async list(principal: Principal, page: PageQuery): Promise<PageDocument<PipelineDocument>> {
    requireScope(principal, 'pipeline:read')
    const { account, enterpriseId } = principal
    if (account === undefined && principal.type !== 'enterprise_service_account') requireEnterprise(principal)
    const { limit, after = '' } = page
    const key = [account?.id ?? enterpriseId, limit, after].join(' ')
    return (await this.#pages.read(key, () => this.#page(account?.id, enterpriseId, page)))!
  }

  #page(account: string | undefined, enterprise: string, page: PageQuery): Promise<PageDocument<PipelineDocument>> {
    const rows = {
      // With a join instead of this subquery, PostgreSQL may read all revisions before it selects the page.
      text: `SELECT ${COLUMNS},
               (SELECT r.config FROM revision r WHERE r.pipeline_id = p.id AND r.revision = p.revision) AS config
             FROM pipeline p
             WHERE p.id > $1 AND p.${account ? 'account_id' : 'enterprise_id'} = $3 AND p.removed_at IS NULL
             ORDER BY p.id`,
      values: [account ?? enterprise],
    }
    return this.#context.page<PipelineRow & { config: string }, PipelineDocument>(page, rows, async row => {
      const draft = this.#revisions.parsed(row.id, row.revision, row.config)
      return show(row, draft, await this.#missing(this.#context.store, row, draft))
    })
  }

  async create(principal: Principal, { title, config }: PipelineInput): Promise<Tagged<PipelineDocument>> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    await this.#check(account.id, config)
    const { row, bytes } = await context.change(principal, async (sql, audit) => {
      const theirs = 'pipeline WHERE account_id = $1 AND removed_at IS NULL'
      await context.room(sql, context.limits.pipelines, 'pipelines in an account', theirs, account.id)
      const [id, now] = [context.ids.next(), context.time()]
      await sql.run(
        `INSERT INTO pipeline (id, enterprise_id, account_id, title, revision, version, created_at, updated_at)
         VALUES ($1, $2, $3, $4, 1, 1, $5, $5)`,
        ...[id, principal.enterpriseId, account.id, title, now],
      )
      await audit('pipeline.create', target(id), { title })
      const row = await readRow(sql, account, id)
      return { row, bytes: await this.#revisions.add(sql, row, JSON.stringify(config), principal) }
    })
    this.sizes.set(account.id, bytes)
    return this.#tagged(row)
  }

  async get(principal: Principal, id: string): Promise<Tagged<PipelineDocument>> {
    requireScope(principal, 'pipeline:read')
    return this.#tagged(await this.#read(principal, id))
  }

  /** Changes a pipeline. `ifMatch`: the raw header. Throws 412 if the ETag differs, and 400 if `config` is invalid. */
  async update(
    principal: Principal,
    id: string,
    { title, config }: PipelineUpdate,
    ifMatch?: string,
  ): Promise<Tagged<PipelineDocument>> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    await this.#requireMatch(context.store, ifMatch, await this.#read(principal, id))
    if (config) await this.#check(account.id, config)
    const { row, bytes } = await context.change(principal, async (sql, audit) => {
      const before = await readRow(sql, account, id)
      await this.#requireMatch(sql, ifMatch, before)
      const text = config && JSON.stringify(config)
      const saved = text !== undefined && text !== (await this.#revisions.textOf(sql, before))
      if (!saved && (title === undefined || title === before.title)) return { row: before }
      await sql.run(
        'UPDATE pipeline SET title = $2, revision = $3, version = version + 1, updated_at = $4 WHERE id = $1',
        ...[id, title ?? before.title, before.revision + (saved ? 1 : 0), context.time()],
      )
      const row = await readRow(sql, account, id)
      await audit('pipeline.update', target(id), { title: row.title, revision: row.revision })
      return saved ? { row, bytes: await this.#revisions.add(sql, row, text, principal) } : { row }
    })
    this.sizes.set(account.id, bytes)
    return this.#tagged(row)
  }

  async remove(principal: Principal, id: string, ifMatch?: string): Promise<void> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    const { wasPublished, bytes } = await context.change(principal, async (sql, audit) => {
      const before = await readRow(sql, account, id)
      await this.#requireMatch(sql, ifMatch, before)
      const wasPublished = before.published_revision !== null
      // A published pipeline stays in the table until its files are removed.
      if (wasPublished) await sql.run('UPDATE pipeline SET removed_at = $2 WHERE id = $1', id, context.time())
      else await sql.run('DELETE FROM pipeline WHERE id = $1', id)
      await audit('pipeline.remove', target(id), { title: before.title })
      return { wasPublished, bytes: await this.#revisions.removeAll(sql, before) }
    })
    this.sizes.set(account.id, bytes)
    if (wasPublished) this.onPublish(id, undefined)
    await this.onRemove(account.id, id)
  }

  /** Publishes the latest revision, or an earlier one as a rollback. Throws 403 feature_not_enabled. */
  async publish(
    principal: Principal,
    id: string,
    input: PublishInput,
    ifMatch?: string,
  ): Promise<Tagged<PublishedPipelineDocument>> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    const { store } = context
    const draft = await this.#read(principal, id)
    await this.#requireMatch(store, ifMatch, draft)
    const number = input.revision ?? draft.revision
    const { config, features } = await this.#revisions.read(store, id, number)
    // The revision is checked again. It may be invalid now if the schema has changed since the revision was saved.
    await this.#check(account.id, config)
    requireFeatures(await enabledIn(store, account.id), features, THEN_PUBLISH)
    const bounds = await this.#checks.do(account.id, () => this.boundsOf(id, config))
    const { row, isNew, bytes } = await context.change(principal, async (sql, audit) => {
      const before = await readRow(sql, account, id)
      await this.#requireMatch(sql, ifMatch, before)
      await this.#revisions.requireKept(sql, id, number)
      requireFeatures(await enabledIn(sql, account.id), features, THEN_PUBLISH)
      const from = before.published_revision
      if (from === number) return { row: before, isNew: false }
      await sql.run(
        `UPDATE pipeline SET published_revision = $2, published_at = $3, version = version + 1, updated_at = $3
         WHERE id = $1`,
        ...[id, number, context.time()],
      )
      const action = from !== null && number < from ? 'pipeline.rollback' : 'pipeline.publish'
      await audit(action, target(id), { revision: number, revision_before: from })
      const row = await readRow(sql, account, id)
      return { row, isNew: true, bytes: await this.#revisions.forgetOld(sql, row) }
    })
    this.sizes.set(account.id, bytes)
    if (isNew) this.onPublish(id, publishedOf(row, config))
    const { document, etag } = await this.#tagged(row)
    const service_bounds = bounds.map(({ path, ...bound }) => ({ ...bound, path: path && `config.${path}` }))
    return { document: { ...document, service_bounds }, etag }
  }

  /** Lists the saved revisions, newest first. */
  async revisions(principal: Principal, id: string, page: PageQuery): Promise<PageDocument<RevisionDocument>> {
    requireScope(principal, 'pipeline:read')
    return this.#revisions.list(await this.#read(principal, id), page)
  }

  async revision(principal: Principal, id: string, revision: number): Promise<RevisionDocument> {
    requireScope(principal, 'pipeline:read')
    return this.#revisions.document(await this.#read(principal, id), revision)
  }

  /**
   * Returns the published revision for daemons. Users do not see literal keys. Throws 409 not_published, and 403
   * feature_not_enabled.
   */
  async published(principal: Principal, id: string): Promise<Tagged<PublishedDocument>> {
    requireScope(principal, 'pipeline:read')
    const row = await this.#read(principal, id)
    if (row.published_revision === null) throw notPublished(409)
    const { config, shown } = await this.#usable(row, row.published_revision)
    return { document: publishedOf(row, principal.type === 'personal' ? shown : config), etag: publishedTag(row) }
  }

  /**
   * For a request with `ingest:write`, returns the revision that the service runs. Throws 503 not_published, and 403
   * feature_not_enabled.
   */
  async forIngest(principal: Principal, id: string): Promise<PublishedDocument> {
    requireScope(principal, 'ingest:write')
    const row = await this.#read(principal, id)
    // Senders retry after a 503, but would drop their events after a 409.
    if (row.published_revision === null) throw notPublished(503, { 'retry-after': LATER_SECONDS })
    const { config } = await this.#usable(row, row.published_revision)
    return publishedOf(row, config)
  }

  /** The account's published pipelines that require a feature. */
  async requiring(feature: string, account: string): Promise<PipelineName[]> {
    const found: PipelineName[] = []
    for await (const { id, title, config } of this.allPublished(account))
      if (featuresIn(config).includes(feature)) found.push({ id, title })
    return found
  }

  /** Iterates over all published pipelines, optionally of one account, for the engine in the service. */
  async *allPublished(account?: string): AsyncGenerator<PublishedDocument, void, undefined> {
    const text = `SELECT ${COLUMNS}, r.config FROM pipeline p
                  JOIN revision r ON r.pipeline_id = p.id AND r.revision = p.published_revision
                  WHERE p.id > $1 AND p.removed_at IS NULL ${account === undefined ? '' : 'AND p.account_id = $3'}
                  ORDER BY p.id LIMIT $2`
    const of = account === undefined ? [] : [account]
    for (let after = ''; ; ) {
      const rows = await this.#context.store.all<PipelineRow & { config: string }>(text, after, PORTION, ...of)
      for (const row of rows)
        yield publishedOf(row, this.#revisions.parsed(row.id, row.published_revision!, row.config).config)
      if (rows.length < PORTION) return
      after = rows.at(-1)!.id
    }
  }

  /**
   * The published revision of each pipeline in `ids`: null if none is published, undefined if the pipeline was removed.
   */
  async states(ids: readonly string[]): Promise<Map<string, PublishedState | null | undefined>> {
    const states = new Map<string, PublishedState | null | undefined>()
    for (let from = 0; from < ids.length; from += STATES) {
      const some = ids.slice(from, from + STATES)
      const values = some.map((_, i) => `$${i + 1}`).join()
      const rows = await this.#context.store.all<StateRow>(
        `SELECT id, published_revision, published_at, CASE WHEN removed_at IS NULL THEN 0 ELSE 1 END AS removed
         FROM pipeline WHERE id IN (${values})`,
        ...some,
      )
      for (const { id, published_revision: revision, published_at, removed } of rows)
        states.set(id, removed ? undefined : revision === null ? null : { revision, published_at: published_at! })
    }
    return states
  }

  /** The published revision, for the engine in the service; undefined if no revision is published. */
  async publishedNow(id: string): Promise<PublishedDocument | undefined> {
    const row = await this.find(id)
    if (!row?.published_revision) return undefined
    return publishedOf(row, (await this.#revisions.read(this.#context.store, id, row.published_revision)).config)
  }

  /** The configuration of any revision, for the engine in the service; undefined if the revision was removed. */
  async configOf(id: string, revision: number): Promise<Config | undefined> {
    return (await this.#revisions.find(this.#context.store, id, revision))?.config
  }

  /** Removed pipelines whose files have not been removed yet. */
  async removed(): Promise<string[]> {
    const rows = await this.#context.store.all<{ id: string }>('SELECT id FROM pipeline WHERE removed_at IS NOT NULL')
    return rows.map(({ id }) => id)
  }

  async filesRemoved(id: string): Promise<void> {
    await this.#context.store.run('DELETE FROM pipeline WHERE id = $1 AND removed_at IS NOT NULL', id)
  }

  /** Deletes rows of pipelines removed long ago. A node that still has their files then logs the files as orphaned. */
  async forgetOld(): Promise<void> {
    await this.#context.store.run('DELETE FROM pipeline WHERE removed_at <= $1', this.#context.time(-FORGOTTEN_MS))
  }

  find(id: string): Promise<PipelineRow | undefined> {
    const { store } = this.#context
    return this.#rows.read(id, () => store.get<PipelineRow>(ROW, id))
  }

  async #check(account: string, config: Config) {
    await this.#checks.do(account, () => checkSizeAndSecrets(config, this.#components, this.#context.limits))
    return this.#checks.do(account, () => checkPipelineConfig(config, this.#components))
  }

  async #missing(sql: Sql, row: PipelineRow, draft: Revision): Promise<string[]> {
    const { id, account_id, revision, published_revision } = row
    const revisions = [draft]
    if (published_revision !== null && published_revision !== revision) {
      const published = await this.#revisions.find(sql, id, published_revision)
      if (published) revisions.push(published)
    }
    const names = new Set(revisions.flatMap(({ config }) => this.#secrets.namesIn(config)))
    return names.size === 0 ? [] : await this.#secrets.missing(account_id, [...names].sort())
  }

  async #tagged(row: PipelineRow): Promise<Tagged<PipelineDocument>> {
    const { store } = this.#context
    const draft = await this.#revisions.read(store, row.id, row.revision)
    const missing = await this.#missing(store, row, draft)
    return { document: show(row, draft, missing), etag: pipelineTag(row, missing) }
  }

  /** Throws 412 if `ifMatch` is given and does not contain the ETag. Weak tags never match. */
  async #requireMatch(sql: Sql, ifMatch: string | undefined, row: PipelineRow): Promise<void> {
    if (ifMatch === undefined || ifMatch.trim() === '*') return
    const draft = await this.#revisions.read(sql, row.id, row.revision)
    const etag = pipelineTag(row, await this.#missing(sql, row, draft))
    if (ifMatch.split(',').some(tag => tag.trim() === etag)) return
    const message = 'the pipeline has changed since you read it; read it again and repeat the change'
    throw new ApiError(412, 'precondition_failed', message, { headers: { etag } })
  }

  /** Returns a revision whose features are enabled. Throws 403 feature_not_enabled. */
  async #usable({ id, account_id: account }: PipelineRow, revision: number): Promise<Revision> {
    const { store } = this.#context
    const found = await this.#revisions.read(store, id, revision)
    if (found.features.length > 0)
      requireFeatures((await this.#enabled.read(account, () => enabledIn(store, account)))!, found.features)
    return found
  }

  async #read(principal: Principal, id: string): Promise<PipelineRow> {
    const account = requireAccount(principal)
    requireId(id, 'pipeline')
    return requireOf(account, await this.find(id))
  }
}

const target = (id: string) => ({ type: 'pipeline', id })

/** Reads a row within a change. Throws 404. */
async function readRow(sql: Sql, account: { readonly id: string }, id: string): Promise<PipelineRow> {
  requireId(id, 'pipeline')
  return requireOf(account, await sql.get<PipelineRow>(ROW, id))
}

function requireOf(account: { readonly id: string }, row: PipelineRow | undefined): PipelineRow {
  if (row?.account_id !== account.id) throw notFound('pipeline')
  return row
}

async function enabledIn(sql: Sql, account: string): Promise<Enabled> {
  const row = await sql.get<{ features: string }>('SELECT features FROM account WHERE id = $1', account)
  if (!row) throw notFound('pipeline')
  return JSON.parse(row.features)
}

function show(row: PipelineRow, { shown }: Revision, missing: string[]): PipelineDocument {
  const { id, account_id, title, revision, published_revision, created_at, updated_at } = row
  return {
    ...{ id, account_id, title, config: shown, revision, published_revision },
    ...{ missing_secrets: missing, created_at, updated_at },
  }
}

function publishedOf({ id, account_id, title, published_revision, published_at }: PipelineRow, config: Config) {
  return { id, account_id, title, revision: published_revision!, config, published_at: published_at! }
}

function notPublished(status: number, headers: Readonly<Record<string, string>> = {}): ApiError {
  const message = 'no revision of this pipeline is published yet; publish one first'
  return new ApiError(status, 'not_published', message, { headers })
}

/** Changes whenever the document of the pipeline changes. */
function pipelineTag({ version }: PipelineRow, missingSecrets: readonly string[]): string {
  const missing = createHash('sha256').update(missingSecrets.join()).digest('hex').slice(0, 8)
  return missingSecrets.length === 0 ? `"v${version}"` : `"v${version}-${missing}"`
}

/** An ETag that changes whenever the published document changes. Saving a draft does not change the ETag. */
function publishedTag({ published_revision, published_at, title }: PipelineRow): string {
  const mark = createHash('sha256').update(`${published_at} ${title}`).digest('hex').slice(0, 8)
  return `"r${published_revision}-${mark}"`
}
