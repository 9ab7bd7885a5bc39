import type { Change } from '../../store/store.js'
import type { Context } from '../context.js'
import type { Principal } from '../keys/principal.js'
import { at, type PipelineRecord, type RevisionRecord } from '../records.js'
import { type RevisionSizes, revisionSize } from './revision-sizes.js'

/** Changes to write, and a callback for when they are written. */
interface Write {
  readonly changes: readonly Change[]
  readonly done: () => void
}

/** Creates the changes of the store that add and remove revisions, including the size of their pipeline. */
export class RevisionWrites {
  readonly #context: Context
  readonly #sizes: RevisionSizes

  constructor(context: Context, sizes: RevisionSizes) {
    this.#context = context
    this.#sizes = sizes
  }

  /** Adds a revision and removes the one that it leaves no room for. Throws ApiError 409 if the account has no room. */
  async add(pipeline: PipelineRecord, { subject }: Principal): Promise<Write> {
    const { id, account_id, revision, config, updated_at, published_revision } = pipeline
    const value: RevisionRecord = {
      pipeline_id: id,
      revision,
      config,
      created_at: updated_at,
      created_by: { id: subject.id, email: subject.email },
    }
    const oldest = revision - this.#context.limits.revisions
    const old = oldest < 1 || oldest === published_revision ? undefined : at.revision(id, oldest)
    const more = revisionSize(value) - (await this.#sizeOf(old))
    this.#sizes.requireRoom(account_id, more)
    const removed = old === undefined ? [] : [{ key: old, value: undefined }]
    return this.#write(pipeline, [{ key: at.revision(id, revision), value }, ...removed], more)
  }

  async remove(pipeline: PipelineRecord, revision: number | undefined): Promise<Write> {
    if (revision === undefined) return { changes: [], done: () => {} }
    const key = at.revision(pipeline.id, revision)
    return this.#write(pipeline, [{ key, value: undefined }], -(await this.#sizeOf(key)))
  }

  #write({ id, account_id }: PipelineRecord, changes: readonly Change[], more: number): Write {
    const bytes = this.#sizes.after(account_id, id, more)
    return {
      changes: [...changes, { key: at.revisionBytes(account_id, id), value: bytes }],
      done: () => this.#sizes.set(account_id, id, bytes),
    }
  }

  async #sizeOf(key: string | undefined): Promise<number> {
    const record = key === undefined ? undefined : await this.#context.read<RevisionRecord>(key)
    return record ? revisionSize(record) : 0
  }
}
