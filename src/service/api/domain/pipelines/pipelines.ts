import { createHash } from 'node:crypto'
import type { AnyDefinition } from '../../../../core/component.js'
import type { Fault } from '../../../../core/errors.js'
import { hideLiterals } from '../../../../engine/config/published/secret-places.js'
import { type Change, portionsOf } from '../../store/store.js'
import { requireAccount, requireEnterprise, requireId, requirePipelineWrite, requireScope } from '../accounts/access.js'
import { missingFeatures, notEnabled } from '../accounts/features.js'
import { type Context, mapPage } from '../context.js'
import { Derived } from '../derived.js'
import type {
  Page,
  PipelineDocument,
  PublishedDocument,
  PublishedPipelineDocument,
  RevisionDocument,
} from '../documents.js'
import { ApiError, notFound } from '../errors.js'
import type { PageQuery, PipelineInput, PipelineUpdate, PublishInput } from '../inputs.js'
import type { Principal } from '../keys/principal.js'
import { type AccountRecord, at, type PipelineRecord, type RevisionRecord } from '../records.js'
import type { Secrets } from '../secrets/secrets.js'
import { PacedWork } from './paced-work.js'
import { checkPipelineConfig } from './pipeline-config.js'
import { RevisionSizes, RevisionWrites } from './revisions.js'

/** A document with its strong ETag, including the quotes. */
export interface Tagged<T> {
  readonly document: T
  readonly etag: string
}

/** Called on every publish, and with undefined when a pipeline is deleted. */
export type PublishListener = (pipelineId: string, published: PublishedDocument | undefined) => void

/** Pipelines per read when all of them are processed. */
const PORTION = 20
const LARGEST_REVISION = 9_999_999_999
const LATER_SECONDS = '10'

/**
 * Pipelines: a draft and its saved, immutable revisions, one of which is published. Saving an unchanged draft creates
 * no revision; publishing an earlier revision is a rollback.
 */
export class Pipelines {
  readonly #context: Context
  readonly #components: readonly AnyDefinition[]
  readonly #listeners = new Set<PublishListener>()
  readonly #secrets: Secrets
  /** Disk usage of the saved revisions. */
  readonly sizes = new RevisionSizes()
  /** Reports options of a configuration that are limited where this service runs the pipeline. */
  boundsOf: (
    pipeline: string,
    config: PipelineRecord['config'],
  ) => Promise<readonly (Fault & { readonly obstacle?: true })[]> = async () => []
  readonly #writes: RevisionWrites
  readonly #checks = new PacedWork()
  /** An option may be a key now that was none when the revision was saved: its plugin says so. */
  readonly #hidden = new Derived((config: RevisionRecord['config']) => hideLiterals(config, this.#components))
  readonly #shown = new Derived((page: Page<PipelineRecord>) => mapPage(page, record => this.#show(record, [])))

  constructor(context: Context, components: readonly AnyDefinition[], secrets: Secrets) {
    this.#context = context
    this.#components = components
    this.#secrets = secrets
    this.#writes = new RevisionWrites(context, this.sizes)
  }

  /** Includes all accounts at enterprise scope. Returns the same object while nothing changes. */
  async list(principal: Principal, page: PageQuery): Promise<Page<PipelineDocument>> {
    requireScope(principal, 'pipeline:read')
    if (principal.account === undefined && principal.type !== 'enterprise_service_account') requireEnterprise(principal)
    const prefix = at.pipelines(principal.enterpriseId, principal.account?.id)
    const found = await this.#context.page<PipelineRecord>(prefix, page)
    const missing = await Promise.all(found.items.map(record => this.#missing(record)))
    if (missing.every(({ length }) => length === 0)) return this.#shown.of(found)
    return { ...found, items: found.items.map((record, i) => this.#show(record, missing[i]!)) }
  }

  async create(principal: Principal, { title, config }: PipelineInput): Promise<Tagged<PipelineDocument>> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    await this.#check(account.id, config)
    return context.turns.take(account.id, async () => {
      const { enterpriseId } = principal
      await context.room(at.pipelines(enterpriseId, account.id), context.limits.pipelines, 'pipelines in an account')
      const now = context.time()
      const record: PipelineRecord = {
        id: context.ids.next(),
        enterprise_id: enterpriseId,
        account_id: account.id,
        title,
        config,
        revision: 1,
        published_revision: null,
        published_at: null,
        version: 1,
        created_at: now,
        updated_at: now,
      }
      const key = keyOf(record)
      const entry = context.audit(principal, 'pipeline.create', target(record.id), { title })
      const saved = await this.#writes.add(record, principal)
      await context.write([{ key, value: record }, ...saved.changes, entry], [{ key, value: undefined }])
      saved.done()
      return this.#tagged(record)
    })
  }

  async get(principal: Principal, id: string): Promise<Tagged<PipelineDocument>> {
    requireScope(principal, 'pipeline:read')
    return this.#tagged(await this.#read(principal, id))
  }

  /** `ifMatch` is the raw header; throws 412 if the pipeline has another ETag, and 400 with paths below `config`. */
  async update(
    principal: Principal,
    id: string,
    { title, config }: PipelineUpdate,
    ifMatch?: string,
  ): Promise<Tagged<PipelineDocument>> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    return context.turns.take(account.id, async () => {
      const before = await this.#read(principal, id)
      requireMatch(ifMatch, pipelineTag(before, await this.#missing(before)))
      if (config) await this.#check(account.id, config)
      const saved = config !== undefined && JSON.stringify(config) !== JSON.stringify(before.config)
      if (!saved && (title === undefined || title === before.title)) return this.#tagged(before)
      const record: PipelineRecord = {
        ...before,
        title: title ?? before.title,
        config: saved ? config : before.config,
        revision: before.revision + (saved ? 1 : 0),
        version: before.version + 1,
        updated_at: context.time(),
      }
      const details = { title: record.title, revision: record.revision }
      const revision = saved ? await this.#writes.add(record, principal) : undefined
      const changes = [
        { key: keyOf(record), value: record },
        ...(revision?.changes ?? []),
        context.audit(principal, 'pipeline.update', target(id), details),
      ]
      await context.write(changes, [{ key: keyOf(before), value: before }])
      revision?.done()
      return this.#tagged(record)
    })
  }

  async remove(principal: Principal, id: string, ifMatch?: string): Promise<void> {
    const account = requirePipelineWrite(principal)
    const context = this.#context
    await context.turns.take(account.id, async () => {
      const before = await this.#read(principal, id)
      requireMatch(ifMatch, pipelineTag(before, await this.#missing(before)))
      const kept = this.#kept(before).map(revision => at.revision(id, revision))
      const daemons = await context.store.list(at.daemons(before.enterprise_id, before.account_id, id))
      const gone = [keyOf(before), ...kept, at.revisionBytes(account.id, id), ...daemons.map(({ key }) => key)]
      const entry = context.audit(principal, 'pipeline.remove', target(id), { title: before.title })
      const changes: Change[] = gone.map(key => ({ key, value: undefined }))
      if (before.published_revision !== null)
        changes.push({ key: at.removedPipeline(id), value: { removed_at: context.time() } })
      await context.write([...changes, entry], [{ key: keyOf(before), value: before }])
      this.sizes.set(account.id, id, undefined)
      if (before.published_revision !== null) this.#notify(id, undefined)
    })
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
    return context.turns.take(account.id, async () => {
      const before = await this.#read(principal, id)
      requireMatch(ifMatch, pipelineTag(before, await this.#missing(before)))
      const number = input.revision ?? before.revision
      const revision = await this.#revision(before, number)
      // A saved revision may have become invalid: the schema may have changed since.
      const { processors } = await this.#check(account.id, revision.config)
      const gate = at.account(before.enterprise_id, before.account_id)
      const owner = await context.read<AccountRecord>(gate)
      if (!owner) throw notFound('pipeline')
      const missing = missingFeatures(
        owner,
        processors.map(({ type }) => type),
      )
      if (missing.length > 0) throw notEnabled(missing)
      const bounds = await this.#checks.do(account.id, () => this.boundsOf(id, revision.config))
      const withBounds = ({ document, etag }: Tagged<PipelineDocument>) => ({
        document: {
          ...document,
          service_bounds: bounds.map(({ path, ...bound }) => ({ ...bound, path: path && `config.${path}` })),
        },
        etag,
      })
      if (before.published_revision === number) return withBounds(await this.#tagged(before))
      const now = context.time()
      const record: PipelineRecord = {
        ...before,
        published_revision: number,
        published_at: now,
        version: before.version + 1,
        updated_at: now,
      }
      const from = before.published_revision
      const action = from !== null && number < from ? 'pipeline.rollback' : 'pipeline.publish'
      const entry = context.audit(principal, action, target(id), { revision: number, revision_before: from })
      const stale = from !== null && from <= record.revision - context.limits.revisions
      const old = await this.#writes.remove(before, stale ? from : undefined)
      await context.write(
        [{ key: keyOf(record), value: record }, ...old.changes, entry],
        [
          { key: keyOf(before), value: before },
          { key: gate, value: owner },
        ],
      )
      old.done()
      this.#notify(id, this.#publishedOf(record, revision))
      return withBounds(await this.#tagged(record))
    })
  }

  /** Newest first. */
  async revisions(principal: Principal, id: string, page: PageQuery): Promise<Page<RevisionDocument>> {
    requireScope(principal, 'pipeline:read')
    const pipeline = await this.#read(principal, id)
    const found = await this.#context.page<RevisionRecord>(at.revisions(id), page, true)
    return mapPage(found, revision => this.#showRevision(revision, pipeline))
  }

  async revision(principal: Principal, id: string, revision: number): Promise<RevisionDocument> {
    requireScope(principal, 'pipeline:read')
    const pipeline = await this.#read(principal, id)
    return this.#showRevision(await this.#revision(pipeline, revision), pipeline)
  }

  /** The revision for daemons; throws 409 not_published. Literal keys are hidden from people. */
  async published(principal: Principal, id: string): Promise<Tagged<PublishedDocument>> {
    requireScope(principal, 'pipeline:read')
    const record = await this.#read(principal, id)
    const document = await this.#published(record)
    const shown = principal.type === 'personal' ? { ...document, config: this.#hidden.of(document.config) } : document
    return { document: shown, etag: publishedTag(record) }
  }

  /** The revision that the service itself runs, for a request with `ingest:write`; throws 503 not_published. */
  async forIngest(principal: Principal, id: string): Promise<PublishedDocument> {
    requireScope(principal, 'ingest:write')
    const record = await this.#read(principal, id)
    // Senders retry after a 503, but would drop their events after a 409.
    if (record.published_revision === null) throw notPublished(503, { 'retry-after': LATER_SECONDS })
    return this.#published(record)
  }

  /** All published pipelines, or those of one account, for the engine in the service. */
  async *allPublished(prefix: string = at.allPipelines): AsyncGenerator<PublishedDocument, void, undefined> {
    for await (const entries of portionsOf(this.#context.store, prefix, PORTION))
      for (const { value } of entries) {
        const record = value as PipelineRecord
        if (record.published_revision !== null) yield await this.#published(record)
      }
  }

  /** The configuration of any revision, for the engine in the service; undefined if it is gone. */
  async configOf(id: string, revision: number): Promise<RevisionRecord['config'] | undefined> {
    return (await this.#context.read<RevisionRecord>(at.revision(id, revision)))?.config
  }

  /** Removed pipelines whose files have not been removed yet. */
  async *removed(): AsyncGenerator<string, void, undefined> {
    const entries = await this.#context.store.list(at.allRemovedPipelines)
    for (const { key } of entries) yield key.slice(at.allRemovedPipelines.length)
  }

  async filesRemoved(id: string): Promise<void> {
    await this.#context.write([{ key: at.removedPipeline(id), value: undefined }])
  }

  /** The returned function removes the listener. */
  onPublish(listener: PublishListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #notify(id: string, published: PublishedDocument | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(id, published)
      } catch (error) {
        // The revision is published nevertheless.
        this.#context.log.error({ err: error, pipeline: id }, 'a listener failed on a change of a published pipeline')
      }
    }
  }

  #check(account: string, config: Readonly<Record<string, unknown>>) {
    const { configBytes, components } = this.#context.limits
    const limits = { bytes: configBytes, components }
    return this.#checks.do(account, () => checkPipelineConfig(config, this.#components, limits))
  }

  /** The secrets that the draft or the published revision refers to, but that do not exist. */
  async #missing(record: PipelineRecord): Promise<string[]> {
    const { id, account_id, revision, published_revision } = record
    const missing = await this.#secrets.missing(account_id, record.config)
    if (published_revision === null || published_revision === revision) return missing
    const published = await this.#context.read<RevisionRecord>(at.revision(id, published_revision))
    if (!published) return missing
    return [...new Set([...missing, ...(await this.#secrets.missing(account_id, published.config))])].sort()
  }

  async #tagged(record: PipelineRecord): Promise<Tagged<PipelineDocument>> {
    const missing = await this.#missing(record)
    return { document: this.#show(record, missing), etag: pipelineTag(record, missing) }
  }

  #show(record: PipelineRecord, missing: readonly string[]): PipelineDocument {
    const { id, account_id, title, revision, published_revision, created_at, updated_at } = record
    const config = this.#hidden.of(record.config)
    const missing_secrets = [...missing]
    return { id, account_id, title, config, revision, published_revision, missing_secrets, created_at, updated_at }
  }

  #showRevision(record: RevisionRecord, { published_revision }: PipelineRecord): RevisionDocument {
    return {
      ...record,
      config: this.#hidden.of(record.config),
      published: record.revision === published_revision,
    }
  }

  async #read(principal: Principal, id: string): Promise<PipelineRecord> {
    const account = requireAccount(principal)
    requireId(id, 'pipeline')
    const record = await this.#context.read<PipelineRecord>(at.pipeline(principal.enterpriseId, account.id, id))
    if (!record) throw notFound('pipeline')
    return record
  }

  async #revision(pipeline: PipelineRecord, revision: number): Promise<RevisionRecord> {
    if (!Number.isInteger(revision) || revision < 1 || revision > LARGEST_REVISION) throw notFound('revision')
    const found = await this.#context.read<RevisionRecord>(at.revision(pipeline.id, revision))
    if (!found) throw notFound('revision')
    return found
  }

  async #published(record: PipelineRecord): Promise<PublishedDocument> {
    if (record.published_revision === null) throw notPublished(409)
    return this.#publishedOf(record, await this.#revision(record, record.published_revision))
  }

  #publishedOf({ id, account_id, title, published_at }: PipelineRecord, record: RevisionRecord): PublishedDocument {
    const { revision, config } = record
    return { id, account_id, title, revision, config, published_at: published_at! }
  }

  #kept({ revision, published_revision }: PipelineRecord): number[] {
    const first = Math.max(1, revision - this.#context.limits.revisions + 1)
    const kept = Array.from({ length: revision - first + 1 }, (_, i) => first + i)
    return published_revision !== null && published_revision < first ? [published_revision, ...kept] : kept
  }
}

const target = (id: string) => ({ type: 'pipeline', id })
const keyOf = ({ enterprise_id, account_id, id }: PipelineRecord) => at.pipeline(enterprise_id, account_id, id)

function notPublished(status: number, headers: Readonly<Record<string, string>> = {}): ApiError {
  const message = 'no revision of this pipeline is published yet; publish one first'
  return new ApiError(status, 'not_published', message, { headers })
}

/** Changes with everything that a pipeline shows. */
function pipelineTag({ version }: PipelineRecord, missingSecrets: readonly string[]): string {
  const missing = createHash('sha256').update(missingSecrets.join()).digest('hex').slice(0, 8)
  return missingSecrets.length === 0 ? `"v${version}"` : `"v${version}-${missing}"`
}

/** Changes with what daemons receive, but not with drafts. */
function publishedTag({ published_revision, published_at, title }: PipelineRecord): string {
  const mark = createHash('sha256').update(`${published_at} ${title}`).digest('hex').slice(0, 8)
  return `"r${published_revision}-${mark}"`
}

/** Throws 412 if `ifMatch` is given and does not contain `etag`. Weak tags never match. */
function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return
  if (ifMatch.split(',').some(tag => tag.trim() === etag)) return
  throw new ApiError(
    412,
    'precondition_failed',
    'the pipeline has changed since you read it; read it again and repeat the change',
    {
      headers: { etag },
    },
  )
}
