import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { KeyDocument } from '../../../../daemon/client/documents.js'
import { CLOCKS_MS } from '../../nodes.js'
import type { Sql } from '../../store/store.js'
import { type Context, tooMany } from '../context.js'
import { forbidden } from '../errors.js'
import type { TokenType } from './principal.js'

/** Access keys. The key itself is returned once; only its HMAC is stored. */

const RANDOM_BYTES = 20
const PREFIXES: Readonly<Record<TokenType, string>> = {
  service_account: 'sts_',
  enterprise_service_account: 'ste_',
  personal: 'sta_',
}
const KEY = /^(sts|ste|sta)_[0-9a-f]{40}$/
const DAY_MS = 86_400_000
/** How long revoked and expired keys are kept, so that an error can explain why such a key does not work. */
const REMEMBERED_MS = 30 * DAY_MS
/** A key expires soon if its remaining time is below WARNED_MS and also below WARNED_SHARE of the key's validity. */
const WARNED_MS = 7 * DAY_MS
const WARNED_SHARE = 0.2

export function isKey(text: string): boolean {
  return KEY.test(text)
}

/** A value of `gives_until`: the key can create keys that do not expire. */
export const NEVER = 'never'

export interface NewKey {
  readonly type: TokenType
  readonly subject_id: string
  readonly enterprise_id: string
  readonly account_id: string | null
  /** null: the key does not expire. */
  readonly expires_at: string | null
  readonly title?: string
  /** JSON; null for all scopes of the subject. */
  readonly scopes?: string | null
  /** The key with which the same user created this key. Revoking the parent also revokes this key. */
  readonly parent_id?: string
  /**
   * Only for the first key of a user: the latest end of keys that are created with the first key, or NEVER. Any other
   * key can only create keys that end no later than the creating key.
   */
  readonly gives_until?: string
}

/** A key that expires soon, or has expired and is still kept. */
interface Ending {
  readonly id: string
  readonly type: TokenType
  readonly subject_id: string
  readonly account_id: string | null
  readonly created_at: string
  readonly expires_at: string
}

export class AccessKeys {
  /** Number of keys that expire soon, and of expired keys that are not deleted yet, as of the last check. */
  expiringSoon = 0
  expired = 0
  readonly #context: Context
  readonly #secret: KeyObject
  /** For each key id: the time of the last use that is not written to the store yet. */
  #uses = new Map<string, string>()
  /** For each key id: how many whole days of validity were left at the last warning. */
  #warned = new Map<string, number>()

  constructor(context: Context, secret: Buffer) {
    this.#context = context
    this.#secret = createSecretKey(secret)
  }

  /** The hash under which a key is stored and found. */
  hash(key: string): Buffer {
    return createHmac('sha256', this.#secret).update(key).digest()
  }

  /** Adds a key. The returned `key` is not stored, so it can only be shown now. */
  async add(sql: Sql, of: NewKey): Promise<{ key: string; document: KeyDocument }> {
    const { random, ids } = this.#context
    const key = PREFIXES[of.type] + random(RANDOM_BYTES).toString('hex')
    const document = { id: ids.next(), created_at: this.#context.time(), expires_at: of.expires_at, last_used_at: null }
    await sql.run(
      `INSERT INTO access_key (id, hash, type, subject_id, enterprise_id, account_id, title, scopes, parent_id,
         created_at, expires_at, gives_until)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
      ...[document.id, this.hash(key).toString('hex'), of.type, of.subject_id, of.enterprise_id, of.account_id],
      ...[of.title ?? '', of.scopes ?? null, of.parent_id ?? null],
      ...[document.created_at, of.expires_at, of.gives_until ?? null],
    )
    return { key, document }
  }

  /**
   * Revokes all keys of a subject, except the key with the id `except`. This includes expired keys, which would work
   * again if the clock of this node is ahead.
   */
  async revoke(sql: Sql, subject: string, except = ''): Promise<void> {
    await sql.run(
      'UPDATE access_key SET revoked_at = $3 WHERE subject_id = $1 AND id <> $2 AND revoked_at IS NULL',
      ...[subject, except, this.#context.time()],
    )
  }

  /**
   * Makes room for one more key of a user. At the limit, removes expired keys. Throws ApiError 409 if the other keys
   * already reach the limit.
   */
  async makeRoom(sql: Sql, user: string): Promise<void> {
    const most = this.#context.limits.keysPerUser
    const text = `
      SELECT count(*) AS kept, sum(CASE WHEN expires_at <= $2 THEN 1 ELSE 0 END) AS ended
      FROM access_key WHERE subject_id = $1 AND revoked_at IS NULL`
    const now = this.#context.time()
    const { kept, ended } = (await sql.get<{ kept: number; ended: number | null }>(text, user, now))!
    if (Number(kept) < most) return
    if (Number(kept) - Number(ended) >= most) throw tooMany(most, 'personal keys of a user')
    await this.#remove(sql, 'subject_id = $1 AND revoked_at IS NULL AND expires_at <= $2', user, now)
  }

  async #remove(sql: Sql, conditions: string, ...values: readonly string[]): Promise<void> {
    const keys = await sql.all<{ id: string }>(`DELETE FROM access_key WHERE ${conditions} RETURNING id`, ...values)
    for (const { id } of keys) await sql.run('DELETE FROM key_use WHERE key_id = $1', id)
  }

  used(id: string): void {
    this.#uses.set(id, this.#context.time())
  }

  show({ id, created_at, expires_at, last_used_at }: KeyDocument): KeyDocument {
    return { id, created_at, expires_at, last_used_at: this.#uses.get(id) ?? last_used_at }
  }

  async flush(): Promise<void> {
    if (this.#uses.size === 0) return
    const uses = this.#uses
    this.#uses = new Map()
    try {
      await this.#context.store.change('', async sql => {
        for (const [id, time] of uses)
          await sql.run(
            `INSERT INTO key_use (key_id, at) VALUES ($1, $2)
             ON CONFLICT (key_id) DO UPDATE SET at = excluded.at WHERE key_use.at < excluded.at OR key_use.at > $3`,
            ...[id, time, this.#context.time(CLOCKS_MS)],
          )
      })
    } catch (error) {
      this.#uses = new Map([...uses, ...this.#uses])
      throw error
    }
  }

  /** Counts keys that expire soon. With `isTurn`, also logs these keys, and removes keys that expired long ago. */
  async checkEnds(isTurn = true): Promise<void> {
    const context = this.#context
    const forgotten = context.time(-REMEMBERED_MS)
    if (isTurn)
      await this.#forget(forgotten).catch(error =>
        // Ended keys do not grant anything, so starting does not require their removal.
        context.log.error({ err: error }, 'cannot remove keys that expired long ago; trying again in an hour'),
      )
    const ending = await context.store.all<Ending>(
      `SELECT id, type, subject_id, account_id, created_at, expires_at FROM access_key
       WHERE revoked_at IS NULL AND expires_at > $1 AND expires_at <= $2`,
      ...[forgotten, context.time(WARNED_MS)],
    )
    const now = context.time()
    const soon = ending.filter(one => one.expires_at > now && this.#isSoon(one))
    if (isTurn) this.#warned = new Map(soon.map(one => [one.id, this.#warn(one)]))
    this.expiringSoon = soon.length
    this.expired = ending.filter(({ expires_at }) => expires_at <= now).length
  }

  async #forget(until: string): Promise<void> {
    const { store } = this.#context
    const ended = 'revoked_at <= $1 OR expires_at <= $1'
    // Avoids a write at each start.
    if (await store.get(`SELECT id FROM access_key WHERE ${ended} LIMIT 1`, until))
      await store.change('', sql => this.#remove(sql, ended, until))
  }

  #isSoon({ created_at, expires_at }: Ending): boolean {
    const [from, until] = [Date.parse(created_at), Date.parse(expires_at)]
    return until - this.#context.clock.wall() <= Math.min(WARNED_MS, (until - from) * WARNED_SHARE)
  }

  /** Warns at most once a day for each key. Returns the days left. */
  #warn({ id, type, subject_id, account_id, expires_at }: Ending): number {
    const days = Math.floor((Date.parse(expires_at) - this.#context.clock.wall()) / DAY_MS)
    if (this.#warned.get(id) !== days) {
      const fields = { key_id: id, type, subject: subject_id, account: account_id, expires_at }
      this.#context.log.warn(fields, 'an access key expires soon; rotate it')
    }
    return days
  }
}

/**
 * Returns when a new key ends: `wantedMs` from now, or `usualMs` by default. `givesUntil` is the latest end that the
 * creating key may give. If the default is later, returns `givesUntil`. If `wantedMs` is later, throws 403.
 */
export function endOfNew(
  context: Pick<Context, 'time'>,
  givesUntil: string | null,
  wantedMs: number | undefined,
  usualMs?: number,
): string | null {
  const ms = wantedMs ?? usualMs
  const end = ms === undefined ? null : context.time(ms)
  if (givesUntil === null || (end !== null && end <= givesUntil)) return end
  if (wantedMs === undefined) return givesUntil
  throw forbidden(
    'end_exceeded',
    `this key cannot create a key that expires after ${givesUntil}; send a shorter expires_in, or leave it out`,
  )
}

/** Timestamps of the same format can be compared as text. */
export function isOver(expiresAt: string | null, now: string): boolean {
  return expiresAt !== null && expiresAt <= now
}
