import { requireScope } from './accounts/access.js'
import type { Context } from './context.js'
import type { AuditDocument, Page } from './documents.js'
import { timeOfId } from './ids.js'
import type { PageQuery } from './inputs.js'
import type { Principal } from './keys/principal.js'
import { type AuditRecord, at } from './records.js'

const DAY_MS = 86_400_000
/** Entries looked at before others get their turn. */
const PORTION = 500

/** What was done, by whom. Entries are written together with the change they record, and never changed. */
export class Audit {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  /** Newest first. Of the account acted in; at enterprise scope what concerns no account. */
  async list(principal: Principal, page: PageQuery): Promise<Page<AuditDocument>> {
    requireScope(principal, principal.account ? 'account:manage' : 'enterprise:manage')
    return this.#context.pageBackwards<AuditRecord>(
      at.audit(principal.enterpriseId, principal.account?.id ?? null),
      page,
    )
  }

  /** Removes what is older than is kept. */
  async forgetOld(): Promise<void> {
    const { store, clock, limits } = this.#context
    const oldest = clock.wall() - limits.auditDays * DAY_MS
    let after: string | undefined
    for (;;) {
      const entries = await store.list(at.allAudit, { limit: PORTION, ...(after === undefined ? {} : { after }) })
      if (entries.length === 0) return
      const last = entries.at(-1)!.key
      const old = entries.filter(({ value }) => timeOfId((value as AuditRecord).id) < oldest)
      if (old.length > 0) await store.write(old.map(({ key }) => ({ key, value: undefined })))
      // The rest of an account's entries is younger still.
      after = old.at(-1)?.key === last ? last : `${last.slice(0, last.lastIndexOf('/'))}/~`
    }
  }
}
