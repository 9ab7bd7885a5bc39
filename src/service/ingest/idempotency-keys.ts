import { createCipheriv, createHmac, hash } from 'node:crypto'
import type { Logger } from 'pino'
import { LogLimit } from '../../lib/log-limit.js'
import { type Clock, every } from '../../lib/time.js'
import type { WholeBody } from '../../net/http/events/send-body.js'
import { Refusal } from '../../net/http/server/refusal.js'
import type { Nodes } from '../api/nodes.js'
import { type Sql, type Store, StoreError, type Value } from '../api/store/store.js'

/**
 * The idempotency keys of requests, one row each. A request that is repeated with its key counts once, across all nodes
 * of the service. Invariants: a key is claimed before the body of its request is passed on. The row of a key gets its
 * event count only when these events are safe.
 *
 * A node renews a claim while its request is in progress. The claims of a killed node therefore end after a minute. A
 * service that is alone on its store needs no claims, because its memory contains all requests in progress.
 */

const KEPT_MS = 12 * 3_600_000
const CLAIMED_MS = 60_000
const SWEEP_MS = 20_000
/** Interval at which one node removes keys for all nodes. Long, because counting keys takes time. */
const SHARED_SWEEP_MS = 55_000
/** Maximum keys per account. */
const MOST_KEYS = 262_144
/** Rows per DELETE. Few, because the embedded store blocks the process during each DELETE. */
const BATCH = 500
/** Approximate bytes of one key on disk, including indexes. */
export const KEY_BYTES = 256

const CLAIM = `
  INSERT INTO idempotency (pipeline_id, key, account_id, body, received, until) VALUES ($1, $2, $3, $4, NULL, $5)
  ON CONFLICT (pipeline_id, key) DO UPDATE SET body = excluded.body, received = NULL, until = excluded.until
  WHERE idempotency.until < $6`
const KNOWN = 'SELECT body, received FROM idempotency WHERE pipeline_id = $1 AND key = $2 AND until >= $3'
/** For a key without a claim: records how many events were received. Replaces the row if the key has expired. */
const SAVE = CLAIM.replace('NULL, $5)', '$7, $5)').replace('received = NULL', 'received = excluded.received')
/** Renews a claim, or records how many events were received. */
const KEEP = 'UPDATE idempotency SET received = $3, until = $4 WHERE pipeline_id = $1 AND key = $2 AND received IS NULL'
const RELEASE = 'DELETE FROM idempotency WHERE pipeline_id = $1 AND key = $2 AND received IS NULL'
/** Conditions for removal: expired keys of an account, the account's oldest keys, and all keys of a pipeline. */
const [OVER, OLDEST, REMOVED] = [
  'account_id = $2 AND until < $3',
  'account_id = $2 AND received IS NOT NULL ORDER BY until',
  'pipeline_id = $2',
] as const

export interface KeyedRequest {
  readonly account: string
  readonly pipeline: string
  readonly key: string
  readonly body: Omit<WholeBody, 'release'>
  /** Why another key cannot be stored; undefined if it can. */
  readonly noRoom: Refusal | undefined
}

/** A request in progress. If the request is repeated with the same key, both get the same answer. */
interface Attempt {
  readonly row: readonly [pipeline: string, key: string]
  readonly account: string
  readonly body: string
  readonly answer: Promise<Received>
  /** Whether this attempt passes events on. If another node does, this node must not renew the claim of that node. */
  isOwn?: true
  /** The number of events, set if it could not be saved in the row. */
  received?: number
}

export interface Received {
  readonly received: number
  readonly repeated?: true
}

interface Options {
  readonly clock: Clock
  readonly log: Logger
  /** All nodes have the same secret. */
  readonly secret: Buffer
  /** The nodes that share the store; undefined for an embedded store. */
  readonly nodes?: Nodes | undefined
  /** Whether this service is the only one on the store. It then makes no claims. */
  readonly isAlone?: boolean
  /** Default: MOST_KEYS. */
  readonly mostKeys?: number
}

export class IdempotencyKeys {
  readonly #store: Store
  readonly #options: Options
  readonly #limit: LogLimit
  /** Authenticates the bodies of requests. */
  readonly #secret: Buffer
  readonly #attempts = new Map<string, Attempt>()
  /** Number of keys by account. */
  readonly #counts = new Map<string, number>()
  /** When this node last counted the keys, if nodes share the store. */
  #loadedAt = 0
  readonly #stopSweeping: () => void
  /** Number of attempts whose number of events could not be saved. */
  #unsaved = 0
  /** Number of keys that were removed before they expired. */
  forgotten = 0

  static async open(store: Store, options: Options): Promise<IdempotencyKeys> {
    const keys = new IdempotencyKeys(store, options)
    if (!options.nodes) await keys.#load()
    return keys
  }

  private constructor(store: Store, options: Options) {
    this.#store = store
    this.#options = options
    this.#limit = new LogLimit(options.clock)
    this.#secret = createHmac('sha256', options.secret).update('idempotency keys').digest()
    this.#stopSweeping = every(SWEEP_MS, () => void this.sweep().catch(() => {}))
  }

  async #load(): Promise<void> {
    const text = 'SELECT account_id, count(*) AS size FROM idempotency GROUP BY account_id'
    const rows = await this.#store.all<{ account_id: string; size: number }>(text)
    this.#counts.clear()
    for (const { account_id, size } of rows) this.#count(account_id, Number(size))
  }

  /** Number of keys. If nodes share the store, the node that sweeps has the number at its last sweep; others have 0. */
  get size(): number {
    return [...this.#counts.values()].reduce((sum, size) => sum + size, 0)
  }

  /** Bytes that the keys of an account take on the disk of this node; 0 if nodes share the store. */
  bytesOf(account: string): number {
    return this.#options.nodes ? 0 : (this.#counts.get(account) ?? 0) * KEY_BYTES
  }

  /**
   * Calls `take` once per key and body. A repeated request resolves with the result of the first call. Throws Refusal.
   */
  async once(request: KeyedRequest, take: () => Promise<Received>): Promise<Received> {
    const { account, pipeline, key } = request
    const body = digestOf(request.body, this.#secret, account, pipeline, key)
    const name = `${pipeline} ${key}`
    const underWay = this.#attempts.get(name)
    if (underWay) {
      if (underWay.body !== body) throw reused()
      return await underWay.answer
    }
    const row = [pipeline, nameOf(key)] as const
    const answer = this.#known(request, row, body).then(known => known ?? this.#take(attempt, take))
    const attempt: Attempt = { row, account, body, answer }
    this.#attempts.set(name, attempt)
    try {
      return await answer
    } finally {
      if (attempt.received === undefined) this.#attempts.delete(name)
    }
  }

  /**
   * Resolves with the result of an earlier request. For a first request, claims the key if needed, and resolves with
   * undefined.
   */
  async #known({ account, noRoom }: KeyedRequest, row: Attempt['row'], body: string): Promise<Received | undefined> {
    const now = this.#now()
    const { isAlone } = this.#options
    try {
      if (isAlone && this.#unsaved > 0) await this.#saveAttempts()
      if (!isAlone && !noRoom && (await this.#run(row, CLAIM, account, body, now + CLAIMED_MS, now)) > 0) {
        this.#countOwn(account, 1)
        return undefined
      }
      const known = await this.#store.get<{ body: string; received: number | null }>(KNOWN, ...row, now)
      if (!known && noRoom) throw noRoom
      if (!known && isAlone) return undefined
      if (known && known.body !== body) throw reused()
      if (typeof known?.received !== 'number') throw underWayElsewhere()
      return { received: known.received, repeated: true }
    } catch (error) {
      throw error instanceof StoreError ? unsaved() : error
    }
  }

  async #take(attempt: Attempt, take: () => Promise<Received>): Promise<Received> {
    const { row, account } = attempt
    attempt.isOwn = true
    try {
      const { received } = await take()
      // The events are safe. If saving their number fails, the attempt stays in memory until saving succeeds.
      await this.#store
        .change(row.join(' '), sql => this.#keep(sql, attempt, received))
        .then(
          () => this.#options.isAlone && this.#count(account, 1),
          () => {
            attempt.received = received
            this.#unsaved++
          },
        )
      return { received }
    } catch (error) {
      if (this.#options.isAlone) throw error
      await this.#run(row, RELEASE).then(
        released => this.#countOwn(account, -released),
        () => {},
      )
      throw error
    }
  }

  /** Saves the number of events. If `received` is null, renews the claim instead. */
  async #keep(sql: Sql, { row, account, body }: Attempt, received: number | null): Promise<void> {
    const now = this.#now()
    const until = now + (received === null ? CLAIMED_MS : KEPT_MS)
    if (!this.#options.isAlone) await sql.run(KEEP, ...row, received, until)
    else if (received !== null) await sql.run(SAVE, ...row, account, body, until, now, received)
  }

  /** Renews claims, and saves the event counts that could not be saved before. Rejects with StoreError. */
  async #saveAttempts(): Promise<void> {
    const attempts = [...this.#attempts]
      .filter(([, { isOwn }]) => isOwn)
      .map(([name, attempt]) => ({ name, attempt, received: attempt.received }))
    if (attempts.length > 0)
      await this.#store.change('', async sql => {
        for (const { attempt, received = null } of attempts) await this.#keep(sql, attempt, received)
      })
    for (const { name, attempt, received } of attempts) {
      if (received === undefined || !this.#attempts.delete(name)) continue
      this.#unsaved--
      if (this.#options.isAlone) this.#count(attempt.account, 1)
    }
  }

  /** Changes one row, without waiting for changes of other rows. */
  #run(row: Attempt['row'], text: string, ...values: Value[]): Promise<number> {
    return this.#store.change(row.join(' '), sql => sql.run(text, ...row, ...values))
  }

  /** Renews claims and removes expired keys. Runs every 20 seconds. Rejects with StoreError. */
  async sweep(): Promise<void> {
    const now = this.#now()
    await this.#saveAttempts()
    const { nodes } = this.#options
    if (nodes) {
      if (!(await nodes.takes('idempotency keys', SHARED_SWEEP_MS))) {
        // Another node sweeps and reports the number.
        if (now - this.#loadedAt > 2 * SHARED_SWEEP_MS) this.#counts.clear()
        return
      }
      await this.#load()
      this.#loadedAt = now
    }
    for (const account of [...this.#counts.keys()]) {
      await this.#drop(Number.POSITIVE_INFINITY, OVER, account, now)
      const more = (this.#counts.get(account) ?? 0) - (this.#options.mostKeys ?? MOST_KEYS)
      if (more > 0) this.#tellForgotten(account, await this.#drop(more, OLDEST, account))
    }
  }

  /** Removes the keys of a removed pipeline. Rejects with StoreError. */
  async remove(pipeline: string): Promise<void> {
    await this.#drop(Number.POSITIVE_INFINITY, REMOVED, pipeline)
  }

  /** Resolves when all requests in progress have ended. */
  async stop(): Promise<void> {
    this.#stopSweeping()
    await Promise.allSettled([...this.#attempts.values()].map(({ answer }) => answer))
  }

  /** Removes at most `most` rows. Resolves with their number. */
  async #drop(most: number, which: string, ...values: Value[]): Promise<number> {
    const some = `SELECT pipeline_id, key FROM idempotency WHERE ${which} LIMIT $1`
    const text = `DELETE FROM idempotency WHERE (pipeline_id, key) IN (${some}) RETURNING account_id`
    for (let dropped = 0; ; ) {
      const limit = Math.min(BATCH, most - dropped)
      const rows = await this.#store.change('', sql => sql.all<{ account_id: string }>(text, limit, ...values))
      for (const { account_id } of rows) this.#count(account_id, -1)
      dropped += rows.length
      if (rows.length < BATCH) return dropped
    }
  }

  /** Counts a key of a request. If nodes share the store, only sweeps count, because any node may remove the key. */
  #countOwn(account: string, more: number): void {
    if (!this.#options.nodes) this.#count(account, more)
  }

  #count(account: string, more: number): void {
    const size = (this.#counts.get(account) ?? 0) + more
    if (size > 0) this.#counts.set(account, size)
    else this.#counts.delete(account)
  }

  #tellForgotten(account: string, forgotten: number): void {
    const { log, mostKeys: max = MOST_KEYS } = this.#options
    this.forgotten += forgotten
    const more = this.#limit.next('keys')
    if (more)
      log.warn(
        { code: 'SLUICE_KEYS_FORGOTTEN', account, forgotten, max, ...more },
        'the pipelines of an account have too many idempotency keys; the oldest keys were forgotten. If a request with a forgotten key is repeated, its events can be delivered twice. Use fewer keys: send more events in each request',
      )
  }

  #now(): number {
    return Math.floor(this.#options.clock.wall())
  }
}

/** Hashes a key, since clients may choose any text as a key. */
function nameOf(key: string): string {
  return hash('sha256', key, 'base64url').slice(0, 24)
}

/** Each idempotency key has its own key for AES, so the nonce may be constant. */
const NONCE = Buffer.alloc(12)

/**
 * Computes a body's digest with a secret. Otherwise, a client that knows another client's key could find a body with
 * the same digest. AES-GCM without a plaintext takes a quarter of the time of SHA-256.
 */
function digestOf({ bytes, size, content }: KeyedRequest['body'], secret: Buffer, ...of: readonly string[]): string {
  const key = createHmac('sha256', secret)
    .update(JSON.stringify([...of, content]))
    .digest()
  const cipher = createCipheriv('aes-256-gcm', key, NONCE).setAAD(bytes.subarray(0, size))
  cipher.final()
  return cipher.getAuthTag().toString('base64url')
}

function reused(): Refusal {
  return new Refusal(
    422,
    'idempotency_key_reused',
    'this idempotency-key was already used with another body; use a new key',
  )
}

function underWayElsewhere(): Refusal {
  const message = 'the events with this idempotency-key are still being delivered; send this again with the same key'
  return new Refusal(503, 'not_delivered_yet', message, { 'retry-after': '1' })
}

function unsaved(): Refusal {
  const message = 'the idempotency-key cannot be saved: the service cannot use its store at the moment; send this again'
  // Another node may accept the request at once.
  return new Refusal(503, 'store_unusable', message, { 'retry-after': '1' })
}
