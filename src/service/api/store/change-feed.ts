import type { Client } from 'pg'
import type { Logger } from 'pino'
import { errorText } from '../../../core/errors.js'
import { every, systemClock } from '../../../lib/time.js'
import type { StoreMonitor } from './monitor.js'

/**
 * Reads the changes of other nodes from the table `change`, each second and after each notification. The ids in this
 * table are in the order of commits. While the table cannot be read, all caches are emptied each second.
 */

const LOOK_MS = 1000
const CHANNEL = 'sluice_change'
const KEPT_MS = 3_600_000
const PRUNE_EVERY = 1800

export const CREATE_FEED = `
  CREATE TABLE change (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), node text NOT NULL,
    tables text NOT NULL);
  CREATE INDEX change_at ON change (at)`

/**
 * Returns SQL to run before the COMMIT of a change. Its second statement inserts and returns the row of the change. The
 * lock is held until the commit, so the ids of rows are in the order of commits.
 */
export function publishChange(node: string, tables: readonly string[]): string {
  const row = `INSERT INTO change (node, tables) VALUES ('${node}', '${tables.join(' ')}') RETURNING ${PLACE}`
  return `LOCK TABLE change IN EXCLUSIVE MODE; ${row}; NOTIFY ${CHANNEL}`
}

export interface ChangePlace {
  readonly id: number
  /** Seconds since 1970. */
  readonly at: number
}

interface Row extends ChangePlace {
  readonly node: string
  readonly tables: string
}

const PLACE = 'id, extract(epoch FROM at) AS at'
const ROW = `SELECT ${PLACE}, node, tables FROM change`

interface FeedOptions {
  /** The name of this node. The feed ignores its own changes. */
  readonly node: () => string
  readonly log: Logger
  readonly monitor: StoreMonitor
  readonly connect: () => Promise<Client>
  /** Called when the feed has reconnected, possibly to another server. */
  readonly reconnected: () => void
}

export class ChangeFeed {
  readonly #options: FeedOptions
  readonly #stop: () => void
  #client: Client | undefined
  /** The newest row that was read; undefined if the table was empty. */
  #seen: ChangePlace | undefined
  /** The newest row of this node that PostgreSQL has confirmed. */
  #own: ChangePlace | undefined
  #reading: Promise<void> | undefined
  #isNoticed = false
  #isDeaf = false
  #readAt = systemClock.now()
  #ticks = 0

  private constructor(options: FeedOptions) {
    this.#options = options
    this.#stop = every(LOOK_MS, () => this.#tick())
  }

  static async open(options: FeedOptions): Promise<ChangeFeed> {
    const feed = new ChangeFeed(options)
    try {
      feed.#seen = await feed.#newest(await feed.#listen())
      options.monitor.current(systemClock.now())
      return feed
    } catch (error) {
      await feed.close()
      throw error
    }
  }

  /** Called when PostgreSQL has confirmed a change of this node. */
  confirmed(place: ChangePlace): void {
    this.#own = place
  }

  #tick(): void {
    this.#ticks++
    // The previous read did not complete within a second, so any table may have changed.
    if (this.#reading) this.#options.monitor.changed(undefined)
    else this.#look()
  }

  #look(): void {
    this.#reading = this.#read()
      .catch(error => this.#lost(error))
      .finally(() => {
        this.#reading = undefined
        if (this.#isNoticed && !this.#isDeaf) this.#look()
      })
  }

  async #listen(): Promise<Client> {
    if (this.#client) return this.#client
    const client = await this.#options.connect()
    this.#client = client
    client.on('notification', () => {
      this.#isNoticed = true
      if (!this.#reading) this.#look()
    })
    await client.query(`LISTEN ${CHANNEL}`)
    return client
  }

  async #read(): Promise<void> {
    this.#isNoticed = false
    const { node, log, monitor, reconnected } = this.#options
    const client = await this.#listen()
    const began = systemClock.now()
    const [seen, own] = [this.#seen, this.#own]
    const { rows } = await client.query<Row>(`${ROW} WHERE id >= $1 ORDER BY id`, [seen?.id ?? 0])
    const now = systemClock.now()
    const wasAway = now - this.#readAt > KEPT_MS / 2
    this.#readAt = now
    if (this.#isDeaf) {
      log.info('the changes of other nodes can be read again')
      reconnected()
      monitor.changed(undefined)
      monitor.readable(true)
    }
    this.#isDeaf = false
    const missing = [seen, own].find(place => place && place.id >= (seen?.id ?? 0) && !rows.some(isAt(place)))
    if (missing) {
      monitor.changed(undefined)
      const newest = await this.#newest(client)
      // If this node has not read for a long time and newer rows exist, other nodes may have pruned the missing row.
      // Otherwise, PostgreSQL has lost changes.
      if (!wasAway || (newest?.id ?? 0) < missing.id) monitor.lost(await this.#lastBefore(client, missing))
      this.#seen = newest
      if (this.#own === own) this.#own = undefined
    } else {
      const others = (seen ? rows.slice(1) : rows).filter(row => row.node !== node())
      this.#seen = rows.at(-1)
      if (others.length > 0) monitor.changed(new Set(others.flatMap(({ tables }) => tables.split(' '))))
    }
    monitor.current(began)
    if (this.#ticks % PRUNE_EVERY === 1) await this.#prune(client)
  }

  async #newest(client: Client): Promise<Row | undefined> {
    return (await client.query<Row>(`${ROW} ORDER BY id DESC LIMIT 1`)).rows[0]
  }

  /** Returns the time of the newest row before `at`, in milliseconds since 1970. */
  async #lastBefore(client: Client, { at }: ChangePlace): Promise<number> {
    const text = `${ROW} WHERE extract(epoch FROM at) < $1 ORDER BY id DESC LIMIT 1`
    const last = (await client.query<Row>(text, [at])).rows[0]
    return (last?.at ?? 0) * 1000
  }

  /** Removes old rows but keeps the newest of them, because each node looks for the last row that it has read. */
  async #prune(client: Client): Promise<void> {
    const old = `SELECT max(id) FROM change WHERE at < now() - interval '${KEPT_MS} milliseconds'`
    await client.query(`DELETE FROM change WHERE id < (${old})`)
  }

  #lost(error: unknown): void {
    const { log, monitor } = this.#options
    const text = 'cannot read the changes of other nodes; meanwhile, nothing is cached for longer than a second'
    if (!this.#isDeaf) log.warn({ error: errorText(error) }, text)
    this.#isDeaf = true
    this.#disconnect()
    monitor.readable(false)
    monitor.changed(undefined)
  }

  #disconnect(): void {
    this.#client?.end().catch(() => {})
    this.#client = undefined
  }

  async close(): Promise<void> {
    this.#stop()
    while (this.#reading) await this.#reading
    this.#disconnect()
  }
}

function isAt({ id, at }: ChangePlace): (row: Row) => boolean {
  return row => row.id === id && row.at === at
}
