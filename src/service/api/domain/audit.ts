import { requireAuditRead } from './accounts/access.js'
import type { Context } from './context.js'
import type { AuditDocument, Page } from './documents.js'
import { timeOfId } from './ids.js'
import type { PageQuery } from './inputs.js'
import type { Principal } from './keys/principal.js'
import { type AuditRecord, at } from './records.js'

const DAY_MS = 86_400_000
/** Entries processed before other work gets a turn. */
const PORTION = 500

/** Records who did what. An entry is written together with the change it records, and never modified. */
export class Audit {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  /** Newest first. Entries of the account acted in, or of the enterprise itself at enterprise scope. */
  async list(principal: Principal, page: PageQuery): Promise<Page<AuditDocument>> {
    requireAuditRead(principal)
    return this.#context.page<AuditRecord>(at.audit(principal.enterpriseId, principal.account?.id ?? null), page, true)
  }

  /** Removes entries older than the retention period. */
  async forgetOld(): Promise<void> {
    const { store, clock, limits } = this.#context
    const oldest = clock.wall() - limits.auditDays * DAY_MS
    let after: string | undefined
    for (;;) {
      const entries = await store.list(at.allAudit, { after, limit: PORTION })
      if (entries.length === 0) return
      const last = entries.at(-1)!.key
      const old = entries.filter(({ value }) => timeOfId((value as AuditRecord).id) < oldest)
      if (old.length > 0) await store.write(old.map(({ key }) => ({ key, value: undefined })))
      // All other entries of this account are newer.
      after = old.at(-1)?.key === last ? last : `${last.slice(0, last.lastIndexOf('/'))}/~`
    }
  }
}
