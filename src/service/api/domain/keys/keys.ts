import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { Change } from '../../store/store.js'
import type { Scope } from '../accounts/scopes.js'
import type { Context } from '../context.js'
import type { KeyDocument } from '../documents.js'
import { forbidden } from '../errors.js'
import { at, type KeyRecord, type KeyRef } from '../records.js'
import type { TokenType } from './principal.js'

/** Access keys. The key itself is returned once; only its HMAC is stored. Keys are also indexed by their end. */

const RANDOM_BYTES = 20
const PREFIXES: Readonly<Record<TokenType, string>> = {
  service_account: 'sts_',
  enterprise_service_account: 'ste_',
  personal: 'sta_',
}
const KEY = /^(sts|ste|sta)_[0-9a-f]{40}$/

/** Whether a text has the form of a key. */
export function isKey(text: string): boolean {
  return KEY.test(text)
}

/** Stored under `key-end/TIME/ID`. */
export interface KeyEnd {
  readonly hash: string
}

export interface NewKey {
  readonly type: TokenType
  readonly subjectId: string
  readonly enterpriseId: string
  readonly accountId: string | null
  readonly scopes: readonly Scope[] | null
  /** null: it does not expire. */
  readonly expiresAt: string | null
  /** For first keys, see KeyRecord. */
  readonly givesUntil?: string | null
}

export interface MadeKey {
  /** To be shown once. */
  readonly key: string
  readonly ref: KeyRef
  readonly changes: readonly Change[]
}

export class Keys {
  readonly #context: Context
  readonly #secret: KeyObject
  /** Last uses of keys that have not been written to the store yet. */
  #uses = new Map<string, string>()

  constructor(context: Context, secret: Buffer) {
    this.#context = context
    this.#secret = createSecretKey(secret)
  }

  /** The changes make the key valid once they are written. */
  make({ type, subjectId, enterpriseId, accountId, scopes, expiresAt, givesUntil }: NewKey): MadeKey {
    const context = this.#context
    const key = PREFIXES[type] + context.random(RANDOM_BYTES).toString('hex')
    const hash = this.hash(key).toString('hex')
    const ref: KeyRef = {
      id: context.ids.next(),
      hash,
      created_at: context.time(),
      expires_at: expiresAt,
    }
    const record: KeyRecord = {
      ...ref,
      type,
      subject_id: subjectId,
      enterprise_id: enterpriseId,
      account_id: accountId,
      scopes,
      revoked_at: null,
      ...(givesUntil === undefined ? {} : { gives_until: givesUntil }),
    }
    return { key, ref, changes: [{ key: at.key(hash), value: record }, ...endOf(ref)] }
  }

  /** The form in which a key is stored and found. */
  hash(key: string): Buffer {
    return createHmac('sha256', this.#secret).update(key).digest()
  }

  /** The record of the key with this hash, including ended ones; undefined if there is none. */
  async find(hash: Buffer): Promise<KeyRecord | undefined> {
    const record = await this.#context.read<KeyRecord>(at.key(hash.toString('hex')))
    return record && timingSafeEqual(Buffer.from(record.hash, 'hex'), hash) ? record : undefined
  }

  /** Ends a key now or after `graceMs`, unless it expires earlier; `left` is the key that remains valid until then. */
  async end(ref: KeyRef | null, graceMs = 0): Promise<{ changes: readonly Change[]; left: KeyRef | null }> {
    const record = ref && (await this.#context.read<KeyRecord>(at.key(ref.hash)))
    if (!ref || !record || record.revoked_at !== null || isOver(ref.expires_at, this.#context.time())) {
      return { changes: [], left: null }
    }
    const then = this.#context.time(graceMs)
    if (graceMs > 0 && isOver(ref.expires_at, then)) return { changes: [], left: ref }
    const left = { ...ref, expires_at: then }
    const ended: KeyRecord = graceMs > 0 ? { ...record, expires_at: then } : { ...record, revoked_at: then }
    const changes = [{ key: at.key(ref.hash), value: ended }, ...endOf(left)]
    if (ref.expires_at !== null) changes.unshift({ key: at.keyEnd(ref.expires_at, ref.id), value: undefined })
    return { changes, left: graceMs > 0 ? left : null }
  }

  used(id: string): void {
    this.#uses.set(id, this.#context.time())
  }

  async show(ref: KeyRef): Promise<KeyDocument> {
    const { id, created_at, expires_at } = ref
    const used = this.#uses.get(id) ?? (await this.#context.read<string>(at.keyUse(id)))
    return { id, created_at, expires_at, last_used_at: used ?? null }
  }

  /** Writes the last uses to the store. */
  async flush(): Promise<void> {
    if (this.#uses.size === 0) return
    const uses = this.#uses
    this.#uses = new Map()
    try {
      await this.#context.store.write([...uses].map(([id, time]) => ({ key: at.keyUse(id), value: time })))
    } catch (error) {
      this.#uses = new Map([...uses, ...this.#uses])
      throw error
    }
  }
}

/** The index entry of a key by its end. */
function endOf({ id, hash, expires_at }: KeyRef): Change[] {
  return expires_at === null ? [] : [{ key: at.keyEnd(expires_at, id), value: { hash } satisfies KeyEnd }]
}

/**
 * The end of a new key: `wantedMs` from now, or `usualMs` by default, and never later than `givesUntil`, the latest end
 * that the creating key may give. Throws 403 if a later end was requested.
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
    `this key cannot make a key that ends after ${givesUntil}; ask for a shorter expires_in, or leave it out`,
  )
}

/** Timestamps of the same format can be compared as text. */
export function isOver(expiresAt: string | null, now: string): boolean {
  return expiresAt !== null && expiresAt <= now
}
