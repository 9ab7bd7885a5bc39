import type { AccountDocument, CreatedAccountDocument, Page } from './documents.js'
import type { AccountInput, PageQuery } from './inputs.js'
import type { Principal } from './principal.js'

export interface Accounts {
  /** Of the enterprise; enterprise tokens only, without delegation. */
  list(principal: Principal, page: PageQuery): Promise<Page<AccountDocument>>
  create(principal: Principal, input: AccountInput): Promise<CreatedAccountDocument>
  /** The account acted in. */
  current(principal: Principal): Promise<AccountDocument>
  /** The beta gate; `feature` unknown: 404. A manager's personal key only. */
  setFeature(principal: Principal, feature: string, enabled: boolean): Promise<AccountDocument>
}
