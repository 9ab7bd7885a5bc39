import type { InvitedUserDocument, Page, UserDocument } from './documents.js'
import type { InvitationInput, PageQuery, UserInput, UserUpdate } from './inputs.js'
import type { Principal } from './principal.js'

export interface Users {
  list(principal: Principal, page: PageQuery): Promise<Page<UserDocument>>
  get(principal: Principal, id: string): Promise<UserDocument>
  /** With a first key, for that person to make their own with. */
  create(principal: Principal, input: UserInput): Promise<InvitedUserDocument>
  /** Acts on the keys of the user at once. */
  update(principal: Principal, id: string, input: UserUpdate): Promise<UserDocument>
  /** Another first key, for who has lost theirs. */
  invite(principal: Principal, id: string, input: InvitationInput): Promise<InvitedUserDocument>
  /** With all keys. */
  remove(principal: Principal, id: string): Promise<void>
}
