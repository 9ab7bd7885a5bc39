import type { CreatedUserKeyDocument, Page, UserKeyDocument } from './documents.js'
import type { PageQuery, UserKeyInput } from './inputs.js'
import type { Principal } from './principal.js'

/** Personal keys of the user who asks. */
export interface UserKeys {
  list(principal: Principal, page: PageQuery): Promise<Page<UserKeyDocument>>
  create(principal: Principal, input: UserKeyInput): Promise<CreatedUserKeyDocument>
  revoke(principal: Principal, id: string): Promise<void>
}
