import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode } from '../../core/errors.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { LogLimit } from '../../lib/log-limit.js'
import { type Clock, every } from '../../lib/time.js'
import type { Sql, Store } from './store/store.js'

/**
 * The nodes of a service are processes that share its database. Each node increments its `beat` every second. A node
 * counts as gone after another node has read the same beat ten times. Nodes count reads and do not compare times:
 * clocks differ, and while the database fails, no node can write its beat.
 */

export interface Nodes {
  /** Number of running nodes, including this one. */
  readonly live: number
  readonly gone: readonly ServiceNode[]
  /** Claims a job for `ms` milliseconds. Resolves with false if a node has already claimed it. Throws StoreError. */
  takes(job: string, ms: number): Promise<boolean>
  forgetOld(): Promise<void>
}

export interface ServiceNode {
  readonly id: string
  /** Host name of the node's machine. */
  readonly name: string
  readonly seen_at: string
  /** Events in the node's disk buffers at `seen_at`. */
  readonly events: number
}

/** The nodes of a service that does not share its store. */
export const SINGLE_NODE: Nodes = { live: 1, gone: [], takes: async () => true, async forgetOld() {} }

interface Row extends ServiceNode {
  readonly beat: number
}

interface Known {
  readonly beat: number
  /** Number of consecutive reads that found the other node's beat unchanged. */
  readonly readings: number
}

const BEAT_MS = 1000
const GONE_READINGS = 10
const DAY_MS = 86_400_000
/** Days after which a gone node is removed. The first number is for nodes whose disk buffers are empty. */
const FORGOTTEN_DAYS = [1, 30] as const
/**
 * A larger difference between the clocks of two nodes is logged, because claims of idempotency keys expire by these
 * clocks. A stored time that is further in the future was written by a clock that was wrong, and may be replaced by an
 * earlier time.
 */
export const CLOCKS_MS = 20_000
const FILE = 'node-id'

interface Options {
  readonly store: Store
  readonly dataDir: string
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  /** Default: BEAT_MS. */
  readonly beatMs?: number
}

export class SharedNodes implements Nodes {
  live = 1
  gone: readonly ServiceNode[] = []
  /** Events in the disk buffers of this node; undefined while not known. */
  events: () => number | undefined = () => undefined
  readonly #options: Options
  readonly #id: string
  readonly #limit: LogLimit
  #known = new Map<string, Known>()
  /** Ids of nodes that were logged because they are gone or because their clocks differ. */
  readonly #logged = { gone: new Set<string>(), clocks: new Set<string>() }
  #beat: number | undefined
  #beating: Promise<void> | undefined
  readonly #stop: () => void

  static async open(options: Options): Promise<SharedNodes> {
    const nodes = new SharedNodes(options, await idIn(options))
    await nodes.#look()
    return nodes
  }

  private constructor(options: Options, id: string) {
    this.#options = options
    this.#id = id
    this.#limit = new LogLimit(options.clock)
    this.#stop = every(options.beatMs ?? BEAT_MS, () => void this.#look())
  }

  async takes(job: string, ms: number): Promise<boolean> {
    const now = this.#now()
    const until = now + ms
    const text = `INSERT INTO job (name, until) VALUES ($1, $2)
                  ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE job.until <= $3 OR job.until > $4`
    const values = [job, until, now, until + CLOCKS_MS]
    return (await this.#options.store.change(`job ${job}`, sql => sql.run(text, ...values))) > 0
  }

  async forgetOld(): Promise<void> {
    const [empty, full] = FORGOTTEN_DAYS.map(days => this.#time(-days * DAY_MS))
    await this.#options.store.run(
      'DELETE FROM node WHERE seen_at < $1 AND events = 0 OR seen_at < $2',
      ...[empty!, full!],
    )
  }

  /** If the disk buffers are empty, removes this node. Otherwise, saves how many events they hold. */
  async close(): Promise<void> {
    this.#stop()
    await this.#beating
    const { store } = this.#options
    const ended = store.change(this.#id, async sql => {
      if (this.events() === 0) await sql.run('DELETE FROM node WHERE id = $1', this.#id)
      else await this.#save(sql)
    })
    await ended.catch(() => {})
  }

  #look(): Promise<void> {
    if (this.#beating) return this.#beating
    const done = () => {
      this.#beating = undefined
    }
    // After a failed read, the known nodes stay as they were. The store logs the failure.
    this.#beating = this.#read().then(done, done)
    return this.#beating
  }

  async #read(): Promise<void> {
    const rows = await this.#options.store.change(this.#id, async sql => {
      await this.#save(sql)
      return await sql.all<Row>('SELECT id, name, beat, seen_at, events FROM node')
    })
    const before = this.#known
    this.#known = new Map(rows.map(({ id, beat }) => [id, this.#seen(beat, before.get(id))]))
    const isGone = ({ id }: Row) => id !== this.#id && this.#known.get(id)!.readings >= GONE_READINGS
    this.gone = rows.filter(isGone)
    this.live = rows.length - this.gone.length
    for (const row of rows) this.#tell(row, isGone(row))
  }

  #seen(beat: number, before: Known | undefined): Known {
    return { beat, readings: before?.beat === beat ? before.readings + 1 : 0 }
  }

  async #save(sql: Sql): Promise<void> {
    const { beat } = (await sql.get<{ beat: number }>(
      `INSERT INTO node (id, name, beat, seen_at, events) VALUES ($1, $2, 1, $3, coalesce(CAST($4 AS bigint), 0))
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, beat = node.beat + 1, seen_at = excluded.seen_at,
         events = coalesce(CAST($4 AS bigint), node.events)
       RETURNING beat`,
      ...[this.#id, hostname(), this.#time(), this.events() ?? null],
    ))!
    const { log, dataDir } = this.#options
    const isTwice = this.#beat !== undefined && beat > this.#beat + 1
    const more = isTwice && this.#limit.next('twice')
    if (more)
      log.error(
        { code: 'SLUICE_NODE_TWICE', id: this.#id, ...more },
        `two nodes of the service have the same id; stop one, and remove ${join(dataDir, FILE)} there`,
      )
    this.#beat = beat
  }

  #tell({ id, name, seen_at, events }: Row, isGone: boolean): void {
    const { log } = this.#options
    const { gone, clocks } = this.#logged
    const fields = { id, name, seen_at, events }
    if (!isGone && gone.delete(id)) log.info({ id, name }, 'a node of the service runs again')
    if (isGone && !gone.has(id)) {
      gone.add(id)
      const text = 'a node of the service does not run; the events in its disk buffers wait until it runs again'
      log.warn({ code: 'SLUICE_NODE_GONE', ...fields }, text)
    }
    const differs = this.#known.get(id)!.readings === 0 && Math.abs(Date.parse(seen_at) - this.#now()) > CLOCKS_MS
    if (!differs || this.#beat === 1 || clocks.has(id)) return
    clocks.add(id)
    log.warn(
      { id, name, seen_at },
      'the clock of another node of the service differs; idempotency keys need clocks that agree',
    )
  }

  #now(): number {
    return Math.floor(this.#options.clock.wall())
  }

  #time(laterMs = 0): string {
    return new Date(this.#now() + laterMs).toISOString()
  }
}

/** Returns the node's id. It is stored beside the disk buffers, because the buffers belong to the node with this id. */
async function idIn({ dataDir, random }: Options): Promise<string> {
  const path = join(dataDir, FILE)
  try {
    const id = (await readFile(path, 'latin1')).trim()
    if (/^[0-9a-f]{16}$/.test(id)) return id
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
  const id = random(8).toString('hex')
  await writeAtomic(path, `${id}\n`)
  return id
}
