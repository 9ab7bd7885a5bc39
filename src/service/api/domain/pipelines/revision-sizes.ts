import type { Store } from '../../store/store.js'
import { ApiError } from '../errors.js'
import { at, type RevisionRecord } from '../records.js'

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
    const message = `the pipelines of this account take all the disk space that they may use; the saved revisions take ${this.of(account)} bytes of it, the rest is buffers, dead letters and idempotency keys. Delete pipelines that are not needed`
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
