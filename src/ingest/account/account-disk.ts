import { type Dirent, existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Logger } from 'pino'
import type { Metrics } from '../../engine/measure/metrics.js'
import type { DiskAllowance } from '../../flow/disk-allowance.js'
import type { Clock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import { KEY_FILES } from '../known-keys.js'

/** An account that takes this share of its allowance counts as full. */
const FULL = 0.9
const LOG_EVERY_MS = 60_000
/** Folders of a pipeline that grow with its events, see flow/disk-buffer and engine/dead-letter. */
const GROWING = ['state/buffer', 'state/dead-letter']
/** What events always leave to saved revisions, so that a pipeline whose events fill the disk can be corrected. */
const RESERVED = 1 / 16
const MOST_RESERVED = 16 * 1024 * 1024

/**
 * What the pipelines of one account take on the disk, also those that do not run: buffers, dead letters and idempotency
 * keys in their folders, and saved revisions in the store of the service.
 */
class AccountDisk implements DiskAllowance {
  readonly max: number
  readonly #paths = new Map<string, { readonly bytes: () => number; readonly release?: (() => void) | undefined }>()
  readonly #revisions: () => number
  readonly #reserved: number
  readonly #tellFull: (used: number) => void

  constructor(max: number, revisions: () => number, tellFull: (used: number) => void) {
    this.max = max
    this.#revisions = revisions
    this.#reserved = Math.min(MOST_RESERVED, max * RESERVED)
    this.#tellFull = tellFull
  }

  /** Bytes of files. */
  get files(): number {
    let used = 0
    for (const { bytes } of this.#paths.values()) used += bytes()
    return used
  }

  get used(): number {
    return this.files + this.#revisions()
  }

  hasRoom(bytes: number): boolean {
    const used = this.files + Math.max(this.#reserved, this.#revisions())
    if (used + bytes <= this.max) return true
    for (const { release } of this.#paths.values()) release?.()
    this.#tellFull(this.used)
    return false
  }

  /** Whether revisions may take `bytes` more. */
  hasRoomForRevisions(bytes: number): boolean {
    return this.#revisions() + bytes <= this.#reserved || this.used + bytes <= this.max
  }

  count(path: string, bytes: () => number, release?: () => void): void {
    this.#paths.set(path, { bytes, release })
  }

  /** Whether a buffer that runs counts itself. */
  isLive(path: string): boolean {
    return this.#paths.get(path)?.release !== undefined
  }

  /** A rename or the removal of what nobody needs leaves paths that are gone. */
  forgetMissing(folder: string): void {
    for (const path of this.#paths.keys())
      if (path.startsWith(folder + sep) && !this.isLive(path) && !existsSync(path)) this.#paths.delete(path)
  }

  forget(folder: string): void {
    for (const path of this.#paths.keys()) if (path.startsWith(folder + sep)) this.#paths.delete(path)
  }
}

interface Options {
  /** For each account. */
  readonly max: number
  readonly log: Logger
  readonly clock: Clock
  readonly metrics: Metrics
  /** Bytes that the saved revisions of an account take in the store. */
  readonly revisionBytes: (account: string) => number
}

/** The allowances of all accounts. */
export class AccountDisks {
  readonly #options: Options
  readonly #accounts = new Map<string, AccountDisk>()
  readonly #loggedAt = new Map<string, number>()

  constructor(options: Options) {
    this.#options = options
    const { metrics, max } = options
    const all = () => [...this.#accounts.values()]
    metrics.daemonGauge(
      'sluice_ingest_disk_bytes',
      'Bytes that buffers, dead letters and idempotency keys of published pipelines take on the disk.',
      () => all().reduce((sum, { files }) => sum + files, 0),
    )
    metrics.daemonGauge(
      'sluice_ingest_full_accounts',
      'Accounts whose pipelines take more than 90 % of max_disk_per_account.',
      () => all().filter(({ used }) => used >= FULL * max).length,
    )
  }

  of(account: string): AccountDisk {
    let disk = this.#accounts.get(account)
    if (!disk) {
      const { max, revisionBytes } = this.#options
      disk = new AccountDisk(
        max,
        () => revisionBytes(account),
        used => this.#tellFull(account, used),
      )
      this.#accounts.set(account, disk)
    }
    return disk
  }

  /** Counts what the folder of a pipeline holds, as far as it is not counted by what runs. */
  async measure(account: string, folder: string): Promise<void> {
    const disk = this.of(account)
    disk.forgetMissing(folder)
    for (const name of KEY_FILES) {
      const path = join(folder, name)
      const { size = 0 } = disk.isLive(path) ? {} : ((await stat(path).catch(() => undefined)) ?? {})
      if (size > 0 && !disk.isLive(path)) disk.count(path, () => size)
    }
    for (const name of GROWING) {
      for (const entry of await entriesOf(join(folder, name))) {
        const path = join(folder, name, entry.name)
        const bytes = await sizeOf(path, entry)
        if (!disk.isLive(path)) disk.count(path, () => bytes)
      }
    }
  }

  /** The folder of a pipeline was removed. */
  forget(folder: string): void {
    for (const disk of this.#accounts.values()) disk.forget(folder)
  }

  #tellFull(account: string, used: number): void {
    const { clock, log, max } = this.#options
    const now = clock.now()
    if (now - (this.#loggedAt.get(account) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return
    this.#loggedAt.set(account, now)
    log.warn(
      { code: 'SLUICE_ACCOUNT_DISK_FULL', account, used: formatSize(used), max: formatSize(max) },
      'the pipelines of an account take all the disk space that it may use (buffers, dead letters, idempotency keys, saved revisions): they wait, and senders are answered 503. Remove what is not needed, or raise max_disk_per_account',
    )
  }
}

/** Nothing for a folder that cannot be read: the pipeline reports that itself when it uses it. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  return await readdir(folder, { withFileTypes: true }).catch(() => [])
}

/** Files may disappear meanwhile. */
async function sizeOf(path: string, entry: Dirent): Promise<number> {
  if (!entry.isDirectory()) return (await stat(path).catch(() => undefined))?.size ?? 0
  let bytes = 0
  for (const inner of await entriesOf(path)) bytes += await sizeOf(join(path, inner.name), inner)
  return bytes
}
