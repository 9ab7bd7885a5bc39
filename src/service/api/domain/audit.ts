import type { AuditDocument, PageDocument } from '../../../daemon/client/documents.js'
import type { PageQuery } from '../../../daemon/client/inputs.js'
import { requireAuditRead } from './accounts/access.js'
import type { Context } from './context.js'
import { idAt } from './ids.js'
import { accountOf, type Principal } from './keys/principal.js'

const DAY_MS = 86_400_000

interface Row extends Pick<AuditDocument, 'id' | 'at' | 'action' | 'enterprise_id' | 'account_id'> {
  readonly entry: string
}

/** Records who did what. An entry is written together with the change it records, and never modified. */
export class Audit {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  /** Lists the entries of the current account or, at enterprise scope, of the enterprise itself, newest first. */
  async list(principal: Principal, page: PageQuery): Promise<PageDocument<AuditDocument>> {
    requireAuditRead(principal)
    const rows = {
      text: `SELECT id, at, action, enterprise_id, account_id, entry FROM audit
             WHERE id < $1 AND owner_id = $3 ORDER BY id DESC`,
      values: [accountOf(principal)],
      first: '~',
    }
    return this.#context.page(page, rows, ({ id, at, action, enterprise_id, account_id, entry }: Row) => {
      const { actor, ...rest } = JSON.parse(entry)
      return { id, at, action, actor, enterprise_id, account_id, ...rest }
    })
  }

  async forgetOld(): Promise<void> {
    const { store, clock, limits } = this.#context
    await store.run('DELETE FROM audit WHERE id < $1', idAt(clock.wall() - limits.auditDays * DAY_MS))
  }
}
