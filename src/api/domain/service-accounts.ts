import type { KeyedServiceAccountDocument, Page, ServiceAccountDocument } from './documents.js'
import type { PageQuery, RotateInput, ServiceAccountInput } from './inputs.js'
import type { Principal } from './principal.js'

/** Of the account acted in; at enterprise scope those of the enterprise. */
export interface ServiceAccounts {
  list(principal: Principal, page: PageQuery): Promise<Page<ServiceAccountDocument>>
  get(principal: Principal, id: string): Promise<ServiceAccountDocument>
  create(principal: Principal, input: ServiceAccountInput): Promise<KeyedServiceAccountDocument>
  /** A new key; also for one whose key was revoked. */
  rotate(principal: Principal, id: string, input: RotateInput): Promise<KeyedServiceAccountDocument>
  /** Its key (and one within a grace) stops at once. */
  revoke(principal: Principal, id: string): Promise<void>
  remove(principal: Principal, id: string): Promise<void>
}
