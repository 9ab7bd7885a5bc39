import type { Change } from '../../store/store.js'
import type { Context } from '../context.js'
import { at, type KeyRecord } from '../records.js'
import type { KeyEnd } from './keys.js'

const DAY_MS = 86_400_000
/** How long the service remembers why a key does not work. */
const REMEMBERED_MS = 30 * DAY_MS
/** Warned of at most so long before, and not before this share of a key's life is left. */
const WARNED_MS = 7 * DAY_MS
const WARNED_SHARE = 0.2
const PORTION = 500

/** Looks at keys in the order of their ends: warns of those that come, and forgets those that are long past. */
export class KeyEnds {
  /** As of the last look. */
  expiringSoon = 0
  expired = 0
  readonly #context: Context
  /** Whole days left when a key was last warned of. */
  #warned = new Map<string, number>()

  constructor(context: Context) {
    this.#context = context
  }

  async look(): Promise<void> {
    const context = this.#context
    const now = context.time()
    const horizon = context.time(WARNED_MS)
    const forgotten = context.time(-REMEMBERED_MS)
    const warned = new Map<string, number>()
    let [soon, expired] = [0, 0]
    let after: string | undefined
    for (;;) {
      const options = { limit: PORTION, ...(after === undefined ? {} : { after }) }
      const entries = await context.store.list(at.keyEnds, options)
      const changes: Change[] = []
      for (const { key, value } of entries) {
        after = key
        const [, end = ''] = key.split('/')
        const record = await context.read<KeyRecord>(at.key((value as KeyEnd).hash))
        if (!record || end <= forgotten) changes.push(...forget(key, (value as KeyEnd).hash, record))
        else if (record.revoked_at !== null) continue
        else if (end <= now) expired++
        else if (this.#isSoon(record, end)) {
          soon++
          warned.set(record.id, this.#warn(record, end))
        }
      }
      if (changes.length > 0) await context.store.write(changes)
      if (entries.length === 0 || (after !== undefined && after > at.keyEnds + horizon)) break
    }
    this.#warned = warned
    this.expiringSoon = soon
    this.expired = expired
  }

  #isSoon({ created_at }: KeyRecord, end: string): boolean {
    const [from, until] = [Date.parse(created_at), Date.parse(end)]
    return until - this.#context.clock.wall() <= Math.min(WARNED_MS, (until - from) * WARNED_SHARE)
  }

  /** Once a day for each key. */
  #warn({ id, type, subject_id, account_id, expires_at }: KeyRecord, end: string): number {
    const days = Math.floor((Date.parse(end) - this.#context.clock.wall()) / DAY_MS)
    if (this.#warned.get(id) !== days) {
      const fields = { key_id: id, type, subject: subject_id, account: account_id, expires_at }
      this.#context.log.warn(fields, 'an access key expires soon; rotate it')
    }
    return days
  }
}

function forget(key: string, hash: string, record: KeyRecord | undefined): Change[] {
  const gone = [key, at.key(hash)]
  if (record) {
    const { id, enterprise_id, account_id, subject_id } = record
    gone.push(at.keyUse(id))
    if (record.type === 'personal') gone.push(at.userKey(enterprise_id, account_id!, subject_id, id))
  }
  return gone.map(key => ({ key, value: undefined }))
}
