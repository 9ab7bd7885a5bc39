import { existsSync } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Logger } from 'pino'
import type { DiskAllowance } from '../../../engine/flow/disk-allowance.js'
import type { Metrics } from '../../../engine/run/measure/metrics.js'
import { DiskReserve } from '../../../lib/files/disk/disk-reserve.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { type Clock, systemClock } from '../../../lib/time.js'
import { formatSize } from '../../../lib/units.js'
import { Refusal } from '../../../net/http/server/refusal.js'
import { KEY_BYTES } from '../idempotency-keys.js'
import type { BytesInStore } from '../process/messages.js'

/**
 * The disk usage of an account's pipelines, running or not. The account's process measures the pipelines' folders, with
 * their buffers and dead-letter queues. It decides whether events have room. The service stores idempotency keys and
 * saved revisions, and decides whether these have room. For this, it adds the sum that the process last reported for
 * the folders.
 */

/** An account counts as full if it uses this share of its disk space. */
const FULL = 0.9
const LOG_EVERY_MS = 60_000
export const DISK_FULL = 'the disk of data_dir is almost full, and the rest is reserved for keys and accounts'
/** Folders of a pipeline that grow with its events. */
const GROWING = ['state/buffer', 'state/spool', 'state/dead-letter', 'state/throttle']
/** Share of disk space that is reserved for revisions, so that a full account can still correct its pipelines. */
const RESERVED = 1 / 16
const MOST_RESERVED = 16 * 1024 * 1024

const reservedOf = (max: number) => Math.min(MOST_RESERVED, max * RESERVED)

interface DiskOptions {
  readonly account: string
  /** Contains the folders of the pipelines. */
  readonly folder: string
  readonly max: number
  readonly inStore: () => BytesInStore
  readonly log: Logger
  readonly clock: Clock
}

/** Runs in the process of an account. Counts the account's files, and decides whether more data has room. */
export class AccountDisk implements DiskAllowance {
  readonly max: number
  readonly #options: DiskOptions
  readonly #paths = new Map<string, { readonly bytes: () => number; readonly release?: (() => void) | undefined }>()
  readonly #measured = new Set<string>()
  readonly #reserve: DiskReserve
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(options: DiskOptions) {
    this.max = options.max
    this.#options = options
    this.#reserve = new DiskReserve(options.folder)
  }

  /** Bytes of all counted files. */
  get files(): number {
    let used = 0
    for (const { bytes } of this.#paths.values()) used += bytes()
    return used
  }

  hasRoom(bytes: number, isState?: boolean): boolean {
    const { keys, revisions } = this.#options.inStore()
    const used = this.files + keys + Math.max(reservedOf(this.max), revisions)
    const isWithin = used + bytes <= this.max
    if (isWithin && this.#reserve.hasRoom(bytes, isState)) return true
    this.#release()
    if (!isWithin) this.#tellFull()
    return false
  }

  /** Frees space on an almost full disk. While requests are refused, no call of hasRoom would do this. */
  relieve(): void {
    if (this.#reserve.isLow()) this.#release()
  }

  #release(): void {
    for (const { release } of this.#paths.values()) release?.()
  }

  count(path: string, bytes: () => number, release?: () => void): void {
    this.#paths.set(path, { bytes, release })
  }

  /** Counts the files of a pipeline, except files that a running component counts. */
  async measure(folder: string): Promise<void> {
    this.#measured.add(folder)
    const names = await Promise.all(
      GROWING.map(async name => (await namesIn(join(folder, name))).map(one => join(name, one))),
    )
    for (const name of names.flat()) {
      const path = join(folder, name)
      const bytes = await bytesOf(path)
      if (!this.#isLive(path)) this.count(path, () => bytes)
    }
    // Old names are removed only after the files were counted, so that a renamed file is always counted under at least
    // one name.
    for (const path of this.#paths.keys())
      if (path.startsWith(folder + sep) && !this.#isLive(path) && !existsSync(path)) this.#paths.delete(path)
  }

  async measureOnce(folders: readonly string[]): Promise<void> {
    for (const folder of folders) if (!this.#measured.has(folder)) await this.measure(folder)
  }

  forget(folder: string): void {
    for (const path of this.#paths.keys()) if (path.startsWith(folder + sep)) this.#paths.delete(path)
  }

  /** Whether a running component counts the file. */
  #isLive(path: string): boolean {
    return this.#paths.get(path)?.release !== undefined
  }

  #tellFull(): void {
    const { account, clock, log, inStore } = this.#options
    const { keys, revisions } = inStore()
    const now = clock.now()
    if (now - this.#loggedAt < LOG_EVERY_MS) return
    this.#loggedAt = now
    const used = formatSize(this.files + keys + revisions)
    log.warn(
      { code: 'SLUICE_ACCOUNT_DISK_FULL', account, used, max: formatSize(this.max) },
      'an account uses all of its disk space (buffers, dead-letter queues, idempotency keys, saved revisions): its pipelines wait, and ingest answers 503. Delete pipelines that are not needed, or raise max_disk_per_account',
    )
  }
}

interface DiskUse {
  readonly pipelines: Set<string>
  /** Bytes of the files of `pipelines`: the last sum from the process, plus files that were measured later. */
  files: number
}

interface DisksOptions {
  /** Contains a folder for each pipeline. */
  readonly folder: string
  /** Maximum bytes per account. */
  readonly max: number
  readonly metrics: Metrics
  readonly log: Logger
  readonly inStore: (account: string) => BytesInStore
}

export class AccountDisks {
  readonly #options: DisksOptions
  readonly #accounts = new Map<string, DiskUse>()
  readonly #reserve: DiskReserve
  readonly #limit = new LogLimit(systemClock)

  constructor(options: DisksOptions) {
    this.#options = options
    const { metrics, max, folder } = options
    this.#reserve = new DiskReserve(folder)
    const low = '1 if the disk has room only for the store: pipelines with a disk buffer accept no events.'
    metrics.daemonGauge('sluice_ingest_disk_full', low, () => (this.#reserve.isLow() ? 1 : 0))
    metrics.daemonGauge(
      'sluice_ingest_disk_bytes',
      'Disk space used by buffers, dead-letter queues and idempotency keys of published pipelines.',
      () =>
        [...this.#accounts].reduce((sum, [account, { files }]) => sum + files + this.#options.inStore(account).keys, 0),
    )
    metrics.daemonGauge(
      'sluice_ingest_full_accounts',
      'Accounts whose pipelines use at least 90 % of max_disk_per_account.',
      () => [...this.#accounts.keys()].filter(account => this.#taken(account) >= FULL * max).length,
    )
  }

  of(account: string): DiskUse {
    const use = this.#accounts.get(account) ?? { pipelines: new Set(), files: 0 }
    this.#accounts.set(account, use)
    return use
  }

  /** Returns a refusal of `bytes` of events if the rest of the disk is reserved for the store; otherwise undefined. */
  noRoomOnDisk(bytes = 0): Refusal | undefined {
    if (!this.#reserve.isLow(bytes)) return undefined
    const { folder, log } = this.#options
    const more = this.#limit.next('full')
    if (more) log.error({ code: 'SLUICE_DISK_FULL', folder, ...more }, `${DISK_FULL}; ingest answers 503. Make room`)
    return new Refusal(503, 'disk_full', `${DISK_FULL}; send this again later`, { 'retry-after': '30' })
  }

  hasRoomForRevisions(account: string, bytes: number): boolean {
    const { max, inStore } = this.#options
    return inStore(account).revisions + bytes <= reservedOf(max) || this.#taken(account) + bytes <= max
  }

  /** Returns the reason if the account cannot store another idempotency key; otherwise undefined. */
  noRoomForKey(account: string): Refusal | undefined {
    const full = this.noRoomOnDisk()
    if (full) return full
    const { max, inStore } = this.#options
    const reserved = Math.max(0, reservedOf(max) - inStore(account).revisions)
    if (this.#taken(account) + reserved + KEY_BYTES <= max) return undefined
    const message = `the idempotency-key cannot be saved: this account uses all of its ${formatSize(max)} of disk space (buffers, dead-letter queues, idempotency keys, saved revisions); delete pipelines that are not needed, or send this again later`
    return new Refusal(503, 'account_disk_full', message, { 'retry-after': '30' })
  }

  #taken(account: string): number {
    const { keys, revisions } = this.#options.inStore(account)
    return this.of(account).files + keys + revisions
  }

  /** Counts the files of a pipeline that has not run yet. */
  async measure(account: string, pipeline: string): Promise<void> {
    const use = this.of(account)
    const bytes = use.pipelines.has(pipeline) ? 0 : await this.#bytesOf(pipeline)
    if (bytes === 0 || use.pipelines.has(pipeline)) return
    use.pipelines.add(pipeline)
    use.files += bytes
  }

  /**
   * Stops counting a pipeline's files. Call it before the pipeline's folder is removed. Resolves with the pipeline's
   * account if the pipeline may have files.
   */
  async forget(pipeline: string): Promise<string | undefined> {
    const bytes = await this.#bytesOf(pipeline)
    const [account, use] = [...this.#accounts].find(([, { pipelines }]) => pipelines.delete(pipeline)) ?? []
    if (use) use.files = Math.max(0, use.files - bytes)
    return account
  }

  async #bytesOf(pipeline: string): Promise<number> {
    const folder = join(this.#options.folder, pipeline)
    const parts = await Promise.all(GROWING.map(name => bytesOf(join(folder, name))))
    return parts.reduce((sum, bytes) => sum + bytes, 0)
  }
}

/** Names in a folder; empty if it cannot be read. The pipeline reports the error when it uses the folder. */
const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])

/** Bytes of a file, or of all files below a folder; 0 if it cannot be read. */
async function bytesOf(path: string): Promise<number> {
  const found = await lstat(path).catch(() => undefined)
  if (!found?.isDirectory()) return found?.size ?? 0
  let bytes = 0
  for (const name of await namesIn(path)) bytes += await bytesOf(join(path, name))
  return bytes
}
