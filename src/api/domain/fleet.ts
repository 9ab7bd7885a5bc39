import type { DaemonDocument, Page } from './documents.js'
import type { PageQuery, ReportInput } from './inputs.js'
import type { Principal } from './principal.js'

export interface Fleet {
  /** Daemons of the account's pipelines, of all accounts at enterprise scope. */
  list(principal: Principal, page: PageQuery): Promise<Page<DaemonDocument>>
  /** Needs `pipeline:read`; kept in memory first, written every few seconds. */
  report(principal: Principal, input: ReportInput): Promise<DaemonDocument>
}
