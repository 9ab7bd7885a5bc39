import type { Change, Store } from '../../store/store.js'
import type { Context } from '../context.js'
import { ApiError } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import { at, type PipelineRecord, type RevisionRecord } from '../records.js'

/** Whether an account may store this many more bytes. */
export type HasRoom = (account: string, bytes: number) => boolean

/** Disk usage of the saved revisions of each account: counted in memory, and stored by pipeline. */
export class RevisionSizes {
  readonly #pipelines = new Map<string, Map<string, number>>()
  readonly #accounts = new Map<string, number>()
  /** By default only the number of revisions is limited. */
  hasRoom: HasRoom = () => true

  async load(store: Store): Promise<void> {
    for (const { key, value } of await store.list(at.allRevisionBytes)) {
      const [account, pipeline] = key.slice(at.allRevisionBytes.length).split('/')
      this.set(account!, pipeline!, value as number)
    }
  }

  /** The sum over all pipelines. */
  get all(): number {
    let bytes = 0
    for (const own of this.#accounts.values()) bytes += own
    return bytes
  }

  of(account: string): number {
    return this.#accounts.get(account) ?? 0
  }

  /** Throws ApiError 409 if `more` bytes would exceed the limit of the account. */
  requireRoom(account: string, more: number): void {
    if (more <= 0 || this.hasRoom(account, more)) return
    const message = `the pipelines of this account take all the disk space that they may use; the saved revisions take ${this.of(account)} bytes of it, the rest is buffers, dead-letter queues and idempotency keys. Delete pipelines that are not needed`
    throw new ApiError(409, 'account_disk_full', message)
  }

  /** The size of a pipeline's revisions after adding `more` bytes, which may be negative. */
  after(account: string, pipeline: string, more: number): number {
    return Math.max(0, (this.#pipelines.get(account)?.get(pipeline) ?? 0) + more)
  }

  /** Records what was written; undefined: the pipeline is gone. */
  set(account: string, pipeline: string, bytes: number | undefined): void {
    const own = this.#pipelines.get(account) ?? new Map<string, number>()
    const before = own.get(pipeline) ?? 0
    if (bytes === undefined) own.delete(pipeline)
    else own.set(pipeline, bytes)
    if (own.size === 0) this.#pipelines.delete(account)
    else this.#pipelines.set(account, own)
    const left = this.of(account) - before + (bytes ?? 0)
    if (left > 0) this.#accounts.set(account, left)
    else this.#accounts.delete(account)
  }
}

export function revisionSize(record: RevisionRecord): number {
  return Buffer.byteLength(JSON.stringify(record))
}

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
