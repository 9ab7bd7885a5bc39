import { type Change, portionsOf } from '../../store/store.js'
import type { Context } from '../context.js'
import { at, type KeyRecord } from '../records.js'
import type { KeyEnd } from './keys.js'

const DAY_MS = 86_400_000
/** How long the service can explain why a key does not work. */
const REMEMBERED_MS = 30 * DAY_MS
/** Warns at most this long before the end, and only when less than this share of the key's life is left. */
const WARNED_MS = 7 * DAY_MS
const WARNED_SHARE = 0.2
const PORTION = 500

/** Checks keys in the order of their expiry: warns of those about to expire, and forgets those long expired. */
export class KeyEnds {
  /** As of the last check. */
  expiringSoon = 0
  expired = 0
  readonly #context: Context
  /** By key: whole days that were left at the last warning. */
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
    for await (const entries of portionsOf(context.store, at.keyEnds, PORTION)) {
      const changes: Change[] = []
      for (const { key, value } of entries) {
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
      if (changes.length > 0) await context.store.write(changes).catch(error => this.#cannotForget(error))
      if (entries.at(-1)!.key > at.keyEnds + horizon) break
    }
    this.#warned = warned
    this.expiringSoon = soon
    this.expired = expired
  }

  /** They grant nothing. The service starts and warns without it, too. */
  #cannotForget(error: unknown): void {
    this.#context.log.error({ err: error }, 'cannot remove keys that expired long ago; trying again in an hour')
  }

  #isSoon({ created_at }: KeyRecord, end: string): boolean {
    const [from, until] = [Date.parse(created_at), Date.parse(end)]
    return until - this.#context.clock.wall() <= Math.min(WARNED_MS, (until - from) * WARNED_SHARE)
  }

  /** Warns at most once a day for each key. */
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
