import type { PipelineDocument } from '../../../../daemon/client/documents.js'

/** A pipeline. The draft of a pipeline is its latest revision. */
export interface PipelineRow extends Omit<PipelineDocument, 'config' | 'missing_secrets' | 'published_revision'> {
  readonly published_revision: number | null
  readonly published_at: string | null
  /** Every change increments this number, from which the ETag is made. */
  readonly version: number
}
