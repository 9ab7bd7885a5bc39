import type { AuditDocument, Page } from './documents.js'
import type { PageQuery } from './inputs.js'
import type { Principal } from './principal.js'

export interface Audit {
  /** Newest first. Of the account acted in; at enterprise scope what concerns no account. */
  list(principal: Principal, page: PageQuery): Promise<Page<AuditDocument>>
}
