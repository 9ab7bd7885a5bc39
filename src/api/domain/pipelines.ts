import type { Page, PipelineDocument, PublishedDocument, RevisionDocument } from './documents.js'
import type { PageQuery, PipelineInput, PipelineUpdate, PublishInput } from './inputs.js'
import type { Principal } from './principal.js'

/** A document with the strong ETag of what it shows, quotes and all. */
export interface Tagged<T> {
  readonly document: T
  readonly etag: string
}

/** Hears of every publish, and with undefined of a pipeline that was deleted. */
export type PublishListener = (pipelineId: string, published: PublishedDocument | undefined) => void

export interface Pipelines {
  /** At enterprise scope those of all accounts. */
  list(principal: Principal, page: PageQuery): Promise<Page<PipelineDocument>>
  create(principal: Principal, input: PipelineInput): Promise<Tagged<PipelineDocument>>
  get(principal: Principal, id: string): Promise<Tagged<PipelineDocument>>
  /** `ifMatch`: the header as it came; 412 when the pipeline has another ETag. 400 with `config.…` places. */
  update(principal: Principal, id: string, input: PipelineUpdate, ifMatch?: string): Promise<Tagged<PipelineDocument>>
  remove(principal: Principal, id: string, ifMatch?: string): Promise<void>
  /** The latest revision, or an earlier one: rolls back. 403 feature_not_enabled. */
  publish(principal: Principal, id: string, input: PublishInput, ifMatch?: string): Promise<Tagged<PipelineDocument>>
  /** Newest first. */
  revisions(principal: Principal, id: string, page: PageQuery): Promise<Page<RevisionDocument>>
  revision(principal: Principal, id: string, revision: number): Promise<RevisionDocument>
  /** What a daemon takes; 409 not_published. */
  published(principal: Principal, id: string): Promise<Tagged<PublishedDocument>>
  /** What the service itself runs for a request of `ingest:write`; 409 not_published. */
  forIngest(principal: Principal, id: string): Promise<PublishedDocument>
  /** Every published pipeline of everybody, for the service's own engine. */
  allPublished(): AsyncIterable<PublishedDocument>
  onPublish(listener: PublishListener): () => void
}
